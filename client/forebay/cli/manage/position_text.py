"""A place in a sink, as it is typed: ``earliest``, ``latest``, an offset, ``0=12,1=40``, or a time."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from forebay.cli.exits import ExitCode
from forebay.cli.report import CommandFailed

if TYPE_CHECKING:
    from forebay.client import Position

FORMS = "earliest, latest, an offset, offsets by partition (0=12,1=40), or a time (ISO 8601; local without a zone)"

OrEarliest = Annotated[
    bool,
    typer.Option("--or-earliest", help="Where an offset is gone, take the lowest that can be had instead of failing."),
]
"""``--or-earliest``."""


def parse_position(text: str) -> Position:
    """The position that ``text`` says; raises `CommandFailed` for what is none."""
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
        return datetime.fromisoformat(stripped).astimezone()
    except ValueError as error:
        raise CommandFailed(f"{text!r} is no place: use {FORMS}", ExitCode.USAGE) from error


def position_text(place: Position) -> str:
    """A position as it would be typed."""
    if isinstance(place, datetime):
        return place.isoformat()
    if isinstance(place, str | int):
        return str(place)
    return ",".join(f"{partition}={offset}" for partition, offset in sorted(place.items()))
