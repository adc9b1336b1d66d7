"""Dictionary encoding of string and binary columns in a page.

It is a property of the page, not of the schema: each page lists its encoded columns and contains their dictionaries.
Decoding returns plain columns.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from forebay.arrow.expansion import RowsUnreadable

REPEATS_MIN: Final = 4
"""Average repetition of values in a page from which an unnamed column is encoded."""
COLUMNS_MAX: Final = 1_024
"""Maximum number of encoded columns per page."""
_INDICES: Final = {1: pa.int8(), 2: pa.int16()}
"""Index types by bytes per row; more bytes would not reduce the size of a page."""
_VALUES_MAX: Final = {1: 1 << 7, 2: 1 << 15}


def can_be_coded(kind: pa.DataType) -> bool:
    """Return True for column types that may be encoded: strings and binaries, not nested."""
    is_one = (pa.types.is_string, pa.types.is_binary, pa.types.is_large_string, pa.types.is_large_binary)
    return any(is_kind(kind) for is_kind in is_one)


def coded(
    batch: pa.RecordBatch, names: Collection[str], *, auto: bool
) -> tuple[pa.RecordBatch, tuple[tuple[int, int], ...]]:
    """Return a batch with dictionaries, and position and index width of each encoded column.

    Columns in ``names`` get one where they have at most 32,768 different values; with ``auto`` every other column that
    may, where its values repeat; see ``REPEATS_MIN``.
    """
    columns: list[pa.Array] = list(batch.columns)
    places: list[tuple[int, int]] = []
    for place, field in enumerate(batch.schema):
        if not (auto or field.name in names) or not can_be_coded(field.type) or len(places) == COLUMNS_MAX:
            continue
        encoded = columns[place].dictionary_encode()
        values = len(encoded.dictionary)
        width = next((width for width, most in _VALUES_MAX.items() if values <= most), None)
        if width is None or (field.name not in names and values * REPEATS_MIN > batch.num_rows):
            continue
        columns[place] = pa.DictionaryArray.from_arrays(encoded.indices.cast(_INDICES[width]), encoded.dictionary)
        places.append((place, width))
    if not places:
        return batch, ()
    return pa.RecordBatch.from_arrays(columns, schema=coded_schema(batch.schema, places)), tuple(places)


def coded_schema(schema: pa.Schema, places: Sequence[tuple[int, int]]) -> pa.Schema:
    """Return the schema of a page for the schema of its rows.

    Raises `RowsUnreadable` for invalid positions.
    """
    if len(places) > COLUMNS_MAX or [place for place, _ in places] != sorted({place for place, _ in places}):
        raise RowsUnreadable(f"the columns with a dictionary are not in order, or more than {COLUMNS_MAX}")
    fields = list(schema)
    for place, width in places:
        if not (0 <= place < len(fields) and width in _INDICES and can_be_coded(fields[place].type)):
            raise RowsUnreadable(
                f"column {place} has a dictionary with {width} B per row, which is not known to this version"
            )
        fields[place] = fields[place].with_type(pa.dictionary(_INDICES[width], fields[place].type))
    return pa.schema(fields, metadata=schema.metadata)


def plain(batch: pa.RecordBatch, schema: pa.Schema, places: Sequence[tuple[int, int]]) -> pa.RecordBatch:
    """Return a batch with plain columns; its indices must be validated. ``schema`` is that of the rows."""
    columns: list[pa.Array] = list(batch.columns)
    for place, _ in places:
        columns[place] = columns[place].dictionary_decode()
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def plain_bytes(batch: pa.RecordBatch, places: Sequence[tuple[int, int]]) -> int:
    """Return the bytes of the decoded columns, before decoding."""
    size = 0
    for place, _ in places:
        column = batch.column(place)
        lengths = pc.binary_length(column.dictionary).take(column.indices)
        size += pc.sum(lengths).as_py() or 0
    return size
