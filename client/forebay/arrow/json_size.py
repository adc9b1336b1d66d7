"""Upper bound of the length of the JSON of rows, computed before the JSON is built.

It is a bound from above, and a close one: what strings and binaries become is counted exactly, control characters with
the six bytes that they take; a number or a time counts with the longest of its kind.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from forebay.arrow.json_rows import DECIMAL_DIGITS, text_bytes
from forebay.arrow.kinds import is_bytes, is_list, is_text
from forebay.arrow.maps import map_entries

_INTEGER: Final = {8: 4, 16: 6, 32: 11, 64: 20}
"""Characters of an integer, by its bits."""
_VALUE: Final = 48
"""Characters of any other value of a fixed size: the year of a timestamp in seconds has twelve digits."""
_DECIMAL: Final = 80
_EXPONENT: Final = 12
"""Characters of the exponent of a decimal: ``E-`` and the digits of a scale of 32 bits."""
_FRAME: Final = 6
"""Bytes around a value: quotes or brackets and a comma; or ``false`` or ``null`` in its place."""
_SHORT_ESCAPES: Final = b'"\\\b\t\n\f\r'
_NOT_ESCAPED: Final = bytes(code for code in range(0x20, 0x100) if code not in _SHORT_ESCAPES)
_BASE64: Final = (3, 4)


def json_bytes(array: pa.Array) -> int:
    """Return the maximum length of the JSON of an array's elements."""
    kind = array.type
    size = _FRAME * len(array)
    if pa.types.is_struct(kind):
        return size + object_bytes([field.name for field in kind], array.flatten(), len(array))
    if pa.types.is_map(kind):
        keys, values = map_entries(array)
        twice = 2 if pa.types.is_nested(kind.key_type) else 1  # its text is escaped once more
        return size + twice * json_bytes(keys) + json_bytes(values)
    if is_list(kind):
        return size + json_bytes(array.flatten())
    if pa.types.is_dictionary(kind):
        return size + _taken_bytes(array)
    if is_text(kind):
        return size + _total(array) + _escapes(array)
    if is_bytes(kind):
        given, becomes = _BASE64
        return size + _total(array) * becomes // given + becomes * len(array)
    return size + _fixed(kind) * len(array)


def object_bytes(names: Sequence[str], columns: Sequence[pa.Array], rows: int) -> int:
    """Return the maximum length of the JSON objects of a number of rows."""
    named = sum(len(json.dumps(name, ensure_ascii=False).encode(errors="replace")) + 2 for name in names)
    return rows * (named + _FRAME) + sum(map(json_bytes, columns))


def _fixed(kind: pa.DataType) -> int:
    if pa.types.is_null(kind) or pa.types.is_boolean(kind):
        return 0
    if pa.types.is_integer(kind):
        return _INTEGER[kind.bit_width]
    if pa.types.is_decimal(kind):
        return _DECIMAL if 0 <= kind.scale <= DECIMAL_DIGITS[kind.bit_width] else _DECIMAL + _EXPONENT
    return _VALUE


def _total(array: pa.Array) -> int:
    return int(pc.sum(pc.binary_length(array)).as_py() or 0)


def _escapes(array: pa.Array) -> int:
    """Return the bytes that escaping adds to the strings of an array."""
    escaped = text_bytes(array.cast(pa.string())).translate(None, _NOT_ESCAPED)
    long = len(escaped.translate(None, _SHORT_ESCAPES))
    return 5 * long + len(escaped) - long


def _taken_bytes(array: pa.DictionaryArray) -> int:
    """Return the bytes of a dictionary column, without decoding it."""
    values = array.dictionary
    if not (is_text(values.type) or is_bytes(values.type)):
        longest = max((json_bytes(values.slice(place, 1)) for place in range(len(values))), default=0)
        return int(longest * len(array))
    if is_text(values.type) and not _escapes(values):
        lengths = pc.binary_length(values).cast(pa.int64())
        return int(pc.sum(lengths.take(array.indices)).as_py() or 0) + _FRAME * len(array)
    sizes = pa.array([json_bytes(values.slice(place, 1)) for place in range(len(values))], pa.int64())
    return int(pc.sum(sizes.take(array.indices)).as_py() or 0)
