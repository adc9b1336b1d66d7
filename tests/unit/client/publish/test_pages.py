"""Encoding: byte for byte what protobuf itself would write."""

from __future__ import annotations

import zlib
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.client import EncodedPage, InvalidPage
from forebay.client.publish.pages import encode_columns, encode_joined, frame_publish_page
from forebay.page.format import NO_KEY, NO_TIME
from forebay.page.numbers import lengths_of
from forebay.page.varint import encoded
from forebay.v1 import buffer_service_pb2 as pb
from forebay.v1 import record_pb2

TIMES = st.none() | st.integers(-(2**62), 2**62)
HEADERS = st.lists(st.tuples(st.text(min_size=1, max_size=5), st.binary(max_size=9)), max_size=3)
RECORDS = st.lists(
    st.tuples(st.binary(max_size=300), st.none() | st.binary(max_size=9), TIMES, HEADERS), min_size=1, max_size=40
)


def by_protobuf(records: list[tuple[bytes, bytes | None, int | None, list[tuple[str, bytes]]]]) -> bytes:
    """Encode records the slow way."""
    run = record_pb2.RecordRun(
        value_lengths=[len(value) for value, *_ in records], values=b"".join(value for value, *_ in records)
    )
    if any(key is not None for _, key, *_ in records):
        run.key_lengths.extend(NO_KEY if key is None else len(key) for _, key, *_ in records)
        run.keys = b"".join(key or b"" for _, key, *_ in records)
    if any(time is not None for *_, time, _ in records):
        run.event_times_us.extend(NO_TIME if time is None else time for *_, time, _ in records)
    if any(headers for *_, headers in records):
        for *_, headers in records:
            entries = [record_pb2.Header(key=name, value=value) for name, value in headers]
            run.headers.append(record_pb2.Headers(entries=entries))
    return record_pb2.RecordPage(runs=[run]).SerializeToString(deterministic=True)


@given(RECORDS)
def test_columns_are_encoded_as_protobuf_would(
    records: list[tuple[bytes, bytes | None, int | None, list[tuple[str, bytes]]]],
) -> None:
    values, keys, times, headers = (list(column) for column in zip(*records, strict=True))

    page = encode_columns(values, keys, times, headers)

    assert page.body == by_protobuf(records)
    assert page.record_count == len(records)
    assert page.crc32 == zlib.crc32(page.body)


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=40))
def test_joined_values_are_encoded_as_protobuf_would(values: list[bytes]) -> None:
    expected = by_protobuf([(value, None, None, []) for value in values])
    raw_lengths = array("I", map(len, values)).tobytes()
    joined = b"".join(values)

    assert encode_joined([len(value) for value in values], joined).body == expected
    assert encode_joined(raw_lengths, memoryview(joined)).body == expected
    assert encode_joined(memoryview(raw_lengths), joined).body == expected
    assert encode_columns(values, value_lengths=lengths_of(values)).body == expected


@given(
    st.integers(0, 1023),
    st.integers(0, 2**63),
    st.lists(st.binary(max_size=300), min_size=1, max_size=9),
    st.sampled_from(["", "00-" + "1" * 32 + "-" + "2" * 16 + "-01"]),
)
def test_a_frame_is_what_protobuf_would_send(
    partition: int, sequence: int, values: list[bytes], traceparent: str
) -> None:
    page = encode_columns(values)

    frame = frame_publish_page(partition, sequence, page, traceparent)

    message = pb.PublishPage(
        partition=partition,
        sequence=sequence,
        encoding=record_pb2.ENCODING_RECORDS,
        record_count=page.record_count,
        crc32=page.crc32,
        body=page.body,
        traceparent=traceparent,
    )
    assert frame == pb.PublishRequest(page=message).SerializeToString(deterministic=True)


@pytest.mark.parametrize("number", [0, 1, 127, 128, 300, 2**32 - 1, 2**63])
def test_varints_are_read_back_by_protobuf(number: int) -> None:
    message = pb.PublishPage.FromString(b"\x10" + encoded(number))

    assert message.sequence == number


def test_two_bodies_joined_are_the_body_of_both() -> None:
    one, two = encode_columns([b"a"], [b"k"]), encode_columns([b"b", b"c"])

    both = record_pb2.RecordPage.FromString(one.body + two.body)

    assert [run.values for run in both.runs] == [b"a", b"bc"]


def test_an_absent_key_is_not_an_empty_one() -> None:
    run = record_pb2.RecordPage.FromString(encode_columns([b"a", b"b"], [None, b""]).body).runs[0]

    assert list(run.key_lengths) == [NO_KEY, 0]


def test_text_headers_become_utf_8() -> None:
    page = encode_columns([b"a"], headers=[{"name": "é", "raw": b"\xff"}])

    entries = record_pb2.RecordPage.FromString(page.body).runs[0].headers[0].entries
    assert [(entry.key, entry.value) for entry in entries] == [("name", "é".encode()), ("raw", b"\xff")]


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(InvalidPage, match="keys has 1 entries for 2 values"):
        encode_columns([b"a", b"b"], [b"k"])


def test_a_value_that_is_not_bytes_is_refused() -> None:
    with pytest.raises(InvalidPage, match="must be bytes"):
        encode_columns(["text"])  # type: ignore[list-item]


def test_a_view_of_wider_numbers_is_refused() -> None:
    with pytest.raises(InvalidPage, match="not as long"):
        encode_columns([memoryview(array("I", [1, 2]))])  # type: ignore[list-item]


def test_lengths_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(InvalidPage, match="4 per record"):
        encode_joined(b"12345", b"")


@pytest.mark.parametrize("count", [0, 65_537])
def test_a_page_holds_1_to_65536_records(count: int) -> None:
    with pytest.raises(InvalidPage, match=f"record_count = {count}"):
        EncodedPage(b"", count)
