"""The first characters of a row are those of its JSON, and what is after them costs nothing."""

from __future__ import annotations

import time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.arrow import json_prefix, json_rows

MIB = 1 << 20
TEXT = st.text(max_size=6) | st.sampled_from(["\x01\x02", '"\\', "é\u202e\U0001f600", ""])
ROWS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "text": (pa.string(), TEXT),
    "large": (pa.large_string(), TEXT),
    "binary": (pa.binary(), st.binary(max_size=9)),
    "fixed": (pa.binary(4), st.binary(min_size=4, max_size=4)),
    "number": (pa.int64(), st.integers(-(1 << 63), (1 << 63) - 1)),
    "tiny": (pa.decimal128(3, 100), st.integers(-999, 999).map(lambda number: Decimal(f"{number}E-100"))),
    "real": (pa.float64(), st.floats()),
    "flag": (pa.bool_(), st.booleans()),
    "time": (pa.timestamp("us", "UTC"), st.integers(-(10**15), 10**15)),
    "span": (pa.duration("us"), st.integers(-(10**15), 10**15)),
    "list": (pa.list_(pa.string()), st.lists(st.none() | TEXT, max_size=4)),
    "deep": (
        pa.list_(pa.struct([("x", pa.float64()), ('"', pa.list_(pa.binary()))])),
        st.lists(
            st.none() | st.fixed_dictionaries({"x": st.floats(), '"': st.lists(st.binary(max_size=3))}), max_size=3
        ),
    ),
    "map": (pa.map_(pa.string(), pa.int32()), st.lists(st.tuples(TEXT, st.none() | st.integers(0, 9)), max_size=3)),
    "numbered": (
        pa.map_(pa.float64(), pa.binary()),
        st.lists(st.tuples(st.floats(), st.binary(max_size=3)), max_size=3),
    ),
    "by list": (
        pa.map_(pa.list_(pa.string()), pa.int8()),
        st.lists(st.tuples(st.lists(TEXT, max_size=2), st.integers(0, 9)), max_size=2),
    ),
    "nothing": (pa.null(), st.none()),
}


@given(data=st.data(), chars=st.integers(0, 60), names=st.sets(st.sampled_from(sorted(ROWS)), max_size=4))
def test_a_prefix_is_the_beginning_of_the_whole_text(data: st.DataObject, chars: int, names: set[str]) -> None:
    columns = {name: ROWS[name] for name in sorted(names)}
    schema = pa.schema([(name, kind) for name, (kind, _) in columns.items()])
    values = {
        name: data.draw(st.lists(st.none() | rows, min_size=3, max_size=3)) for name, (_, rows) in columns.items()
    }
    batch = pa.record_batch(
        [pa.array(values[name], kind) for name, (kind, _) in columns.items()] or [pa.nulls(3)],
        schema=schema if columns else pa.schema([("nothing", pa.null())]),
    ).slice(1)

    for row, whole in enumerate(text.decode() for text in json_rows(batch).to_pylist()):
        assert json_prefix(batch, row, chars) == (whole[:chars], len(whole) <= chars)


@pytest.mark.parametrize("chars", range(20))
def test_a_key_that_is_no_number_is_cut_like_a_text(chars: int) -> None:
    batch = pa.record_batch({"a": pa.array([[(float("-inf"), 1)]], pa.map_(pa.float64(), pa.int8()))})

    assert json_prefix(batch, 0, chars) == ('{"a":{"-Infinity":1}}'[:chars], False)


def test_a_coded_column_shows_its_values() -> None:
    batch = pa.record_batch({"a": pa.array(["x", "y", "x"]).dictionary_encode()})

    assert json_prefix(batch, 2, 100) == ('{"a":"x"}', True)


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["\x01" * (32 * MIB)]),
        pa.array([b"\x00" * (32 * MIB)]),
        pa.ListArray.from_arrays(pa.array([0, 32 * MIB], pa.int32()), pa.nulls(32 * MIB)),
    ],
    ids=["control characters", "binary", "nulls in a list"],
)
def test_a_prefix_of_much_costs_little(column: pa.Array) -> None:
    batch = pa.record_batch({"a": column})
    begun = time.process_time()

    text, whole = json_prefix(batch, 0, 4_096)

    assert (len(text), whole) == (4_096, False)
    assert time.process_time() - begun < 0.5
