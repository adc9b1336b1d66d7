"""Times as typed by users."""

from __future__ import annotations

from datetime import datetime

from forebay.cli.exits import ExitCode
from forebay.cli.report import CommandFailed


def parse_time(text: str) -> datetime:
    """Return a typed time; without a zone it is local. Raises `CommandFailed`."""
    try:
        return datetime.fromisoformat(text).astimezone()
    except ValueError as error:
        raise CommandFailed(
            f"time = {text!r}: must be ISO 8601, such as 2026-01-31T12:00:00", ExitCode.USAGE
        ) from error
