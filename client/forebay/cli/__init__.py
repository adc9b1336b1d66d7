"""The `forebay` command.

Importing this package imports nothing that an extra brings: what a command needs is imported when it runs, so
that `forebay --help` is quick and a missing extra is one sentence instead of a stack trace.
"""

from __future__ import annotations

from forebay.cli.main import main, run

__all__ = ["main", "run"]
