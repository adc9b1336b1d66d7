"""Records as a person reads them: bounded, and marked where something is left out."""

from __future__ import annotations

import base64
import json
import time
import zlib

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.arrow import encode_batches, encode_schema, json_rows
from forebay.broker.core.dead_letters.letters import PlainRecord
from forebay.broker.core.partition.pages import Body, Encoding, Entry, PagePart
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.writes import SchemaRecord
from forebay.broker.rpc.buffer.peek import (
    HEADER_CHARS_MAX,
    HEADERS_SHOWN_MAX,
    LOOKED_AT_BYTES,
    SHOWN_MAX,
    peeked,
    shown,
)
from forebay.broker.rpc.pages.rows import LARGE_ROWS_MAX
from forebay.v1 import record_pb2
from tests.support.pages.samples import no_schema

MIB = 1 << 20


# -- one record


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        (b'{"a": 1}', "json", '{"a": 1}'),
        (b"plain text", "text", "plain text"),
        (b"", "text", ""),
        (b"\xff\x00", "base64", "/wA="),
        ("größe".encode(), "text", "größe"),
    ],
)
def test_a_value_is_shown_as_it_reads_best(value: bytes, form: str, text: str) -> None:
    message = shown(PlainRecord(value))

    assert (message.format, message.value, message.value_bytes, message.truncated) == (form, text, len(value), False)


@pytest.mark.parametrize(
    "value", [b"x" * 10_000, b"\xff" * 10_000, json.dumps(["x"] * 5_000).encode(), b"x" * MIB, b"\xff" * MIB]
)
def test_a_long_value_is_cut_and_marked_and_its_length_is_reported(value: bytes) -> None:
    message = shown(PlainRecord(value))

    assert (len(message.value), message.truncated) == (SHOWN_MAX, True)
    assert message.value_bytes == len(value)


def test_a_truncated_binary_value_is_still_valid_base64() -> None:
    message = shown(PlainRecord(b"\xff" * 10_000))

    assert base64.b64decode(message.value) == b"\xff" * 3_072


@pytest.mark.parametrize("value", [b"[" * 60_000, b'{"a":' * 100_000, b"1" * 100_000, b"[" * 900 + b"]" * 900])
def test_a_value_that_only_looks_like_json_is_shown_all_the_same(value: bytes) -> None:
    assert shown(PlainRecord(value)).value == value[:SHOWN_MAX].decode()


@given(text=st.text(min_size=1, max_size=4), repeated=st.integers(1, 70_000))
def test_a_long_text_is_shown_from_its_beginning(text: str, repeated: int) -> None:
    value = text * repeated

    message = shown(PlainRecord(value.encode(), key=value.encode()))

    assert message.value == message.key == value[:SHOWN_MAX]
    assert message.truncated == (len(value) > SHOWN_MAX)


def test_a_value_of_megabytes_costs_no_more_than_what_is_shown_of_it() -> None:
    record = PlainRecord(b"[" + b"[]," * (2 * MIB) + b"0]")
    begun = time.process_time()

    messages = [shown(record) for _ in range(100)]

    assert {message.format for message in messages} == {"text"}
    assert len(record.value) > LOOKED_AT_BYTES
    assert time.process_time() - begun < 0.5


def test_key_and_headers_are_shown_as_text_or_base64_and_are_cut_too() -> None:
    headers = (("text", b"v"), ("bytes", b"\xff"), ("long", b"x" * 9_999))

    message = shown(PlainRecord(b"", key=b"k" * 9_999, headers=headers))

    assert message.key == "k" * SHOWN_MAX
    assert dict(message.headers) == {"text": "v", "bytes": "/w==", "long": "x" * SHOWN_MAX}
    assert (message.truncated, message.headers_omitted) == (True, 0)


