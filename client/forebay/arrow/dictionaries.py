"""Columns of strings or binaries that stand in a page as a dictionary of their values and a number per row.

That belongs to the page and not to the schema: each page says which of its columns are coded, and has its dictionaries
inside. Who decodes it gets the plain columns.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from forebay.arrow.expansion import RowsUnreadable

REPEATS_MIN: Final = 4
"""A column that nobody has named is coded where its values stand in the page so many times each, on average."""
COLUMNS_MAX: Final = 1_024
"""Most columns of a page that are coded."""
_INDICES: Final = {1: pa.int8(), 2: pa.int16()}
"""By how many bytes a row's number has; with more there would be nothing to gain in a page."""
_VALUES_MAX: Final = {1: 1 << 7, 2: 1 << 15}


def can_be_coded(kind: pa.DataType) -> bool:
    """Say whether columns of a type may have a dictionary: strings and binaries, and nothing nested."""
    is_one = (pa.types.is_string, pa.types.is_binary, pa.types.is_large_string, pa.types.is_large_binary)
    return any(is_kind(kind) for is_kind in is_one)


def coded(
    batch: pa.RecordBatch, names: Collection[str], *, auto: bool
) -> tuple[pa.RecordBatch, tuple[tuple[int, int], ...]]:
    """Return a batch with dictionaries, and the place and bytes per row of each column that has one.

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
    """Return the schema of a page, given that of its rows. Raises `RowsUnreadable` for places that cannot be."""
    if len(places) > COLUMNS_MAX or [place for place, _ in places] != sorted({place for place, _ in places}):
        raise RowsUnreadable(f"the columns with a dictionary are not in order, or more than {COLUMNS_MAX}")
    fields = list(schema)
    for place, width in places:
        if not (0 <= place < len(fields) and width in _INDICES and can_be_coded(fields[place].type)):
            raise RowsUnreadable(
                f"column {place} has a dictionary with {width} bytes per row, which is not known to this version"
            )
        fields[place] = fields[place].with_type(pa.dictionary(_INDICES[width], fields[place].type))
    return pa.schema(fields, metadata=schema.metadata)


def plain(batch: pa.RecordBatch, schema: pa.Schema, places: Sequence[tuple[int, int]]) -> pa.RecordBatch:
    """Return a batch, whose numbers have been checked, with plain columns; ``schema`` is that of the rows."""
    columns: list[pa.Array] = list(batch.columns)
    for place, _ in places:
        columns[place] = columns[place].dictionary_decode()
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def plain_bytes(batch: pa.RecordBatch, places: Sequence[tuple[int, int]]) -> int:
    """Return how many bytes the coded columns of a batch become, before they do."""
    size = 0
    for place, _ in places:
        column = batch.column(place)
        lengths = pc.binary_length(column.dictionary).take(column.indices)
        size += pc.sum(lengths).as_py() or 0
    return size
