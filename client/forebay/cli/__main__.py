"""Makes `python -m forebay.cli` the same as `forebay`."""

from __future__ import annotations

from forebay.cli.main import main

main()
