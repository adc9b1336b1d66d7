"""Content of rows: the same for the same rows however they are cut and ordered, and another one for other rows."""

from __future__ import annotations

import datetime
import decimal
import random
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.client import EpochContent
from forebay.spark.write.content import CountedBatches, RowContent, content_of

SCHEMA = pa.schema(
    [
        ("flag", pa.bool_()),
        ("small", pa.int8()),
        ("number", pa.int64()),
        ("share", pa.float64()),
        ("single", pa.float32()),
        ("price", pa.decimal128(20, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("text", pa.string()),
        ("wide", pa.large_string()),
        ("value", pa.binary()),
        ("tags", pa.list_(pa.string())),
        ("counts", pa.map_(pa.string(), pa.int32())),
        ("place", pa.struct([("x", pa.int64()), ("name", pa.string())])),
    ]
)
ROWS = st.fixed_dictionaries(
    {
        "flag": st.none() | st.booleans(),
        "small": st.none() | st.integers(-128, 127),
        "number": st.none() | st.integers(-(2**63), 2**63 - 1),
        "share": st.none() | st.floats(),
        "single": st.none() | st.floats(width=32),
        "price": st.none() | st.decimals(-(10**15), 10**15, places=2),
        "day": st.none() | st.dates(),
        "at": st.none() | st.datetimes(timezones=st.just(datetime.UTC)),
        "text": st.none() | st.text(max_size=5),
        "wide": st.none() | st.text(max_size=5),
        "value": st.none() | st.binary(max_size=5),
        "tags": st.none() | st.lists(st.none() | st.text(max_size=3), max_size=3),
        "counts": st.none()
        | st.dictionaries(st.text(max_size=3), st.integers(0, 9), max_size=3).map(lambda d: [*d.items()]),
        "place": st.none()
        | st.fixed_dictionaries({"x": st.none() | st.integers(0, 9), "name": st.none() | st.text(max_size=2)}),
    }
)
ONE: dict[str, Any] = {
    "flag": True,
    "small": 3,
    "number": 1 << 40,
    "share": 0.5,
    "single": 0.25,
    "price": decimal.Decimal("12.50"),
    "day": datetime.date(2026, 1, 31),
    "at": datetime.datetime(2026, 1, 31, 23, 59, tzinfo=datetime.UTC),
    "text": "ab",
    "wide": "cd",
    "value": b"ef",
    "tags": ["x", None],
    "counts": [("k", 1)],
    "place": {"x": 1, "name": "n"},
}
CHANGED: dict[str, Any] = {
    "flag": False,
    "small": 4,
    "number": (1 << 40) + 1,
    "share": 0.75,
    "single": 0.5,
    "price": decimal.Decimal("12.51"),
    "day": datetime.date(2026, 2, 1),
    "at": datetime.datetime(2026, 1, 31, 23, 59, 1, tzinfo=datetime.UTC),
    "text": "ac",
    "wide": "ce",
    "value": b"eg",
    "tags": ["x"],
    "counts": [("k", 2)],
    "place": {"x": 1, "name": None},
}


def batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


@given(rows=st.lists(ROWS, max_size=12), cuts=st.lists(st.integers(0, 12), max_size=4), seed=st.integers())
def test_neither_the_order_of_rows_nor_the_cuts_between_batches_change_the_content(
    rows: list[dict[str, Any]], cuts: list[int], seed: int
) -> None:
    mixed = random.Random(seed).sample(rows, len(rows))
    whole = batch(mixed)
    ends = [0, *sorted(cut for cut in cuts if cut <= len(rows)), len(rows)]
    parts = [whole.slice(first, end - first) for first, end in pairwise(ends)]

    assert sum(map(content_of, parts), RowContent()) == content_of(batch(rows))


@pytest.mark.parametrize("column", SCHEMA.names)
def test_one_changed_value_changes_the_content_and_a_null_does_too(column: str) -> None:
    rows = [ONE, CHANGED, ONE]
    found = content_of(batch(rows))

    for value in (CHANGED[column], None):
        changed = content_of(batch([ONE, CHANGED, {**ONE, column: value}]))
        assert changed.records == found.records
        assert changed.sums != found.sums


@pytest.mark.parametrize(
    "columns",
    [
        {"ID": pa.array([1, 2], pa.int64())},
        {"id": pa.array([1, 2], pa.int32())},
        {"id": pa.array([1, 2], pa.int64()), "added": pa.nulls(2, pa.string())},
        {"id": pa.array([1, 2], pa.int64()).dictionary_encode()},
    ],
    ids=["case of the name", "narrower integers", "a column of nulls", "dictionary"],
)
def test_equivalent_batches_have_the_same_content(columns: dict[str, pa.Array]) -> None:
    assert content_of(pa.record_batch(columns)) == content_of(pa.record_batch({"id": pa.array([1, 2], pa.int64())}))


def test_the_same_values_in_another_column_are_other_rows() -> None:
    left, right = pa.record_batch({"a": pa.array([1])}), pa.record_batch({"b": pa.array([1])})

    assert content_of(left) != content_of(right)


def test_batches_are_counted_as_they_are_read_and_to_their_end_when_drained() -> None:
    counted = CountedBatches(iter([batch([ONE]), batch([CHANGED, ONE])]))

    next(iter(counted))
    assert counted.content == content_of(batch([ONE]))
    counted.drain()

    assert counted.content == content_of(batch([ONE, ONE, CHANGED]))


def test_an_epoch_gets_the_number_and_a_digest_of_one_kind() -> None:
    assert RowContent(3, 0xAB).of_epoch == EpochContent(3, "sums1:00000000000000ab")
