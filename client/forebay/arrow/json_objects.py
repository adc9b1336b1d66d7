"""Rows of a page as JSON objects.

A page may be small and its text large: names of columns are written once per row, control characters take six bytes,
and values of a dictionary are written wherever they are used. The length of the text is computed before it is created,
and it is created in pieces.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from forebay.arrow.expansion import RowsUnreadable
from forebay.arrow.json_rows import json_rows
from forebay.arrow.json_size import object_bytes

JSON_BYTES_MAX: Final = 256 << 20
"""Maximum bytes of JSON that are built from one page at once."""
PIECE_BYTES: Final = 2 << 20
"""Bytes of JSON per piece, unless a single row has more."""


def json_objects(batch: pa.RecordBatch) -> list[bytes]:
    """Return one JSON object per row.

    Raises `RowsUnreadable` where that would be too much text or cannot be made, and ``NoJsonForm`` for a type that has
    no JSON.
    """
    checked_bytes(batch)
    try:
        found: list[bytes] = json_rows(batch).to_pylist()
    except (pa.ArrowException, struct.error) as error:
        raise RowsUnreadable(f"no JSON can be made of the rows: {error}") from error
    return found


def checked_bytes(batch: pa.RecordBatch) -> int:
    """Return the maximum length of the JSON objects of a batch.

    Raises `RowsUnreadable` above `JSON_BYTES_MAX`.
    """
    size = batch_bytes(batch)
    if size > JSON_BYTES_MAX:
        raise RowsUnreadable(
            f"they become up to {size} bytes of JSON, and at most {JSON_BYTES_MAX} are made; take the page as it is"
        )
    return size


def json_pieces(batch: pa.RecordBatch, *, bytes_max: int = PIECE_BYTES) -> Iterator[tuple[int, pa.RecordBatch, int]]:
    """Yield position, rows and bytes of JSON of consecutive pieces; a larger piece has a single row."""
    pieces = [(0, batch)]
    while pieces:
        at, rows = pieces.pop()
        size = batch_bytes(rows)
        if size <= bytes_max or rows.num_rows <= 1:
            if rows.num_rows:
                yield at, rows, size
            continue
        # Never a piece with less than half of the rows is divided further than it has to be.
        step = max(1, min(rows.num_rows // 2, rows.num_rows * bytes_max // size))
        firsts = range(0, rows.num_rows, step)
        pieces += [(at + first, rows.slice(first, step)) for first in reversed(firsts)]


def batch_bytes(batch: pa.RecordBatch) -> int:
    """Return the maximum length of the JSON objects of a batch."""
    try:
        return object_bytes(batch.schema.names, batch.columns, batch.num_rows)
    except (pa.ArrowException, struct.error) as error:
        raise RowsUnreadable(f"no JSON can be made of the rows: {error}") from error
