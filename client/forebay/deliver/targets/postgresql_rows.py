"""Rows of records: the columns that are written, and their values as PostgreSQL's COPY takes them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from forebay.deliver.batch import Batch
from forebay.deliver.source import SourceRecord
from forebay.deliver.targets.postgresql_settings import UnknownFields, Value

RECORD_COLUMNS: Final = ("incarnation", "partition", "record_offset", "event_time", "key", "value", "headers")
JSON_TYPES: Final = frozenset({"json", "jsonb"})


class RowInvalid(Exception):
    """A record has no row. The text quotes no value of it."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Consecutive rows with the same columns."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


class _Number(float):
    """Number that keeps its digits: a column of type numeric has more of them than a float."""

    __slots__ = ("text",)

    def __new__(cls, text: str) -> _Number:
        number = super().__new__(cls, text)
        number.text = text
        return number

    text: str


def record_rows(batch: Batch, value: Value) -> Iterator[Rows]:
    """Yield the rows of a table of records. Raises `RowInvalid` for a value that is no text."""
    of = _VALUES[value]
    yield Rows(
        RECORD_COLUMNS,
        [
            (
                batch.incarnation,
                batch.partition,
                record.offset,
                record.event_time,
                record.key,
                of(record.value),
                _headers(record),
            )
            for record in batch.records
        ],
    )


def json_rows(batch: Batch, types: dict[str, str], unknown: UnknownFields) -> Iterator[Rows]:
    """Yield the rows of JSON objects, by the columns that they have: the others get their defaults.

    ``types`` has the type of each column. Raises `RowInvalid` for a value that is no JSON object, or has a field
    without a column.
    """
    found = (_fields(record.value, types, unknown) for record in batch.records)
    for columns, rows in groupby(found, key=tuple):
        yield Rows(columns, [tuple(row.values()) for row in rows])


def _fields(value: bytes, types: dict[str, str], unknown: UnknownFields) -> dict[str, Any]:
    try:
        found = json.loads(value, parse_float=_Number, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise RowInvalid("the value is not JSON") from None
    if not isinstance(found, dict):
        raise RowInvalid("the value is no JSON object")
    row = {name: _cell(found[name], kind) for name, kind in types.items() if name in found}
    if len(row) < len(found) and unknown is UnknownFields.REJECT:
        more = sorted(set(found) - set(row))
        raise RowInvalid(f"{len(more)} fields have no column, such as {more[0][:60]!r}")
    if not row:
        raise RowInvalid("no field has a column")
    return row


def _cell(value: Any, kind: str) -> Any:
    """Return a JSON value as the text of a column."""
    if value is None:
        return None
    if kind in JSON_TYPES or isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.text if isinstance(value, _Number) else str(value)


def _no_number(constant: str) -> float:
    raise ValueError(constant)


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise RowInvalid("the value is not UTF-8") from None


def _headers(record: SourceRecord) -> str | None:
    """Return headers as a JSON array of names and texts; bytes that are no UTF-8 are replaced."""
    if not record.headers:
        return None
    return json.dumps(
        [[name, content.decode(errors="replace")] for name, content in record.headers], ensure_ascii=False
    )


_VALUES: Final[dict[Value, Callable[[bytes], bytes | str]]] = {
    Value.BYTEA: bytes,
    Value.TEXT: _text,
    Value.JSONB: _text,
}


def offsets_of(batch: Batch, delivered: Sequence[tuple[int, int]]) -> Batch | None:
    """Return the records of a batch that are in none of the ranges ``[first, end)``, or None."""
    kept = tuple(
        record for record in batch.records if not any(first <= record.offset < end for first, end in delivered)
    )
    if not kept:
        return None
    return (
        batch
        if len(kept) == len(batch.records)
        else Batch(batch.sink, batch.incarnation, batch.partition, kept, batch.resend)
    )
