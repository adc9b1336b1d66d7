"""Kinds of Arrow types: those of several widths, and those whose values all have JSON."""

from __future__ import annotations

import pyarrow as pa


def is_text(kind: pa.DataType) -> bool:
    """Return True for a type of strings."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_bytes(kind: pa.DataType) -> bool:
    """Return True for a type of binaries."""
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


def is_list(kind: pa.DataType) -> bool:
    """Return True for a type of lists; a map is none."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def always_has_json(kind: pa.DataType) -> bool:
    """Return True if JSON can be made of all values of a type: nothing can fail when it is made later."""
    if pa.types.is_dictionary(kind):
        return always_has_json(kind.value_type)
    if pa.types.is_struct(kind) or pa.types.is_map(kind) or is_list(kind):
        return all(always_has_json(kind.field(place).type) for place in range(kind.num_fields))
    return bool(
        pa.types.is_null(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_float32(kind)
        or pa.types.is_float64(kind)
        or pa.types.is_decimal(kind)
        or is_text(kind)
        or is_bytes(kind)
        or pa.types.is_date32(kind)
        or pa.types.is_timestamp(kind)
    )
