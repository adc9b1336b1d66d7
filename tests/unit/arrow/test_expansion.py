"""Size of decoded messages, known before they are decoded."""

from __future__ import annotations

import struct
from contextlib import suppress

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.arrow import RowsUnreadable, decode_rows, encode_batches, encode_schema
from forebay.arrow.expansion import EXPANDED_BYTES_MAX, UNREADABLE, expanded_bytes
from forebay.arrow.ipc import Compression

ROWS = pa.record_batch({"n": pa.array(range(10_000)), "text": ["abc" * 10] * 10_000, "d": ["x", "y"] * 5_000})


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
def test_the_expanded_size_of_messages_is_that_of_the_batches_arrow_makes_of_them(compression: Compression) -> None:
    messages = encode_batches([ROWS.slice(0, 4_000), ROWS.slice(4_000)], compression)

    found = expanded_bytes(messages)

    assert ROWS.nbytes + 30_000 <= found < ROWS.nbytes + 30_000 + 1_000


def test_dictionaries_count() -> None:
    batch = pa.record_batch({"d": pa.array(["x" * 5_000, "y" * 5_000]).dictionary_encode()})

    assert 10_000 < expanded_bytes(encode_batches([batch], "zstd")) < 10_200


def test_nulls_that_take_no_byte_count() -> None:
    assert expanded_bytes(encode_batches([pa.record_batch({"a": pa.nulls(5_000)})])) == 5_000


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_a_small_page_that_becomes_huge_is_refused_before_it_takes_memory(compression: Compression) -> None:
    bomb = pa.record_batch({"a": [bytes(EXPANDED_BYTES_MAX + 1)]})
    messages = encode_batches([bomb], compression)
    assert len(messages) < 1 << 20
    schema = encode_schema(bomb.schema)
    del bomb
    before = pa.total_allocated_bytes()

    with pytest.raises(RowsUnreadable, match=rf"become 6710\d+ bytes, and at most {EXPANDED_BYTES_MAX} are read"):
        decode_rows(schema, messages, 1)

    assert pa.total_allocated_bytes() - before < 1 << 20


def test_a_page_at_the_bound_is_read() -> None:
    rows = pa.record_batch({"a": [bytes(EXPANDED_BYTES_MAX - 100)]})

    assert decode_rows(encode_schema(rows.schema), encode_batches([rows], "zstd"), 1).equals(rows)


@pytest.mark.parametrize("stated", [1 << 62, -2, -(1 << 62)])
def test_a_size_that_was_forged_is_refused(stated: int) -> None:
    good = encode_batches([pa.record_batch({"a": [bytes(8_000)]})], "zstd")
    wrong = good.replace(struct.pack("<q", 8_000), struct.pack("<q", stated))
    assert wrong != good

    with pytest.raises(RowsUnreadable):
        decode_rows(encode_schema(pa.schema([("a", pa.binary())])), wrong, 1)


@given(st.integers(0, 10_000), st.binary(min_size=1, max_size=8), st.sampled_from(["none", "zstd"]))
def test_whatever_is_damaged_is_unreadable_or_within_the_bound(
    place: int, damage: bytes, compression: Compression
) -> None:
    batch = pa.record_batch({"a": ["x" * 500] * 3, "d": pa.array(["p", "q", "p"]).dictionary_encode()})
    messages = bytearray(encode_batches([batch], compression))
    place %= len(messages)
    messages[place : place + len(damage)] = damage[: len(messages) - place]

    try:
        found = decode_rows(encode_schema(batch.schema), bytes(messages), 3)
    except RowsUnreadable:
        return
    assert found.num_rows == 3


def test_garbage_and_truncated_messages_are_refused() -> None:
    assert expanded_bytes(b"") == 0
    with pytest.raises(RowsUnreadable):
        expanded_bytes(b"nonsense")
    with pytest.raises(RowsUnreadable):
        expanded_bytes(encode_batches([ROWS])[:-40])


def test_a_name_that_our_own_code_lacks_is_no_property_of_the_rows() -> None:
    with pytest.raises(AttributeError), suppress(*UNREADABLE):
        _ = ROWS.no_such_method  # as after a slip in a module of ours
