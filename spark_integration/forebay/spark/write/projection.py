"""Projection of batches to a schema: columns by name, missing ones as null, types widened.

Nested fields are included. A task fits Spark's rows to the schema of their sink, and a reader fits pages of older
versions to its planned schema. Buffers are shared wherever the layout stays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa

from forebay.spark.schema.column_names import matches


class SchemaMismatch(ValueError):
    """Rows that the requested schema cannot represent."""

    def __init__(self, column: str, problem: str) -> None:
        """``column`` is the path to it, ``problem`` a phrase."""
        super().__init__(f"column {column} {problem}")
        self.column = column
        self.problem = problem


class Projection:
    """Projection of batches to one schema. Pickled."""

    def __init__(self, schema: pa.Schema, *, case_sensitive: bool = False, drop_others: bool = True) -> None:
        """Drop fields that ``schema`` lacks with ``drop_others``; otherwise raise `SchemaMismatch`."""
        self.schema = schema
        self._case_sensitive = case_sensitive
        self._drop_others = drop_others

    def batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows with the columns of the schema. Raises `SchemaMismatch`."""
        if not len(self.schema):
            return batch
        given = self._matched("", self.schema.names, batch.schema.names)
        columns = [
            self._array(batch.column(given[field.name]), field.type, field.name)
            if field.name in given
            else pa.nulls(batch.num_rows, field.type)
            for field in self.schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _matched(self, path: str, wanted: list[str], given: list[str]) -> dict[str, str]:
        found = matches(wanted, given, case_sensitive=self._case_sensitive)
        if not self._drop_others and len(found) < len(given):
            other = next(name for name in given if name not in found.values())
            raise SchemaMismatch(f"{path}{other}", "is new")
        return found

    def _array(self, array: pa.Array, kind: pa.DataType, path: str) -> pa.Array:
        if array.type.equals(kind, check_metadata=True):
            return array
        if pa.types.is_dictionary(array.type):
            return self._array(array.dictionary_decode(), kind, path)
        if pa.types.is_null(array.type):
            return pa.nulls(len(array), kind)
        if pa.types.is_struct(array.type) and pa.types.is_struct(kind):
            return self._struct(array, kind, path)
        if pa.types.is_map(array.type) and pa.types.is_map(kind):
            return self._map(array, kind, path)
        if _is_list(array.type) and pa.types.is_list(kind):
            return self._list(array, kind, path)
        if not fits(array.type, kind):
            raise SchemaMismatch(path, f"is {array.type}, and not {kind}")
        return array.cast(kind)

    def _struct(self, array: pa.StructArray, kind: pa.StructType, path: str) -> pa.Array:
        children = {field.name: array.field(place) for place, field in enumerate(array.type)}
        given = self._matched(f"{path}.", [field.name for field in kind], list(children))
        fitted = [
            self._array(children[given[field.name]], field.type, f"{path}.{field.name}")
            if field.name in given
            else pa.nulls(len(array), field.type)
            for field in kind
        ]
        if not fitted:
            return array.cast(kind)
        return pa.StructArray.from_arrays(fitted, fields=list(kind), mask=array.is_null() if array.null_count else None)

    def _map(self, array: pa.MapArray, kind: pa.MapType, path: str) -> pa.Array:
        keys = self._array(array.keys, kind.key_type, f"{path} (keys)")
        items = self._array(array.items, kind.item_type, f"{path} (values)")
        entries = pa.StructArray.from_arrays([keys, items], fields=[kind.key_field, kind.item_field])
        return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], -1, array.offset, [entries])

    def _list(self, array: pa.Array, kind: pa.ListType, path: str) -> pa.Array:
        if pa.types.is_large_list(array.type):
            array = array.cast(pa.list_(array.type.value_field))
        values = self._array(array.values, kind.value_type, f"{path}[]")
        return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], -1, array.offset, [values])


def nulls_in(array: pa.Array, field: pa.Field, path: str | None = None) -> str | None:
    """Return the path to a null in a field that is not nullable; None if there is none."""
    path = field.name if path is None else path
    if not field.nullable and array.null_count:
        return path
    inside: list[tuple[pa.Array, pa.Field, str]] = []
    if pa.types.is_struct(field.type):
        there = array if not array.null_count else array.drop_null()
        inside = [(child, one, f"{path}.{one.name}") for child, one in zip(there.flatten(), field.type, strict=True)]
    elif pa.types.is_list(field.type):
        inside = [(array.flatten(), field.type.value_field, f"{path}[]")]
    elif pa.types.is_map(field.type):
        inside = [(_items(array), field.type.item_field, f"{path} (values)")]
    return next((found for each in inside if (found := nulls_in(*each)) is not None), None)


def _items(array: pa.MapArray) -> pa.Array:
    """Return the values of the maps in an array, which may be a part of another one."""
    if array.null_count:
        array = array.drop_null()
    if not len(array):
        return array.items[:0]
    first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
    return array.items[first:last]


def may_be_null(field: pa.Field) -> bool:
    """Return True if every part of a column may be null, except keys of maps."""
    kind = field.type
    if pa.types.is_map(kind):
        return field.nullable and may_be_null(kind.item_field)
    return field.nullable and all(may_be_null(kind.field(place)) for place in range(kind.num_fields))


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def fits(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Return True if every value of one simple type is a value of the other."""
    if given.equals(wanted):
        return True
    for is_kind in _ORDERED:
        if is_kind(given) and is_kind(wanted):
            return bool(given.bit_width <= wanted.bit_width)
    if pa.types.is_decimal(given) and pa.types.is_decimal(wanted):
        more_digits = (wanted.precision - wanted.scale) - (given.precision - given.scale)
        return bool(wanted.scale >= given.scale and more_digits >= 0)
    if pa.types.is_timestamp(given) and pa.types.is_timestamp(wanted):
        return (given.tz is None) == (wanted.tz is None) and given.unit == wanted.unit
    return any(is_kind(given) and is_kind(wanted) for is_kind in _ALIKE)


_ORDERED: Final[tuple[Callable[[pa.DataType], bool], ...]] = (pa.types.is_signed_integer, pa.types.is_floating)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


_ALIKE: Final[tuple[Callable[[pa.DataType], bool], ...]] = (_is_text, _is_bytes)
