"""One line per record that is read: for `forebay replay` and `forebay tail`.

A gap is never passed over in silence: it is an object of its own for programs, and a line on standard
error for people.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import typer

from forebay.cli.output import say, tell, text_of, write_bytes_line, write_json
from forebay.text import visible

if TYPE_CHECKING:
    from forebay.client import Gap, ReplayedRecord

VALUE_CHARACTERS_MAX: Final = 400
"""Most characters of a value in a line for people."""


class LineForm(StrEnum):
    """How a record is written."""

    TEXT = "text"
    """Position, time, key and value, cut to a readable length."""

    JSON = "json"
    """An object with everything."""

    VALUES = "values"
    """The value's bytes as they are, and a line end; at a terminal what it would obey is shown."""


LineOutput = Annotated[
    LineForm,
    typer.Option(
        "--output", "-o", help="Readable lines, an object per line, or the bare values.", case_sensitive=False
    ),
]
"""``-o`` of the commands that write one line per record."""


def write_gap(gap: Gap, form: LineForm) -> None:
    """Say that offsets are missing."""
    if form is LineForm.JSON:
        write_json({"gap": gap})
    elif gap.reason == "UNREADABLE":
        say(
            f"gap in partition {gap.partition}: {gap.first_offset} to {gap.last_offset} cannot be decoded: {gap.detail}"
        )
    else:
        say(f"gap in partition {gap.partition}: {gap.first_offset} to {gap.last_offset} were dropped ({gap.reason})")


def write_record(record: ReplayedRecord, form: LineForm) -> None:
    """Write one record."""
    if form is LineForm.JSON:
        write_json(record)
    elif form is LineForm.VALUES:
        write_bytes_line(record.value)
    else:
        tell(line_of(record))


def line_of(record: ReplayedRecord) -> str:
    """One line for people; line ends and other control characters in keys and values are shown, not obeyed."""
    at = record.accepted_at.astimezone().strftime("%H:%M:%S")
    key = "" if record.key is None else f"{visible(text_of(record.key))}  "
    value = visible(text_of(record.value))
    if len(value) > VALUE_CHARACTERS_MAX:
        value = f"{value[:VALUE_CHARACTERS_MAX]}… ({len(record.value)} bytes)"
    return f"{record.partition}:{record.offset}  {at}  {key}{value}"
