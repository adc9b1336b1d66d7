"""The `forebay` command.

Importing this package imports no module of an extra. Commands import their modules when they run, so that
`forebay --help` is fast and a missing extra is one sentence instead of a stack trace.
"""

from __future__ import annotations

from forebay.cli.main import main, run

__all__ = ["main", "run"]
