"""Rows of records in the text format of PostgreSQL's COPY: lines, with a tab between columns.

A driver converts cell by cell, by the type of each. Here a column is converted at once, as its cells mostly have one
type.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from forebay.deliver.batch import Batch
from forebay.deliver.source import SourceRecord
from forebay.deliver.targets.postgresql.settings import UnknownFields, Value

RECORD_COLUMNS: Final = ("incarnation", "partition", "record_offset", "event_time", "key", "value", "headers")
JSON_TYPES: Final = frozenset({"json", "jsonb"})

ROWS_AT_ONCE: Final = 1_000
"""Rows of JSON that are converted at once: more of them fit into no cache of a processor."""

_NULL: Final = "\\N"
_ESCAPES: Final = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})


class RowInvalid(Exception):
    """A record has no row. The text quotes no value of it."""


class FieldUnknown(RowInvalid):
    """A record has a field without a column."""


@dataclass(frozen=True, slots=True)
class Table:
    """Columns of a table that rows of JSON are written to."""

    types: Mapping[str, str]
    """Type of each column, by its name, in the order of the table."""

    keys: tuple[str, ...] = ()
    """Columns that each row must have; rows with equal ones replace each other."""

    nulls_equal: bool = False
    """A null is a value of a key: two of them are equal. Otherwise a row with one has no key."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Consecutive rows with the same columns."""

    columns: tuple[str, ...]
    lines: bytes
    """Lines of COPY's text format, in UTF-8, each with its newline."""


class _Number(str):
    """Number with a fraction or an exponent, as it was written: a float has fewer digits."""

    __slots__ = ()


def record_rows(batch: Batch, value: Value) -> Iterator[Rows]:
    """Yield the rows of a table of records. Raises `RowInvalid` for a value that is no text."""
    of = _VALUES[value]
    position = f"{_escaped(batch.incarnation)}\t{batch.partition}\t"
    yield _rows(
        RECORD_COLUMNS,
        [
            f"{position}{record.offset}\t{_time(record)}\t{_key(record)}\t{of(record.value)}\t{_headers(record)}"
            for record in batch.records
        ],
    )


def json_rows(batch: Batch, table: Table, unknown: UnknownFields) -> Iterator[Rows]:
    """Yield the rows of JSON objects, by the columns that they have: the others get their defaults.

    Raises `RowInvalid` for a value that is no JSON object or has no key, and `FieldUnknown` for a field without a
    column unless ``unknown`` ones are ignored.
    """
    known: dict[tuple[str, ...], tuple[str, ...]] = {}
    columns: tuple[str, ...] = ()
    cells: list[tuple[Any, ...]] = []
    for record in batch.records:
        found = _object(record.value)
        fields = tuple(found)
        wanted = known.get(fields)
        if wanted is None:
            wanted = known[fields] = _columns(fields, table, unknown)
        if wanted != columns or len(cells) == ROWS_AT_ONCE:
            if cells:
                yield _json_rows(columns, cells, table)
            columns, cells = wanted, []
        cells.append(tuple(found.values()) if fields == columns else tuple([found[name] for name in columns]))
    if cells:
        yield _json_rows(columns, cells, table)


def _json_rows(columns: tuple[str, ...], cells: list[tuple[Any, ...]], table: Table) -> Rows:
    texts = []
    for name, values in zip(columns, zip(*cells, strict=True), strict=True):
        if name in table.keys and None in values and not table.nulls_equal:
            raise RowInvalid(f"the field {name[:60]!r} of the key is null")
        texts.append(_column(values, is_json=table.types[name] in JSON_TYPES))
    return _rows(columns, map("\t".join, zip(*texts, strict=True)))


def _rows(columns: tuple[str, ...], lines: Iterable[str]) -> Rows:
    try:
        return Rows(columns, "\n".join([*lines, ""]).encode())
    except UnicodeEncodeError:
        raise RowInvalid("the value has an unpaired surrogate") from None


