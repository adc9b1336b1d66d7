"""Rows become JSON objects, unless that would be more text than anybody should hold."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from holdfast.arrow import RowsUnreadable, json_objects
from holdfast.arrow.json_rows import json_rows, json_text
from holdfast.arrow.one_by_one import JSON_BYTES_MAX, json_bytes

MIB = 1 << 20


def test_rows_are_the_objects_that_json_rows_makes() -> None:
    rows = pa.record_batch({"id": [1, 2], "text": ["a", None]})

    assert json_objects(rows) == json_rows(rows).to_pylist() == [b'{"id":1,"text":"a"}', b'{"id":2,"text":null}']


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1, None, -(1 << 63)]),
        pa.array([True, False]),
        pa.array(["short", "x" * 1_000, None, '"' * 50]),
        pa.array([b"\x00" * 900]),
        pa.array([b"\x00" * 9], pa.binary(9)),
        pa.array([[1, 2, None], None, []]),
        pa.array([[1, 2]], pa.list_(pa.int64(), 2)),
        pa.array([{"name": "x", "other": [1.5]}, None]),
        pa.array([[("key", "value" * 100)], None, []], pa.map_(pa.string(), pa.string())),
        pa.array(["long " * 100, "short"]).dictionary_encode(),
        pa.array([1, 2, 1]).dictionary_encode(),
        pa.nulls(7),
    ],
    ids=lambda values: str(values.type),
)
@pytest.mark.parametrize("first", [0, 1])
def test_the_estimate_is_no_less_than_the_text(values: pa.Array, first: int) -> None:
    part = values.slice(first)

    assert json_bytes(part) >= sum(map(len, json_text(part).to_pylist()))


@pytest.mark.parametrize(
    "rows",
    [
        {"n" * MIB: pa.nulls(300)},
        {"a": pa.DictionaryArray.from_arrays(pa.array([0] * 300, pa.int16()), ["x" * MIB])},
        {"a": pa.ListArray.from_arrays(pa.array([0, 10 * MIB], pa.int32()), pa.nulls(10 * MIB))},
        {"a": pa.StructArray.from_arrays([pa.nulls(300)], names=["n" * MIB])},
    ],
    ids=["names", "dictionary", "nulls in a list", "names inside"],
)
def test_text_that_would_be_far_larger_than_the_page_is_not_made(rows: dict[str, Any]) -> None:
    batch = pa.record_batch(rows)
    assert batch.nbytes < JSON_BYTES_MAX / 100

    with pytest.raises(RowsUnreadable, match=f"bytes of JSON, and at most {JSON_BYTES_MAX} are made"):
        json_objects(batch)
