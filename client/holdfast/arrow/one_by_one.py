"""Rows of a page as JSON objects, for who takes them one by one.

What came over a network may be small as a page and large as text: names of columns are written once per row, and the
values of a dictionary wherever they stand. How long the text becomes is estimated before it is made.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.arrow.expansion import RowsUnreadable
from holdfast.arrow.json_rows import json_rows

JSON_BYTES_MAX: Final = 256 << 20
"""About how many bytes of JSON are made of one page."""
_VALUE: Final = 32
"""Bytes that a number, a time or the frame of something else takes, about."""
_ESCAPED: Final = 2
"""So many times its own size a string or binary may have: quotes are escaped, binaries are base64."""


def json_objects(batch: pa.RecordBatch) -> list[bytes]:
    """Return one JSON object per row.

    Raises `RowsUnreadable` where that would be too much text, and ``NoJsonForm`` for a type that has no JSON.
    """
    size = _names(batch.schema.names) * batch.num_rows + sum(json_bytes(column) for column in batch.columns)
    if size > JSON_BYTES_MAX:
        raise RowsUnreadable(
            f"they become about {size} bytes of JSON, and at most {JSON_BYTES_MAX} are made; take the page as it is"
        )
    found: list[bytes] = json_rows(batch).to_pylist()
    return found


def json_bytes(array: pa.Array) -> int:
    """Return about how long the JSON of an array becomes; nothing is made."""
    kind = array.type
    size = _VALUE * len(array)
    if pa.types.is_struct(kind):
        return size + _names([field.name for field in kind]) * len(array) + sum(map(json_bytes, array.flatten()))
    if pa.types.is_map(kind):
        entries = array.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))
        return size + sum(map(json_bytes, entries.flatten().flatten()))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return size + json_bytes(array.flatten())
    if pa.types.is_dictionary(kind):
        return size + _taken_bytes(array)
    if any(is_kind(kind) for is_kind in _WITH_LENGTHS):
        return size + _ESCAPED * (pc.sum(pc.binary_length(array)).as_py() or 0)
    return size


_WITH_LENGTHS: Final = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_fixed_size_binary,
)


def _taken_bytes(array: pa.DictionaryArray) -> int:
    """Every value is as long as the longest in the worst case; for strings it is counted."""
    if not any(is_kind(array.type.value_type) for is_kind in _WITH_LENGTHS):
        return json_bytes(array.dictionary) * len(array)
    lengths = pc.binary_length(array.dictionary)
    return _ESCAPED * (pc.sum(lengths.take(array.indices)).as_py() or 0)


def _names(names: list[str]) -> int:
    return sum(len(name.encode()) + 4 for name in names)
