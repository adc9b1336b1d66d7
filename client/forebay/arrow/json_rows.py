"""Rows of any schema as JSON: one object per row, built by column without a loop over rows.

Every row has every column, in the order of the schema, as UTF-8 without spaces. The form of each type:

| Spark | JSON |
|---|---|
| null | ``null`` |
| boolean, integers | ``true``, ``42`` |
| float, double | the shortest number that reads back the same, always with a point or an exponent: ``1.0``, ``1e+20`` |
| NaN, infinities | the strings ``"NaN"``, ``"Infinity"``, ``"-Infinity"``, as Spark's own ``to_json`` has them |
| decimal | a number with all its digits and its scale: ``1.50``, ``1.23E-7`` |
| string, char, varchar | a string, escaped where JSON demands it and nowhere else |
| binary | a string, base64 |
| date | ``"2026-01-31"``; a year has at least four digits, and a sign only before the year 0: ``"-0043-03-15"`` |
| timestamp | ``"2026-01-31T23:59:59.123456Z"``: always UTC, always six digits, whatever the session's zone |
| timestamp without zone | ``"2026-01-31T23:59:59.123456"`` |
| time | ``"23:59:59.123456"`` |
| day-time interval | ``"PT93784.000005S"``: seconds, ISO 8601 |
| array, struct | an array, an object |
| map | an object; keys that are not strings are written as above and then as a string |
"""

from __future__ import annotations

import base64
import json
import struct
import sys
from decimal import Decimal
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from forebay.arrow.dates import date_text, timestamp_text
from forebay.arrow.kinds import is_bytes, is_list, is_text
from forebay.arrow.maps import map_entries, map_lengths

NULL: Final = "null"
_MICROSECONDS: Final = 1_000_000
_PER_SECOND: Final = {"s": 1, "ms": 1_000, "us": _MICROSECONDS, "ns": 1_000_000_000}
_INT32: Final = 4
DECIMAL_DIGITS: Final = {32: 9, 64: 18, 128: 38, 256: 76}
"""Most digits of a decimal, by its bits."""
_LOWEST_PRINTABLE: Final = 0x20
_NOT_ESCAPED: Final = bytes(code for code in range(_LOWEST_PRINTABLE, 256) if code not in b'"\\')
_NOTHING: Final = pa.array([0], pa.int32())
_SHORT_ESCAPES: Final = {0x08: "\\b", 0x09: "\\t", 0x0A: "\\n", 0x0C: "\\f", 0x0D: "\\r"}


class NoJsonForm(ValueError):
    """Rows have a type without a JSON form in the table above."""


def json_rows(batch: pa.RecordBatch) -> pa.Array:
    """Return one JSON object per row, as a binary array without nulls.

    ``batch`` must be small enough for its text to stay below 2 GiB; callers slice.
    """
    if batch.num_columns == 0:
        return pa.array([b"{}"] * batch.num_rows, pa.binary())
    return _object(batch.schema.names, batch.columns).cast(pa.binary())


def json_text(array: pa.Array) -> pa.Array:
    """Return the JSON text of every element, as a string array of the same length without nulls."""
    kind = array.type
    if pa.types.is_null(kind):
        return _constant(NULL, len(array))
    if pa.types.is_dictionary(kind):
        return json_text(array.dictionary_decode())
    text = _text_of(kind, array)
    if array.null_count:
        return pc.if_else(array.is_valid(), text, NULL)
    return text


def _text_of(kind: pa.DataType, array: pa.Array) -> pa.Array:
    """Return the text of every element; the text of a null is undefined."""
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return array.cast(pa.string())
    if pa.types.is_decimal(kind):
        return _decimal(array)
    if pa.types.is_floating(kind):
        return _number(array)
    if is_text(kind):
        return _escaped(array.cast(pa.string()))
    if is_bytes(kind):
        return _quoted(_base64(array))
    if pa.types.is_date(kind):
        return _quoted(date_text(array))
    if pa.types.is_timestamp(kind):
        return _enclosed('"', timestamp_text(array), 'Z"' if kind.tz else '"')
    if pa.types.is_time(kind):
        return _quoted(array.cast(pa.time64("us"), safe=False).cast(pa.string()))
    if pa.types.is_duration(kind):
        return _quoted(_duration(array))
    if pa.types.is_struct(kind):
        return _object([field.name for field in kind], array.flatten(), length=len(array))
    if pa.types.is_map(kind):
        return _map(array)
    if is_list(kind):
        return _enclosed("[", _joined(pc.list_value_length(array), json_text(array.flatten())), "]")
    raise NoJsonForm(f"no JSON form is defined for the Arrow type {kind}")


def _object(names: list[str], columns: list[pa.Array], *, length: int | None = None) -> pa.Array:
    """Return ``{"name":text,...}`` for every row."""
    if not names:
        return _constant("{}", length or 0)
    parts: list[pa.Array | str] = []
    before = "{"
    for name, column in zip(names, columns, strict=True):
        parts += [f"{before}{json.dumps(name, ensure_ascii=False)}:", json_text(column)]
        before = ","
    return pc.binary_join_element_wise(*parts, "}", "")


