"""Types whose values all have a JSON form, once they are validated."""

from __future__ import annotations

import pyarrow as pa

from forebay.arrow.kinds import is_bytes, is_list, is_text


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
