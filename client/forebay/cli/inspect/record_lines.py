"""Output of records one per line, for `forebay replay` and `forebay tail`.

A gap is always reported: as a JSON object, or as a line on standard error.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import typer

from forebay.cli.output import text_of, write_bytes_line, write_json, write_line, write_message
from forebay.cli.times import clock_text
from forebay.text import visible

if TYPE_CHECKING:
    from forebay.client import Gap, ReplayedRecord

VALUE_CHARACTERS_MAX: Final = 400
"""Maximum number of characters of a value in text form."""


class LineForm(StrEnum):
    """Format of a record's line."""

    TEXT = "text"
    """Position, time, key and value, cut to a readable length."""

    JSON = "json"
    """JSON object with all fields."""

    VALUES = "values"
    """Bytes of the value, and a line end; escaped on a terminal."""


LineOutput = Annotated[
    LineForm,
    typer.Option("--output", "-o", help="Line format: text, JSON objects or plain values.", case_sensitive=False),
]
"""``-o`` of the commands that write one line per record."""


def write_gap(gap: Gap, form: LineForm) -> None:
    """Report missing offsets."""
    if form is LineForm.JSON:
        write_json({"gap": gap})
    elif gap.reason == "UNREADABLE":
        write_message(
            f"gap in partition {gap.partition}: {gap.first_offset} to {gap.last_offset} cannot be decoded: {gap.detail}"
        )
    else:
        write_message(
            f"gap in partition {gap.partition}: {gap.first_offset} to {gap.last_offset} were dropped ({gap.reason})"
        )


def write_record(record: ReplayedRecord, form: LineForm) -> None:
    """Write one record."""
    if form is LineForm.JSON:
        write_json(record)
    elif form is LineForm.VALUES:
        write_bytes_line(record.value)
    else:
        write_line(line_of(record))


def line_of(record: ReplayedRecord) -> str:
    """Return the text line of a record, with line ends and control characters escaped."""
    at = clock_text(record.accepted_at)
    key = "" if record.key is None else f"{visible(text_of(record.key))}  "
    value = visible(text_of(record.value))
    if len(value) > VALUE_CHARACTERS_MAX:
        value = f"{value[:VALUE_CHARACTERS_MAX]}… ({len(record.value)} bytes)"
    return f"{record.partition}:{record.offset}  {at}  {key}{value}"
