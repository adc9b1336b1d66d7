"""Rows become JSON objects, unless their text would exceed the limit."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from forebay.arrow import RowsUnreadable, batch_bytes, json_objects, json_pieces
from forebay.arrow.json_objects import JSON_BYTES_MAX
from forebay.arrow.json_rows import json_rows

MIB = 1 << 20


def test_rows_are_the_objects_that_json_rows_makes() -> None:
    rows = pa.record_batch({"id": [1, 2], "text": ["a", None]})

    assert json_objects(rows) == json_rows(rows).to_pylist() == [b'{"id":1,"text":"a"}', b'{"id":2,"text":null}']


def test_pieces_are_all_rows_in_order_and_bounded() -> None:
    rows = pa.record_batch({"id": range(1_000), "text": ["x" * (number % 50) for number in range(1_000)]})

    pieces = list(json_pieces(rows, bytes_max=2_000))

    assert pa.Table.from_batches([piece for _, piece, _ in pieces]) == pa.Table.from_batches([rows])
    assert [at for at, _, _ in pieces] == [sum(p.num_rows for _, p, _ in pieces[:n]) for n in range(len(pieces))]
    assert all(size == batch_bytes(piece) <= 2_000 for _, piece, size in pieces)
    assert len(pieces) < 150


def test_a_row_that_is_larger_than_a_piece_is_one_of_its_own() -> None:
    rows = pa.record_batch({"text": ["a", "\x01" * 1_000, "b", "c"]})

    found = [(at, piece.num_rows) for at, piece, size in json_pieces(rows, bytes_max=500) if size > 500]

    assert found == [(1, 1)]
    assert list(json_pieces(rows.slice(4))) == []


@pytest.mark.parametrize(
    "rows",
    [
        {"n" * MIB: pa.nulls(300)},
        {"a": pa.DictionaryArray.from_arrays(pa.array([0] * 300, pa.int16()), ["x" * MIB])},
        {"a": pa.ListArray.from_arrays(pa.array([0, 60 * MIB], pa.int32()), pa.nulls(60 * MIB))},
        {"a": pa.StructArray.from_arrays([pa.nulls(300)], names=["n" * MIB])},
    ],
    ids=["names", "dictionary", "nulls in a list", "names inside"],
)
def test_text_that_would_be_far_larger_than_the_page_is_not_made(rows: dict[str, Any]) -> None:
    batch = pa.record_batch(rows)
    assert batch.nbytes < JSON_BYTES_MAX / 100

    with pytest.raises(RowsUnreadable, match=f"bytes of JSON, and at most {JSON_BYTES_MAX} are made"):
        json_objects(batch)
