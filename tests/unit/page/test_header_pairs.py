"""Headers of records, a column at a time: the same as protobuf reads, for every input."""

from __future__ import annotations

import pytest
from google.protobuf.message import DecodeError
from hypothesis import example, given
from hypothesis import strategies as st

from forebay.page.columns import columns_of, records_at
from forebay.page.encoding import encode_columns, encode_headers
from forebay.page.format import HEADERS_MAX, MalformedPage
from forebay.page.header_pairs import Headers, count_alike, pairs_of
from forebay.page.runs import general_runs, runs_of, usual_runs
from forebay.v1 import record_pb2

NAMES = st.sampled_from(["", "source", "trace", "ä€😀", "n" * 200]) | st.text(max_size=3)
PAIRS = st.lists(st.tuples(NAMES, st.binary(max_size=4) | st.just(b"v" * 300)), max_size=4)
WRITTEN = PAIRS.map(encode_headers)
FOREIGN = st.sampled_from(
    [
        b"\x0a\x00",  # a header without name and value
        b"\x0a\x02\x12\x00",  # a value only
        b"\x0a\x02\x0a\x00",  # an empty name, written out
        b"\x0a\x06\x12\x01v\x0a\x01n",  # the value before the name
        b"\x0a\x06\x0a\x01n\x0a\x01m",  # two names: the last one counts
        b"\x0a\x09\x0a\x01n\x12\x01v\x12\x01w",  # two values
        b"\x0a\x05\x0a\x01n\x18\x01",  # an unknown field
        b"\x10\x01",
        b"\x0a\x83\x00\x0a\x01n",  # a length that is longer than it has to be
        b"\x0a\x04\x0a\x02\xff\xfe",  # a name that is not UTF-8
        b"\x0a\x05\x0a\x03\xed\xa0\x80",  # half of a surrogate pair
        b"\x0a\x03\x0a\x02n",  # cut off
        b"\x0a",
        b"\x0a\x7f\x0a\x01n",
    ]
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Return a message with one byte changed."""
    message = bytearray(draw(WRITTEN.filter(bool)))
    message[draw(st.integers(0, len(message) - 1))] = draw(st.integers(0, 255))
    return bytes(message)


MESSAGES = WRITTEN | FOREIGN | damaged() | st.binary(max_size=12)


def as_protobuf_reads(messages: list[bytes]) -> list[Headers] | None:
    """Return the headers of each message, None where one of them cannot be parsed."""
    try:
        every = [record_pb2.Headers.FromString(message).entries for message in messages]
    except DecodeError:
        return None
    return [tuple((header.key, header.value) for header in entries) for entries in every]


def as_read(messages: list[bytes]) -> list[Headers] | None:
    """Return what the product reads, None for what it refuses."""
    try:
        return pairs_of(messages)
    except MalformedPage:
        return None


@given(messages=st.lists(MESSAGES, max_size=6))
@example(messages=[b"\x0a\x06\x0a\x01n\x12\x01v", b"\x0a\x06\x0a\x01n\x12\x01w"])
def test_every_message_is_read_as_protobuf_reads_it(messages: list[bytes]) -> None:
    assert as_read(messages) == as_protobuf_reads(messages)


@given(first=PAIRS.filter(bool), values=st.lists(st.binary(min_size=4, max_size=4), min_size=1, max_size=6))
def test_messages_of_one_layout_are_read_as_protobuf_reads_them(
    first: list[tuple[str, bytes]], values: list[bytes]
) -> None:
    messages = [encode_headers([*first, ("id", value)]) for value in values]

    assert pairs_of(messages) == as_protobuf_reads(messages)


@given(message=WRITTEN.filter(bool), other=st.data())
def test_a_message_of_another_layout_among_many_of_one_size_is_read_as_it_is(
    message: bytes, other: st.DataObject
) -> None:
    changed = bytearray(message)
    at = other.draw(st.integers(0, len(message) - 1))
    changed[at] ^= other.draw(st.integers(1, 255))
    messages = [message, message, bytes(changed), message]

    assert as_read(messages) == as_protobuf_reads(messages)


def test_more_layouts_than_are_kept_are_all_read() -> None:
    messages = [encode_headers([("n", b"v" * size)]) for size in range(600)] * 2

    assert pairs_of(messages) == as_protobuf_reads(messages)


@given(
    records=st.lists(
        st.tuples(st.none() | st.binary(max_size=3), st.none() | st.integers(0, 9), PAIRS), min_size=1, max_size=6
    )
)
def test_a_body_is_read_by_its_tags_as_by_protobuf(
    records: list[tuple[bytes | None, int | None, list[tuple[str, bytes]]]],
) -> None:
    keys, times, headers = ([*column] for column in zip(*records, strict=True))
    body = encode_columns([b"value"] * len(records), keys, times, [tuple(pairs) for pairs in headers])
    usual = usual_runs(body)

    assert usual is not None
    assert columns_of(usual) == columns_of(general_runs(body))
    assert [record.headers for _, record in records_at(body, [(0, len(records))])] == [
        tuple(pairs) for pairs in headers
    ]


@given(fields=st.lists(MESSAGES, min_size=1, max_size=5), rest=st.binary(max_size=4))
def test_headers_with_something_after_them_are_read_as_protobuf_reads_them(fields: list[bytes], rest: bytes) -> None:
    run = record_pb2.RecordRun(value_lengths=[0] * len(fields)).SerializeToString()
    run += b"".join(b"\x32" + _length(one) + one for one in fields) + rest
    body = b"\x0a" + _length(run) + run

    assert _columns(body, usual=True) == _columns(body, usual=False)


def _length(content: bytes) -> bytes:
    size = len(content)
    return bytes([size]) if size < 0x80 else bytes([size & 0x7F | 0x80, size >> 7])


def _columns(body: bytes, *, usual: bool) -> object:
    try:
        return columns_of(runs_of(body) if usual else general_runs(body))
    except MalformedPage:
        return None


def test_headers_that_cannot_be_parsed_are_refused() -> None:
    with pytest.raises(MalformedPage, match="the headers of a record cannot be parsed"):
        pairs_of([b"\x0a\x06\x0a\x01n\x12\x01v", b"\x0a\x7f"])


def fields_of(*messages: bytes) -> bytes:
    return b"".join(b"\x32" + _length(one) + one for one in messages)


@given(
    pairs=PAIRS.filter(lambda pairs: all(0 < len(name) < 100 for name, _ in pairs)),
    other=PAIRS,
    count=st.integers(1, 9),
)
def test_headers_of_one_layout_are_counted_at_once_and_no_others(
    pairs: list[tuple[str, bytes]], other: list[tuple[str, bytes]], count: int
) -> None:
    message, changed = encode_headers(pairs), encode_headers([(name, value[::-1]) for name, value in pairs])
    strange = encode_headers(other)

    assert count_alike(fields_of(*[message] * count, changed)) == count + 1
    if [(name, len(value)) for name, value in other] != [(name, len(value)) for name, value in pairs]:
        assert count_alike(fields_of(*[message] * count, strange, message)) is None


@given(
    pairs=st.lists(st.tuples(st.sampled_from(["n", "name"]), st.binary(max_size=3)), max_size=3),
    count=st.integers(1, 5),
    at=st.integers(0, 99),
    byte=st.integers(0, 255),
)
def test_damaged_headers_are_counted_only_where_protobuf_reads_as_many(
    pairs: list[tuple[str, bytes]], count: int, at: int, byte: int
) -> None:
    fields = bytearray(fields_of(*[encode_headers(pairs)] * count))
    fields[at % len(fields)] = byte
    counted = count_alike(bytes(fields))

    if counted is not None:
        run = record_pb2.RecordRun.FromString(bytes(fields))
        assert len(run.headers) == counted
        assert run.SerializeToString() == bytes(fields)


@pytest.mark.parametrize(
    "message",
    [
        encode_headers([("n", b"")] * (HEADERS_MAX + 1)),
        encode_headers([("n" * 200, b"v")] * 3),
        b"\x0a\x03\x0a\x01\xff",
        b"\x78\x01",
    ],
    ids=["too many", "much to compare", "a name that is no text", "an unknown field"],
)
def test_headers_that_are_not_usual_are_left_to_protobuf(message: bytes) -> None:
    assert count_alike(fields_of(message, message)) is None
    assert count_alike(b"") is None
