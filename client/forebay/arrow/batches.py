"""Concatenation of record batches."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa


def one_batch(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return one batch with the rows of all, in order. At least one is given, with equal schemas."""
    if len(batches) == 1:
        return batches[0]
    if hasattr(pa, "concat_batches"):
        return pa.concat_batches(batches)
    rows = pa.Table.from_batches(batches).combine_chunks().to_batches()  # pyarrow 18
    return rows[0] if rows else batches[0]