def _map(array: pa.MapArray) -> pa.Array:
    """Return ``{"key":text,...}`` for every map."""
    keys, values = map_entries(array)
    if pa.types.is_dictionary(keys.type):
        keys = keys.dictionary_decode()
    texts = json_text(keys)
    if not is_quoted(keys.type):
        # A number that is not one ("NaN") is quoted already, other numbers are not.
        bare = texts if _is_nested(keys.type) else pc.utf8_trim(texts, characters='"')
        texts = _escaped(bare)
    pairs = pc.binary_join_element_wise(texts, json_text(values), ":")
    return _enclosed("{", _joined(map_lengths(array), pairs), "}")


def _is_nested(kind: pa.DataType) -> bool:
    return bool(pa.types.is_nested(kind))


def is_quoted(kind: pa.DataType) -> bool:
    """Return True if every element of this type is written as a JSON string."""
    return not (
        _is_nested(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_null(kind)
    )


def _joined(lengths: pa.Array, texts: pa.Array) -> pa.Array:
    """Return the texts of each list's elements, separated by commas; a null length is 0."""
    lengths = pc.fill_null(lengths, 0).cast(pa.int32())
    offsets = pa.concat_arrays([_NOTHING, pc.cumulative_sum(lengths)])
    return pc.binary_join(pa.ListArray.from_arrays(offsets, texts), ",")


def _number(array: pa.Array) -> pa.Array:
    """Return floats as numbers that keep a point or an exponent, so that a reader keeps them floats."""
    text = array.cast(pa.string())
    whole = pc.match_substring_regex(text, r"^-?[0-9]+$")
    if pc.any(whole).as_py():
        text = pc.if_else(whole, pc.binary_join_element_wise(text, ".0", ""), text)
    finite = pc.is_finite(array)
    if pc.all(finite).as_py() is False:
        infinity = pc.if_else(pc.greater(array, 0), '"Infinity"', '"-Infinity"')
        text = pc.if_else(finite, text, pc.if_else(pc.is_nan(array), '"NaN"', infinity))
    return text


def _decimal(array: pa.Array) -> pa.Array:
    """Return decimals as numbers with all their digits.

    Arrow formats no scale beyond the digits of the type.
    """
    kind = array.type
    if abs(kind.scale) <= DECIMAL_DIGITS[kind.bit_width]:
        return array.cast(pa.string())
    unscaled = array.view(pa.binary(kind.bit_width // 8)).to_pylist()
    return pa.array([None if value is None else _scaled(value, kind.scale) for value in unscaled], pa.string())


def _scaled(unscaled: bytes, scale: int) -> str:
    return str(Decimal(f"{int.from_bytes(unscaled, sys.byteorder, signed=True)}E{-scale}"))


def _duration(array: pa.Array) -> pa.Array:
    """Return ISO 8601 seconds, because a day is not always 24 hours."""
    per_second = _PER_SECOND[array.type.unit]
    return pa.array([_iso_seconds(value, per_second) for value in array.cast(pa.int64()).to_pylist()], pa.string())


def _iso_seconds(length: int | None, per_second: int) -> str | None:
    if length is None:
        return None
    seconds, rest = divmod(abs(length) * _MICROSECONDS // per_second, _MICROSECONDS)
    sign = "-" if length < 0 else ""
    return f"PT{sign}{seconds}.{rest:06d}S"


def _base64(array: pa.Array) -> pa.Array:
    return pa.array(
        [None if value is None else base64.b64encode(value) for value in array.to_pylist()], pa.binary()
    ).cast(pa.string())


def _escaped(text: pa.Array) -> pa.Array:
    """Return JSON strings. Replaces only characters that occur, found by a check of the bytes."""
    used = _escapable_in(text)
    if ord("\\") in used:
        text = pc.replace_substring(text, "\\", "\\\\")
    if ord('"') in used:
        text = pc.replace_substring(text, '"', '\\"')
    for code in sorted(code for code in used if code < _LOWEST_PRINTABLE):
        text = pc.replace_substring(text, chr(code), _SHORT_ESCAPES.get(code, f"\\u{code:04x}"))
    return _quoted(text)


def _escapable_in(text: pa.Array) -> frozenset[int]:
    """Return the bytes that occur and must be escaped."""
    return frozenset(text_bytes(text).translate(None, _NOT_ESCAPED))


def text_bytes(text: pa.Array) -> bytes:
    """Return all bytes of a string array, joined."""
    _, offsets, data = text.buffers()
    if data is None or len(text) == 0:
        return b""
    # A foreign writer's buffer may be longer than its offsets are, and not by whole ones.
    (first,) = struct.unpack_from("=i", offsets, _INT32 * text.offset)
    (end,) = struct.unpack_from("=i", offsets, _INT32 * (text.offset + len(text)))
    return data.slice(first, end - first).to_pybytes()  # type: ignore[no-any-return]


def _quoted(text: pa.Array) -> pa.Array:
    return _enclosed('"', text, '"')


def _enclosed(before: str, text: pa.Array, after: str) -> pa.Array:
    return pc.binary_join_element_wise(before, text, after, "")


def _constant(text: str, length: int) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.string()), length)
