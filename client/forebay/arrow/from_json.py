"""Conversion of JSON objects to rows: the inverse of ``json_rows``.

A redriven dead letter of a row is stored as a record with one JSON object. These records are rare, so they are parsed
one by one.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import operator
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final, TypeAlias

import pyarrow as pa

from forebay.arrow.dates import day_of, instant_of
from forebay.arrow.expansion import RowsUnreadable
from forebay.arrow.kinds import is_bytes, is_list, is_text

Match: TypeAlias = Callable[[Sequence[str], Sequence[str]], dict[str, str]]
"""Match of wanted names with given ones."""

_DAY_MS: Final = 86_400_000
_SECONDS: Final = re.compile(r"PT(-?)(\d+)\.(\d{6})S")


def rows_from_json(objects: Sequence[bytes], schema: pa.Schema, *, match: Match | None = None) -> pa.RecordBatch:
    """Return one row per object, with the columns of ``schema``; missing values are null.

    ``match`` returns the name in an object for each name of the schema that has one, nested names included; without it
    they are equal. Raises `RowsUnreadable` for objects that are not in the form of ``json_rows``.
    """
    try:
        parsed = [_members(json.loads(one, parse_float=Decimal)) for one in objects]
        if match is not None:
            parsed = [_renamed(row, pa.struct(list(schema)), match) for row in parsed]
        columns = [
            pa.array([_value(row.get(field.name), field.type) for row in parsed], field.type) for field in schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=schema)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise RowsUnreadable(f"a row is not in the form of its schema: {error}") from error


def _renamed(value: Any, kind: pa.DataType, match: Match) -> Any:
    """Return a parsed value with the names that its type gives to fields."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        given = match([field.name for field in kind], list(_members(value)))
        return {
            field.name: _renamed(value[given[field.name]], field.type, match) for field in kind if field.name in given
        }
    if pa.types.is_map(kind):
        return {key: _renamed(item, kind.item_type, match) for key, item in _members(value).items()}
    if is_list(kind):
        return [_renamed(item, kind.value_type, match) for item in _items(value)]
    return value


def _value(value: Any, kind: pa.DataType) -> Any:
    """Return the input value of pyarrow for a value of this type."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        members = _members(value)
        return {field.name: _value(members.get(field.name), field.type) for field in kind}
    if pa.types.is_map(kind):
        entries = _members(value).items()
        return [(_key(key, kind.key_type), _value(item, kind.item_type)) for key, item in entries]
    if is_list(kind):
        return [_value(item, kind.value_type) for item in _items(value)]
    if pa.types.is_date(kind):
        return _day(value, kind)
    if pa.types.is_timestamp(kind):
        return _instant(value, kind)
    convert = next((convert for is_kind, convert in _CONVERT if is_kind(kind)), None)
    return value if convert is None else convert(value)


def _key(text: str, kind: pa.DataType) -> Any:
    """Return the key of a map, which is text in JSON."""
    is_text = any(is_kind(kind) for is_kind in _WRITTEN_AS_TEXT) or text in {"NaN", "Infinity", "-Infinity"}
    return _value(text if is_text else json.loads(text, parse_float=Decimal), kind)


def _members(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):  # the elements of a list, or the characters of a text, are no names
        raise TypeError(f"{type(value).__name__} in place of an object")
    return value


def _items(value: Any) -> list[Any]:
    if not isinstance(value, list):  # the characters of a text, or the names of an object, are no elements
        raise TypeError(f"{type(value).__name__} in place of an array")
    return value


def _day(text: str, kind: pa.DataType) -> dt.date | int:
    try:
        return dt.date.fromisoformat(text)
    except ValueError:  # a year that is none of Python's
        return day_of(text) * (_DAY_MS if pa.types.is_date64(kind) else 1)


def _instant(text: str, kind: pa.TimestampType) -> dt.datetime | int:
    try:
        return dt.datetime.fromisoformat(text)
    except ValueError:
        return instant_of(text, kind)


def _span(text: str) -> dt.timedelta:
    found = _SECONDS.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a number of seconds")
    sign, seconds, microseconds = found.groups()
    length = dt.timedelta(seconds=int(seconds), microseconds=int(microseconds))
    return -length if sign else length


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


_WRITTEN_AS_TEXT: Final[tuple[Callable[[pa.DataType], bool], ...]] = (
    is_text,
    is_bytes,
    pa.types.is_date,
    pa.types.is_timestamp,
    pa.types.is_time,
    pa.types.is_duration,
)
_CONVERT: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any], Any]], ...]] = (
    (is_bytes, _bytes),
    (pa.types.is_integer, operator.index),
    (pa.types.is_floating, float),
    (pa.types.is_decimal, Decimal),
    (pa.types.is_time, dt.time.fromisoformat),
    (pa.types.is_duration, _span),
)
"""Conversions of JSON values for pyarrow, by type; other types need none."""
