"""Times as people type them."""

from __future__ import annotations

from datetime import datetime

from forebay.cli.exits import ExitCode
from forebay.cli.report import CommandFailed


def parse_time(text: str) -> datetime:
    """A time as typed; without a zone it is local. Raises `CommandFailed`."""
    try:
        return datetime.fromisoformat(text).astimezone()
    except ValueError as error:
        raise CommandFailed(f"{text!r} is not a time such as 2026-01-31T12:00:00", ExitCode.USAGE) from error
