"""Entries of maps.

A cast of a map to a list leaves an array of nulls below it with a wrong length, and a slice of that ends the process.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def map_lengths(array: pa.MapArray) -> pa.Array:
    """Return the number of entries of each map, 0 for a null."""
    offsets = array.offsets
    lengths = pc.subtract(offsets.slice(1), offsets.slice(0, len(array)))
    return pc.if_else(array.is_valid(), lengths, 0) if array.null_count else lengths


def map_entries(array: pa.MapArray) -> tuple[pa.Array, pa.Array]:
    """Return the keys and the values of the maps that are not null."""
    found = array.drop_null() if array.null_count else array
    if not len(found):
        return found.keys.slice(0, 0), found.items.slice(0, 0)
    first, end = found.offsets[0].as_py(), found.offsets[len(found)].as_py()
    return found.keys.slice(first, end - first), found.items.slice(first, end - first)
