"""Entry point of `python -m forebay.cli`, equivalent to `forebay`."""

from __future__ import annotations

from forebay.cli.main import main

main()
