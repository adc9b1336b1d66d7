"""Rows of records: the columns that are written, and their values as PostgreSQL's COPY takes them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
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
    known: dict[tuple[str, ...], tuple[str, ...]] = {}
    columns: tuple[str, ...] = ()
    are_json: list[bool] = []
    rows: list[tuple[Any, ...]] = []
    for record in batch.records:
        found = _object(record.value)
        fields = tuple(found)
        wanted = known.get(fields)
        if wanted is None:
            wanted = known[fields] = _columns(fields, types, unknown)
        if wanted != columns:
            if rows:
                yield Rows(columns, rows)
            columns, rows = wanted, []
            are_json = [types[name] in JSON_TYPES for name in columns]
        values = found.values() if fields == columns else [found[name] for name in columns]
        rows.append(
            tuple(
                [
                    value if not is_json and type(value) in _PLAIN else _cell(value, is_json=is_json)
                    for value, is_json in zip(values, are_json, strict=True)
                ]
            )
        )
    if rows:
        yield Rows(columns, rows)


def _object(value: bytes) -> dict[str, Any]:
    try:
        found = _DECODER.decode(value.decode())
    except (ValueError, RecursionError):
        raise RowInvalid("the value is not JSON") from None
    if not isinstance(found, dict):
        raise RowInvalid("the value is no JSON object")
    return found


def _columns(fields: tuple[str, ...], types: dict[str, str], unknown: UnknownFields) -> tuple[str, ...]:
    """Return the fields that have a column, in the order of the table."""
    columns = tuple(name for name in types if name in fields)
    if len(columns) < len(fields) and unknown is UnknownFields.REJECT:
        more = sorted(set(fields) - set(columns))
        raise RowInvalid(f"{len(more)} fields have no column, such as {more[0][:60]!r}")
    if not columns:
        raise RowInvalid("no field has a column")
    return columns


def _cell(value: Any, *, is_json: bool) -> Any:
    """Return a JSON value as the text of a column."""
    if value is None:
        return None
    if is_json or isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.text if isinstance(value, _Number) else str(value)


def _no_number(constant: str) -> float:
    raise ValueError(constant)


_DECODER: Final = json.JSONDecoder(parse_float=_Number, parse_constant=_no_number)
_PLAIN: Final = frozenset({str, int, type(None)})
"""Types whose values are written as they are."""


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
