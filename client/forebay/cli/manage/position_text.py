"""Positions as typed by users: ``earliest``, ``latest``, an offset, ``0=12,1=40``, or a time."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from forebay.cli.exits import ExitCode
from forebay.cli.report import CommandFailed
from forebay.cli.times import FORMS as TIME_FORMS
from forebay.cli.times import parse_time, time_text

if TYPE_CHECKING:
    from forebay.client import Position

FORMS = f"earliest, latest, an offset, offsets by partition (0=12,1=40), {TIME_FORMS}"

OrEarliest = Annotated[
    bool,
    typer.Option("--or-earliest", help="Replace a trimmed offset by the lowest available one instead of failing."),
]
"""``--or-earliest``."""


def parse_position(text: str) -> Position:
    """Return the position of ``text``; raises `CommandFailed` for an invalid one."""
    stripped = text.strip()
    if stripped == "earliest":
        return "earliest"
    if stripped == "latest":
        return "latest"
    try:
        if stripped.isdigit():
            return int(stripped)
        if "=" in stripped:
            pairs = [pair.split("=", 1) for pair in stripped.split(",")]
            return {int(partition): int(offset) for partition, offset in pairs}
        return parse_time(stripped)
    except (ValueError, CommandFailed) as error:
        raise CommandFailed(f"position = {text!r}: must be {FORMS}", ExitCode.USAGE) from error


def position_text(place: Position) -> str:
    """Return the text form of a position; a time is as in tables, to the second."""
    if isinstance(place, datetime):
        return time_text(place)
    if isinstance(place, str | int):
        return str(place)
    return ",".join(f"{partition}={offset}" for partition, offset in sorted(place.items()))
