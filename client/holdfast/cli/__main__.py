"""Makes `python -m holdfast.cli` the same as `holdfast`."""

from __future__ import annotations

from holdfast.cli.main import main

main()
