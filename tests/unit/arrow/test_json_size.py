"""The length of JSON is known before it is made."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.arrow.json_rows import json_rows, json_text
from forebay.arrow.json_size import json_bytes, object_bytes


def length(array: pa.Array) -> int:
    """Bytes that the JSON of all elements has."""
    return sum(len(text.encode()) for text in json_text(array).to_pylist())


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1, None, -(1 << 63)]),
        pa.array([True, False]),
        pa.array(["short", "x" * 1_000, None, '"' * 50, "\x01" * 50, "é\n" * 50]),
        pa.array(["\x01" * 50, "\x1f"], pa.large_string()),
        pa.array([b"\x00" * 900, b"", b"\x00"]),
        pa.array([b"\x00" * 9], pa.binary(9)),
        pa.array([Decimal("-1." + "1" * 75)], pa.decimal256(76, 75)),
        pa.array([Decimal("-1." + "1" * 75 + "E-2147483572")], pa.decimal256(76, 2_147_483_647)),
        pa.array([-1.7976931348623157e308, float("nan"), float("-inf")]),
        pa.array([-(2**62)], pa.timestamp("us", "UTC")),
        pa.array([-(2**63)], pa.duration("us")),
        pa.array([[1, 2, None], None, []]),
        pa.array([[1, 2]], pa.list_(pa.int64(), 2)),
        pa.array([{"name": "x", "\x01\x01": [1.5]}, None]),
        pa.array([[("key", "value" * 100)], None, []], pa.map_(pa.string(), pa.string())),
        pa.array([[(['"\x01'], 1)]], pa.map_(pa.list_(pa.string()), pa.int8())),
        pa.array(["long " * 100, "short", "\x01" * 100]).dictionary_encode(),
        pa.array([1, 2, 1]).dictionary_encode(),
        pa.nulls(7),
    ],
    ids=lambda values: str(values.type),
)
@pytest.mark.parametrize("first", [0, 1])
def test_the_size_is_no_less_than_the_text(values: pa.Array, first: int) -> None:
    part = values.slice(first)

    assert json_bytes(part) >= length(part)


@given(values=st.lists(st.none() | st.text(max_size=300), max_size=20))
def test_the_size_of_strings_is_close(values: list[str | None]) -> None:
    array = pa.array(values, pa.string())

    assert length(array) <= json_bytes(array) <= length(array) + 6 * len(array)


@given(values=st.lists(st.binary(max_size=300), max_size=20))
def test_the_size_of_binaries_is_close(values: list[bytes]) -> None:
    array = pa.array(values, pa.binary())

    assert length(array) <= json_bytes(array) <= length(array) + 10 * len(array)


def test_control_characters_count_six_bytes_each() -> None:
    array = pa.array(["\x01" * 1_000_000])

    assert 6_000_000 <= json_bytes(array) <= 6_000_100


@pytest.mark.parametrize("rows", [{"plain": [1, 2]}, {'"quoted"': ["x"]}, {"é\x01": [None] * 9}])
def test_the_names_of_columns_count_once_per_row(rows: dict[str, Any]) -> None:
    batch = pa.record_batch(rows)
    size = object_bytes(batch.schema.names, batch.columns, batch.num_rows)

    assert size >= sum(map(len, json_rows(batch).to_pylist()))