def _column(values: Sequence[Any], *, is_json: bool) -> Sequence[str]:
    """Return the cells of a column."""
    kinds = set(map(type, values))
    if kinds == {int}:
        return list(map(str, values))
    if kinds == {_Number}:
        return values
    if kinds == {str} and not is_json:
        return values if _is_plain("".join(values)) else [_escaped(value) for value in values]
    return [_NULL if value is None else _escaped(_cell(value, is_json=is_json)) for value in values]


def _is_plain(text: str) -> bool:
    return not ("\\" in text or "\t" in text or "\n" in text or "\r" in text)


def _escaped(text: str) -> str:
    return text if _is_plain(text) else text.translate(_ESCAPES)


def _object(value: bytes) -> dict[str, Any]:
    try:
        text = value.decode()
        if text[:1] == "{":
            found, end = _DECODER.raw_decode(text)
            if end != len(text) and text[end:].strip(" \t\n\r"):
                raise RowInvalid("the value is not JSON")
        else:
            found = _DECODER.decode(text)
    except (ValueError, RecursionError):
        raise RowInvalid("the value is not JSON") from None
    if not isinstance(found, dict):
        raise RowInvalid("the value is no JSON object")
    return found


def _columns(fields: tuple[str, ...], table: Table, unknown: UnknownFields) -> tuple[str, ...]:
    """Return the fields that have a column, in the order of the table."""
    columns = tuple(name for name in table.types if name in fields)
    if len(columns) < len(fields) and unknown is UnknownFields.REJECT:
        more = sorted(set(fields) - set(columns))
        raise FieldUnknown(f"{len(more)} fields have no column, such as {more[0][:60]!r}")
    if not columns:
        raise RowInvalid("no field has a column")
    missing = [name for name in table.keys if name not in columns]
    if missing:
        raise RowInvalid(f"the field {missing[0][:60]!r} of the key is missing")
    return columns


def _cell(value: Any, *, is_json: bool) -> str:
    """Return a JSON value as the text of a column."""
    if is_json or isinstance(value, dict | list):
        try:
            return _json(value)
        except RecursionError:
            raise RowInvalid("the value is nested too deeply") from None
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _json(value: Any) -> str:
    """Return a decoded value as JSON, numbers with the digits that they had."""
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, dict):
        return f"{{{', '.join([f'{_json(name)}: {_json(found)}' for name, found in value.items()])}}}"
    if isinstance(value, list):
        return f"[{', '.join([_json(found) for found in value])}]"
    return json.dumps(value, ensure_ascii=False)


def _no_number(constant: str) -> float:
    raise ValueError(constant)


_DECODER: Final = json.JSONDecoder(parse_float=_Number, parse_constant=_no_number)


def _text(value: bytes) -> str:
    try:
        return _escaped(value.decode())
    except UnicodeDecodeError:
        raise RowInvalid("the value is not UTF-8") from None


def _bytea(value: bytes) -> str:
    return rf"\\x{value.hex()}"


def _key(record: SourceRecord) -> str:
    return _NULL if record.key is None else _bytea(record.key)


def _time(record: SourceRecord) -> str:
    return _NULL if record.event_time is None else record.event_time.isoformat()


def _headers(record: SourceRecord) -> str:
    """Return headers as a JSON array of names and texts; bytes that are no text are replaced."""
    if not record.headers:
        return _NULL
    pairs = [
        [_without_zeros(name), _without_zeros(content.decode(errors="replace"))] for name, content in record.headers
    ]
    return _escaped(json.dumps(pairs, ensure_ascii=False))


def _without_zeros(text: str) -> str:
    """Return a text that the type ``jsonb`` can hold."""
    return text.replace("\0", "\ufffd")


_VALUES: Final[dict[Value, Callable[[bytes], str]]] = {
    Value.BYTEA: _bytea,
    Value.TEXT: _text,
    Value.JSONB: _text,
}


def offsets_of(batch: Batch, delivered: Sequence[tuple[int, int]]) -> Batch | None:
    """Return the records of a batch that are in none of the ranges ``[first, end)``, or None."""
    if not delivered:
        return batch
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
