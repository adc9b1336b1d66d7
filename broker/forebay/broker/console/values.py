"""Values of records for display: as JSON, as text, as hexadecimal digits, or as rows of a table."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from forebay.broker.rpc.buffer.peek import SHOWN_MAX
from forebay.text import visible
from forebay.v1 import buffer_service_pb2 as pb

VIEWS: Final = ("json", "text", "hex", "rows")
"""Forms of a value; the first is the default."""

COLUMNS_MAX: Final = 32
"""Columns of a table of rows; fields after them are left out, and counted."""

CELL_MAX: Final = 200
"""Characters of a cell."""

INDENTED_MAX: Final = 4 * SHOWN_MAX
"""Characters of indented JSON; a value whose nesting is so deep that it had more is shown as stored."""

LINE: Final = 16
"""Bytes in a line of hexadecimal digits."""


@dataclass(frozen=True, slots=True)
class RowTable:
    """Records as rows: their fields are the columns."""

    columns: tuple[str, ...]
    """Names of the fields, in the order of their first record."""

    rows: tuple[tuple[pb.PeekedRecord, tuple[str, ...] | None], ...]
    """Each record with its cells; None for a record that is no JSON object, or is cut."""

    fields_omitted: int
    """Number of fields that have no column."""


def row_table(records: Iterable[pb.PeekedRecord]) -> RowTable:
    """Return records as rows. Rows with a schema are JSON objects here; a missing field is an empty cell."""
    found = [(record, _fields(record)) for record in records]
    names = list(dict.fromkeys(name for _, fields in found for name in fields or ()))
    columns = tuple(names[:COLUMNS_MAX])
    rows = tuple(
        (record, None if fields is None else tuple(_cell(fields[one]) if one in fields else "" for one in columns))
        for record, fields in found
    )
    return RowTable(columns, rows, len(names) - len(columns))


def _fields(record: pb.PeekedRecord) -> dict[str, Any] | None:
    """Return the fields of a record; None if it is no complete JSON object."""
    if record.format != "json":
        return None
    try:
        found = _decoded(record.value)
    except (ValueError, RecursionError):  # the value is cut
        return None
    return found if isinstance(found, dict) else None


def _cell(value: Any) -> str:
    """Return a field as text: texts as they are, everything else as JSON."""
    text = value if isinstance(value, str) else "".join(_json(value, ", "))
    return text if len(text) <= CELL_MAX else f"{text[:CELL_MAX]}…"


def value_text(record: pb.PeekedRecord, view: str) -> str:
    """Return a value in a form, unsafe characters escaped. A cut value ends with an ellipsis.

    Line ends are those of the form, JSON and hex; those of the value are escaped.
    """
    more = "…" if record.truncated else ""
    if view == "hex":
        return _hex(_bytes(record)) + more
    indented = _indented(record.value) if view == "json" and record.format == "json" and not record.truncated else None
    if indented is None:
        return visible(record.value) + more
    return "\n".join(visible(line) for line in indented.split("\n"))


def _indented(document: str) -> str | None:
    """Return a JSON document with a line per value; None if its nesting is too deep for that."""
    parts, left = list[str](), INDENTED_MAX
    try:
        for part in _json(_decoded(document), ",\n"):
            parts.append(part)
            left -= len(part)
            if left < 0:
                return None
    except (ValueError, RecursionError):
        return None
    return "".join(parts)


class _Number(str):
    """Number that is no integer, with the digits that it has in its record."""

    __slots__ = ()


def _decoded(document: str) -> Any:
    return json.loads(document, parse_float=_Number)


def _json(value: Any, comma: str) -> Iterator[str]:
    """Yield the parts of a decoded value as JSON; after a ``comma`` with a line end they are indented."""
    if not isinstance(value, dict | list) or not value:
        yield value if isinstance(value, _Number) else json.dumps(value, ensure_ascii=False)
        return
    begin, end = "{}" if isinstance(value, dict) else "[]"
    _, line, indent = comma.partition("\n")
    inside = f"{comma}  " if line else comma
    before = f"\n{indent}  " if line else ""
    yield begin
    for name in value:
        yield before
        before = inside
        if isinstance(value, dict):
            yield f"{json.dumps(name, ensure_ascii=False)}: "
        yield from _json(value[name] if isinstance(value, dict) else name, inside)
    yield f"\n{indent}{end}" if line else end


def _bytes(record: pb.PeekedRecord) -> bytes:
    if record.format != "base64":
        return record.value.encode()
    whole = len(record.value) // 4 * 4  # a value may be cut anywhere
    return base64.b64decode(record.value[:whole])


def _hex(content: bytes) -> str:
    lines = []
    for at in range(0, len(content), LINE):
        part = content[at : at + LINE]
        plain = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{at:06x}  {part.hex(' '):<{3 * LINE - 1}}  {plain}")
    return "\n".join(lines)
