"""Rows are encoded in messages without their schema, and decoded with it, or not at all."""

from __future__ import annotations

import sys

import pyarrow as pa
import pytest

from forebay.arrow.expansion import RowsUnreadable
from forebay.arrow.ipc import decode_rows, encode_batches, encode_schema, read_schema
from tests.support.pages.empty_lists import LISTS, no_lists

BATCH = pa.record_batch({"id": pa.array([1, 2, None, 4]), "name": pa.array(["a", "b", "c", None])})
SCHEMA = encode_schema(BATCH.schema)


def test_a_schema_round_trips_with_its_metadata() -> None:
    schema = pa.schema([pa.field("a", pa.int32(), nullable=False, metadata={"k": "v"})], metadata={"m": "n"})

    assert read_schema(encode_schema(schema)).equals(schema, check_metadata=True)


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
def test_rows_are_read_as_one_batch(compression: str) -> None:
    parts = [BATCH.slice(0, 1), BATCH.slice(1, 3)]

    messages = encode_batches(parts, compression)  # type: ignore[arg-type]

    assert decode_rows(SCHEMA, messages, 4).equals(BATCH)


def test_messages_do_not_carry_the_schema() -> None:
    assert b"name" not in encode_batches([BATCH])


def test_dictionaries_come_before_their_rows() -> None:
    batch = pa.record_batch({"name": pa.array(["a", "b", "a"]).dictionary_encode()})

    found = decode_rows(encode_schema(batch.schema), encode_batches([batch]), 3)

    assert found.column("name").to_pylist() == ["a", "b", "a"]


@pytest.mark.parametrize("rows", [3, 5])
def test_another_number_of_rows_than_stated_is_refused(rows: int) -> None:
    with pytest.raises(RowsUnreadable, match="found rows: 4, stated: "):
        decode_rows(SCHEMA, encode_batches([BATCH]), rows)


@pytest.mark.parametrize("damage", [b"", b"nonsense", encode_batches([BATCH])[:-40]])
def test_rows_that_are_no_complete_message_are_refused(damage: bytes) -> None:
    with pytest.raises(RowsUnreadable):
        decode_rows(SCHEMA, damage, 4)


def test_offsets_that_lead_outside_are_refused_before_they_are_followed() -> None:
    good = encode_batches([BATCH])
    offsets = b"".join(n.to_bytes(4, "little") for n in (0, 1, 2, 3))
    wrong = good.replace(offsets, b"".join(n.to_bytes(4, "little") for n in (0, 1 << 30, 2, 3)))

    with pytest.raises(RowsUnreadable):
        decode_rows(SCHEMA, wrong, 4)


def test_another_schema_is_refused() -> None:
    other = encode_schema(pa.schema([("id", pa.int64())] * 3))

    with pytest.raises(RowsUnreadable):
        decode_rows(other, encode_batches([BATCH]), 4)


def test_a_schema_that_cannot_be_decoded_is_refused() -> None:
    with pytest.raises(RowsUnreadable, match="the schema cannot be read"):
        read_schema(b"nonsense")


def test_content_after_a_schema_message_is_not_read() -> None:
    zeros = pa.record_batch({"id": pa.array([0] * (4 << 20)), "name": pa.array([""] * (4 << 20))})
    bomb, closed = SCHEMA + encode_batches([zeros], "zstd"), SCHEMA + b"\xff\xff\xff\xff\0\0\0\0"
    assert len(bomb) < 100_000

    for schema in (bomb, closed):
        assert decode_rows(schema, encode_batches([BATCH]), 4).equals(BATCH)


def test_dictionaries_keep_the_ids_of_the_schema_as_it_was_registered() -> None:
    batch = pa.record_batch({name: pa.array(["x", "y"]).dictionary_encode() for name in "ab"})
    second, other = ((number).to_bytes(8, "little") for number in (1, 7))
    schema = encode_schema(batch.schema).replace(second, other)
    messages = encode_batches([batch]).replace(second, other, 1)

    assert decode_rows(schema, messages, 2).equals(batch)


@pytest.mark.parametrize("kind", LISTS)
def test_lists_that_would_end_the_process_of_a_reader_are_refused(kind: pa.DataType) -> None:
    column = pa.ListArray.from_arrays(pa.array([0, 0], pa.int32()), no_lists(kind, first=1 << 18))
    batch = pa.record_batch({"a": column})
    batch.validate(full=True)

    with pytest.raises(RowsUnreadable, match="a list without elements begins beyond the elements of its column"):
        decode_rows(encode_schema(batch.schema), encode_batches([batch]), 1)


def test_a_schema_with_another_byte_order_is_refused() -> None:
    without_order, with_another = b"\x08\0\x08\0\0\0\x04\0", b"\x08\0\x08\0\x04\0\x04\0"  # where its fields are
    foreign = SCHEMA.replace(without_order, with_another)
    assert foreign != SCHEMA
    assert pa.ipc.read_schema(pa.py_buffer(foreign)).names == BATCH.schema.names

    with pytest.raises(RowsUnreadable, match=f"its byte order is not {sys.byteorder}-endian"):
        read_schema(foreign)
    with pytest.raises(RowsUnreadable, match=f"its byte order is not {sys.byteorder}-endian"):
        decode_rows(foreign, encode_batches([BATCH]), 4)
