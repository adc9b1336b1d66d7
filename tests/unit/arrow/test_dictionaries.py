"""Columns are dictionary-encoded where that is requested and saves space, and are read back plain."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.arrow import RowsUnreadable, decode_rows, encode_batches, encode_schema
from forebay.arrow.dictionaries import COLUMNS_MAX, coded
from forebay.arrow.expansion import EXPANDED_BYTES_MAX

ROWS = pa.record_batch(
    {
        "id": pa.array(range(1_000)),
        "country": pa.array(["Germany", "France", None, "Portugal", "Germany"] * 200),
        "raw": pa.array([b"\x00\xff"] * 1_000, pa.large_binary()),
        "unique": pa.array([f"row {n}" for n in range(1_000)]),
        "none": pa.nulls(1_000, pa.string()),
    },
    schema=pa.schema(
        [
            ("id", pa.int64()),
            pa.field("country", pa.string(), metadata={"kept": "yes"}),
            ("raw", pa.large_binary()),
            ("unique", pa.string()),
            ("none", pa.string()),
        ],
        metadata={"of": "all"},
    ),
)
SCHEMA = encode_schema(ROWS.schema)


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
def test_rows_are_read_with_the_types_and_metadata_of_their_schema(compression: str) -> None:
    batch, places = coded(ROWS, ["unique"], auto=True)

    found = decode_rows(SCHEMA, encode_batches([batch], compression), 1_000, places)  # type: ignore[arg-type]

    assert found.equals(ROWS, check_metadata=True)
    assert places == ((1, 1), (2, 1), (3, 2), (4, 1))


def test_values_that_repeat_are_in_the_page_once() -> None:
    batch, places = coded(ROWS.select(["country", "raw"]), (), auto=True)

    assert len(encode_batches([batch])) < len(encode_batches([ROWS.select(["country", "raw"])])) / 5
    assert encode_batches([batch]).count(b"Portugal") == 1
    assert places == ((0, 1), (1, 1))


def test_only_what_is_named_is_coded_unless_all_that_repeats_is_wanted() -> None:
    assert coded(ROWS, [], auto=False) == (ROWS, ())
    assert coded(ROWS, ["unique"], auto=False)[1] == ((3, 2),)
    assert coded(ROWS, [], auto=True)[1] == ((1, 1), (2, 1), (4, 1))


@pytest.mark.parametrize(("values", "places"), [(25, ((0, 1),)), (26, ())])
def test_a_column_repeats_where_its_values_are_there_four_times(
    values: int, places: tuple[tuple[int, int], ...]
) -> None:
    rows = pa.record_batch({"a": [str(n % values) for n in range(100)]})

    assert coded(rows, [], auto=True)[1] == places


@pytest.mark.parametrize(
    ("values", "places"),
    [(128, ((0, 1),)), (129, ((0, 2),)), (32_768, ((0, 2),)), (32_769, ())],
)
def test_a_rows_number_is_as_small_as_it_may_be(values: int, places: tuple[tuple[int, int], ...]) -> None:
    rows = pa.record_batch({"a": [str(n) for n in range(values)]})

    batch, found = coded(rows, ["a"], auto=False)

    assert found == places
    assert decode_rows(encode_schema(rows.schema), encode_batches([batch]), values, found).equals(rows)


@given(st.lists(st.one_of(st.none(), st.sampled_from(["", "a", "é"]), st.text(max_size=4)), min_size=1, max_size=80))
def test_any_value_of_a_column_round_trips(values: list[str | None]) -> None:
    rows = pa.record_batch({"a": pa.array(values, pa.string())})
    batch, places = coded(rows, ["a"], auto=False)

    assert decode_rows(encode_schema(rows.schema), encode_batches([batch]), len(values), places).equals(rows)


def test_several_batches_of_a_page_have_dictionaries_of_their_own() -> None:
    parts = [coded(ROWS.slice(first, 500), ["country"], auto=False)[0] for first in (0, 500)]

    assert decode_rows(SCHEMA, encode_batches(parts), 1_000, [(1, 1)]).equals(ROWS)


@pytest.mark.parametrize(
    "places",
    [
        [(0, 1)],
        [(5, 1)],
        [(1, 4)],
        [(1, 0)],
        [(3, 1), (1, 1)],
        [(1, 1), (1, 1)],
        [(-1, 1)],
        [(place, 1) for place in range(COLUMNS_MAX + 1)],
        [(3, 1)],
        [(1, 2)],
        [],
    ],
    ids=[
        "not of strings", "no such column", "4 bytes", "no bytes", "not in order", "twice", "below zero", "too many",
        "another column", "another width", "none",
    ],
)  # fmt: skip
def test_dictionaries_of_other_columns_than_stated_are_refused(places: list[tuple[int, int]]) -> None:
    batch, _ = coded(ROWS, ["country"], auto=False)

    with pytest.raises(RowsUnreadable):
        decode_rows(SCHEMA, encode_batches([batch]), 1_000, places)


def test_numbers_that_no_value_has_are_refused_before_they_are_looked_up() -> None:
    batch, places = coded(pa.record_batch({"a": ["x", "y", "z", "x"] * 8}), ["a"], auto=False)
    good = encode_batches([batch])
    wrong = good.replace(bytes((0, 1, 2, 0)) * 8, bytes((0, 1, 9, 0)) * 8)
    assert wrong != good

    with pytest.raises(RowsUnreadable):
        decode_rows(encode_schema(pa.schema([("a", pa.string())])), wrong, 32, places)


def test_a_page_without_its_dictionary_is_refused() -> None:
    batch, places = coded(pa.record_batch({"a": ["x", "x"]}), ["a"], auto=False)
    whole = encode_batches([batch])
    [first, *_] = _messages(whole)

    with pytest.raises(RowsUnreadable):
        decode_rows(encode_schema(pa.schema([("a", pa.string())])), whole[len(first) :], 2, places)


def test_a_dictionary_that_continues_in_a_later_message_is_refused() -> None:
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    short = pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), ["x"])
    longer = pa.DictionaryArray.from_arrays(pa.array([1], pa.int8()), ["x", "y"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([("a", short.type)]), options=options) as writer:
        writer.write_batch(pa.record_batch({"a": short}))
        writer.write_batch(pa.record_batch({"a": longer}))
    stream = sink.getvalue().to_pybytes()
    messages = stream[len(encode_schema(pa.schema([("a", short.type)]))) : -8]

    with pytest.raises(RowsUnreadable, match="continues in a later message"):
        decode_rows(encode_schema(pa.schema([("a", pa.string())])), messages, 2, [(0, 1)])


def test_a_long_value_that_many_rows_name_is_refused_before_it_is_written_out() -> None:
    rows = EXPANDED_BYTES_MAX // (1 << 20) + 1
    long = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int8()), ["x" * (1 << 20)])
    messages = encode_batches([pa.record_batch({"a": long})])
    assert len(messages) < 1 << 21
    before = pa.total_allocated_bytes()

    with pytest.raises(RowsUnreadable, match=f"they become {rows << 20} bytes, and at most {EXPANDED_BYTES_MAX}"):
        decode_rows(encode_schema(pa.schema([("a", pa.string())])), messages, rows, [(0, 1)])

    assert pa.total_allocated_bytes() - before < 1 << 20


def _messages(stream: bytes) -> list[bytes]:
    reader = pa.ipc.MessageReader.open_stream(stream)
    found = []
    while True:
        try:
            found.append(reader.read_next_message().serialize().to_pybytes())
        except StopIteration:
            return found
