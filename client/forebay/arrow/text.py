"""Strings that are not UTF-8: their positions in a batch, and their replacement.

Arrow's strings are UTF-8, and Spark's need not be: a Latin-1 file read as text, or a binary that was cast to a string.
Spark hands such bytes on unchanged. A reader that checks its input then refuses the whole page.

The fast path is Arrow's own validation, once per batch. The functions here run only after it has failed: they follow
structs, lists and maps (keys included) down to the strings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from forebay.arrow.maps import map_entries, map_lengths


@dataclass(frozen=True, slots=True)
class InvalidText:
    """First string of a batch that is not UTF-8."""

    row: int
    """Row of the batch, from 0."""

    column: str
    """Column, with the path to a nested field: ``address.city``, ``tags[]``, ``names (keys)``."""

    byte: int
    """First byte that is not UTF-8, 0 to 255."""

    at: int
    """Index of the byte in the string."""


def first_invalid(batch: pa.RecordBatch) -> InvalidText | None:
    """Return the first string that is not UTF-8, by row and then by column; None when there is none."""
    first: InvalidText | None = None
    for column, field in zip(batch.columns, batch.schema, strict=True):
        for path in _strings(column, field.type, field.name):
            places = path.invalid()
            if places and (first is None or path.rows[places[0]] < first.row):
                at, byte = _first_wrong(path.values[places[0]].as_py())
                first = InvalidText(path.rows[places[0]], path.name, byte, at)
    return first


def invalid_rows(batch: pa.RecordBatch) -> dict[int, str]:
    """Return the reason for each row with a string that is not UTF-8, naming its first such column."""
    found: dict[int, str] = {}
    for column, field in zip(batch.columns, batch.schema, strict=True):
        for path in _strings(column, field.type, field.name):
            for place in path.invalid():
                found.setdefault(path.rows[place], f"column {path.name}: the string is not UTF-8")
    return found


def with_valid_text(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch with U+FFFD in place of each sequence of bytes that is not UTF-8."""
    columns = [_replaced(column, field.type) for column, field in zip(batch.columns, batch.schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


@dataclass(frozen=True, slots=True)
class _Strings:
    """Strings of one nested field, as binaries, and the row of each."""

    name: str
    values: pa.Array
    rows: Sequence[int]

    def invalid(self) -> list[int]:
        """Return the indices of strings that are not UTF-8, in ascending order."""
        try:
            self.values.cast(pa.large_string() if pa.types.is_large_binary(self.values.type) else pa.string())
        except pa.ArrowInvalid:
            return [place for place, one in enumerate(self.values.to_pylist()) if not _is_utf8(one)]
        return []


def _strings(array: pa.Array, kind: pa.DataType, name: str, rows: Sequence[int] | None = None) -> Iterator[_Strings]:
    """Yield the strings of an array of ``kind``, which may store them as binaries."""
    if rows is None:
        rows = range(len(array))
    if _is_text(kind):
        yield _Strings(name, array.cast(_as_binary(kind)), rows)
    elif pa.types.is_struct(kind):
        for child, field in zip(array.flatten(), kind, strict=True):
            yield from _strings(child, field.type, f"{name}.{field.name}", rows)
    elif pa.types.is_map(kind):
        lengths, (keys, items) = _lengths(array), map_entries(array)
        inside = _repeated(rows, lengths)
        yield from _strings(keys, kind.key_type, f"{name} (keys)", inside)
        yield from _strings(items, kind.item_type, f"{name} (values)", inside)
    elif _is_list(kind):
        yield from _strings(array.flatten(), kind.value_type, f"{name}[]", _repeated(rows, _lengths(array)))


def _replaced(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if _is_text(kind):
        values = array.cast(_as_binary(kind))
        try:
            return values.cast(kind)
        except pa.ArrowInvalid:
            decoded = [None if one is None else one.decode("utf-8", "replace") for one in values.to_pylist()]
            return pa.array(decoded, kind)
    if not _has_text(kind):
        return array
    if pa.types.is_struct(kind):
        children = [_replaced(child, field.type) for child, field in zip(array.flatten(), kind, strict=True)]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=array.is_null())
    if pa.types.is_map(kind):
        keys, items = map_entries(array)
        keys, items = _replaced(keys, kind.key_type), _replaced(items, kind.item_type)
        return pa.MapArray.from_arrays(_offsets(array, pa.int32()), keys, items, kind)
    if not _is_list(kind):
        return array
    values = _replaced(array.flatten(), kind.value_type)
    if pa.types.is_fixed_size_list(kind):
        ends = iter(range(0, len(values) + 1, max(1, kind.list_size)))
        first = [next(ends) if is_there else None for is_there in array.is_valid().to_pylist()]
        places = [None if at is None else at + step for at in first for step in range(kind.list_size)]
        spread = values.take(pa.array(places, pa.int64()))
        return pa.FixedSizeListArray.from_arrays(spread, type=kind, mask=array.is_null())
    made = pa.LargeListArray if pa.types.is_large_list(kind) else pa.ListArray
    index = pa.int64() if pa.types.is_large_list(kind) else pa.int32()
    return made.from_arrays(_offsets(array, index), values, type=kind)


def _lengths(array: pa.Array) -> list[int]:
    """Return the number of elements of each list or map; 0 for a null."""
    if pa.types.is_map(array.type):
        return map_lengths(array).to_pylist()  # type: ignore[no-any-return]
    return [length or 0 for length in pc.list_value_length(array).to_pylist()]


def _offsets(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return the start of each list among the elements of `Array.flatten`; null for a null list."""
    ends = list(accumulate(_lengths(array), initial=0))
    first = [end if is_there else None for end, is_there in zip(ends, array.is_valid().to_pylist(), strict=False)]
    return pa.array([*first, ends[-1]], kind)


def _repeated(rows: Sequence[int], lengths: Sequence[int]) -> list[int]:
    return [row for row, length in zip(rows, lengths, strict=True) for _ in range(length)]


def _as_binary(kind: pa.DataType) -> pa.DataType:
    return pa.large_binary() if pa.types.is_large_string(kind) else pa.binary()


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _has_text(kind: pa.DataType) -> bool:
    return _is_text(kind) or any(_has_text(kind.field(place).type) for place in range(kind.num_fields))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _is_utf8(value: bytes | None) -> bool:
    return value is None or _first_wrong(value) == _NOTHING


_NOTHING: Final = (-1, -1)


def _first_wrong(value: bytes) -> tuple[int, int]:
    """Return index and value of the first byte of a string that is not UTF-8."""
    try:
        value.decode()
    except UnicodeDecodeError as error:
        return error.start, value[error.start]
    return _NOTHING
