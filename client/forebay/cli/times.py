"""Times as typed and as shown. One rule for the zone: that of this machine, or UTC with ``--utc``."""

from __future__ import annotations

from contextvars import ContextVar
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from forebay.cli.exits import ExitCode
from forebay.cli.report import CommandFailed
from forebay.text.quantities import seconds_of

FORMS: Final = "a time (2026-01-31T12:00, in local time or with a zone), or a time ago (30m, -2d)"

ZONE: Final[ContextVar[tzinfo | None]] = ContextVar("forebay_zone", default=None)
"""Zone of times without one, typed or shown; None is that of this machine."""


def parse_time(text: str, *, now: datetime | None = None) -> datetime:
    """Return a typed time: ISO 8601, ``now``, or a duration, which is a time ago. Raises `CommandFailed`."""
    typed = text.strip()
    now = now or datetime.now(UTC)
    try:
        return in_zone(datetime.fromisoformat(typed))
    except ValueError:
        pass
    if typed == "now":
        return in_zone(now)
    try:
        if typed.removeprefix("-").replace(".", "").isdigit():
            raise ValueError("a plain number is no time")
        return in_zone(now - timedelta(seconds=seconds_of(typed.removeprefix("-").strip())))
    except (ValueError, OverflowError) as error:
        raise CommandFailed(f"time = {text!r}: must be {FORMS}", ExitCode.USAGE) from error


def in_zone(moment: datetime) -> datetime:
    """Return a time in the chosen zone; a time without a zone is in it already.

    At the ends of the calendar, where the zone has no year for it, the time keeps its own zone.
    """
    zone = ZONE.get()
    if moment.tzinfo is None and zone is not None:
        return moment.replace(tzinfo=zone)
    try:
        return moment.astimezone(zone)
    except (OverflowError, ValueError):
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=datetime.now().astimezone().tzinfo)


def time_text(moment: datetime) -> str:
    """Return a time for a table, to the second; with a mark if it is in UTC by choice."""
    return in_zone(moment).strftime("%Y-%m-%d %H:%M:%S") + _mark()


def clock_text(moment: datetime) -> str:
    """Return the time of day."""
    return in_zone(moment).strftime("%H:%M:%S") + _mark()


def _mark() -> str:
    return "" if ZONE.get() is None else "Z"