def test_headers_that_are_long_together_are_left_out_and_counted() -> None:
    headers = tuple((f"{number}", b"x" * SHOWN_MAX) for number in range(60))

    message = shown(PlainRecord(b"", headers=headers), omitted=3)

    assert len(message.headers) == -(-HEADER_CHARS_MAX // SHOWN_MAX)
    assert message.headers_omitted == 60 - len(message.headers) + 3
    assert message.truncated


def test_a_record_without_a_key_or_time_shows_none() -> None:
    message = shown(PlainRecord(b"x"))

    assert (message.key, message.HasField("event_time")) == ("", False)
    assert shown(PlainRecord(b"x", event_time_us=5_000_000)).event_time.seconds == 5


# -- pages


def records(*values: bytes, headers: int = 0) -> tuple[Entry, Body]:
    """A stored page of records from offset 10, the first of which has headers."""
    run = record_pb2.RecordRun(value_lengths=map(len, values), values=b"".join(values))
    if headers:
        run.headers.add().entries.extend([record_pb2.Header(key=f"{number}") for number in range(headers)])
        run.headers.extend([record_pb2.Headers()] * (len(values) - 1))
    data = record_pb2.RecordPage(runs=[run]).SerializeToString()
    parts = (PagePart(10, 7), PagePart(12, 9))
    return Entry(10, len(values), 1, False, len(data), Encoding.RECORDS, 50, 0, 0, 0, parts), Body(0, data)


def rows(batch: pa.RecordBatch) -> tuple[Entry, Body]:
    """A stored page of rows from offset 10."""
    page = record_pb2.ArrowPage(schema_version=1, rows=batch.num_rows, messages=encode_batches([batch], "zstd"))
    data = page.SerializeToString()
    return Entry(10, batch.num_rows, 1, False, len(data), Encoding.ARROW, 50, 0, 0, 0), Body(zlib.crc32(data), data)


def test_records_of_a_page_are_shown_with_their_places() -> None:
    found = peeked(*records(b"a", b"b", b"c"), Range(11, 13), no_schema, room=MIB)

    assert [(one.offset, one.value, one.accepted_at.nanos) for one in found] == [(11, "b", 7_000), (12, "c", 9_000)]


def test_it_ends_when_the_room_is_used() -> None:
    page = records(*[b"x" * 1_000] * 10)

    found = peeked(*page, Range(0, 100), no_schema, room=2_500)

    assert [one.offset for one in found] == [10, 11, 12]


def test_stored_headers_beyond_what_may_be_published_are_left_out_and_counted() -> None:
    page = records(b"a", b"b", headers=100_000)

    first, second = peeked(*page, Range(10, 12), no_schema, room=MIB)

    assert (len(first.headers), first.headers_omitted) == (HEADERS_SHOWN_MAX, 100_000 - HEADERS_SHOWN_MAX)
    assert (first.truncated, second.truncated) == (True, False)


def test_rows_are_shown_as_json() -> None:
    batch = pa.record_batch({"id": [1, 2], "text": ["x", "y" * 5_000]})

    first, second = peeked(*rows(batch), Range(10, 12), lambda _: schema(batch), room=MIB)

    assert (first.value, first.format, first.truncated) == ('{"id":1,"text":"x"}', "json", False)
    assert (second.offset, len(second.value), second.truncated) == (11, SHOWN_MAX, True)
    assert second.value_bytes == len(json_rows(batch)[1].as_py())
    assert dict(first.headers) == {"forebay.schema_version": "1"}


@pytest.mark.parametrize("count", [1, 100])
def test_rows_that_are_large_as_json_are_shown_from_their_beginning_and_nothing_more_is_made(count: int) -> None:
    batch = pa.record_batch({"text": ["\x01" * (60 * MIB // count)] * count})
    page = rows(batch)
    assert page[0].size < 64 << 10
    begun = time.process_time()

    found = peeked(*page, Range(10, 110), lambda _: schema(batch), room=8 * MIB)

    assert len(found) == min(count, LARGE_ROWS_MAX)
    assert all(one.value == '{"text":"' + "\\u0001" * 681 + "\\" for one in found)
    assert all(one.truncated and one.value_bytes >= 6 * 60 * MIB // count for one in found)
    assert time.process_time() - begun < 5


def schema(batch: pa.RecordBatch) -> SchemaRecord:
    """The schema of the rows."""
    return SchemaRecord(1, 7, encode_schema(batch.schema), "")
