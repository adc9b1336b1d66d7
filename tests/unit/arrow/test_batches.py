"""Batches are joined in their order, also by a pyarrow that has no function for it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from forebay.arrow import one_batch


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize("sizes", [(3,), (2, 0, 5), (0, 0), (1, 1, 1)])
def test_joined_batches_have_the_rows_of_all_in_their_order(
    sizes: tuple[int, ...], older: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if older:
        monkeypatch.delattr(pa, "concat_batches", raising=False)
    schema = pa.schema([("n", pa.int64()), ("s", pa.string())])
    batches = [pa.record_batch([list(range(size)), [str(size)] * size], schema=schema) for size in sizes]

    made = one_batch(batches)

    assert made.schema == schema
    assert made.to_pylist() == [row for batch in batches for row in batch.to_pylist()]
