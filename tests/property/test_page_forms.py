"""Both ways to read a body agree: by its tags, and by protobuf."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from hypothesis import example, given
from hypothesis import strategies as st

from forebay.page.columns import columns_of
from forebay.page.count import count_records
from forebay.page.format import NO_KEY, SMALL_BYTES, MalformedPage
from forebay.page.frames import publish_request, split_publish_request
from forebay.page.rows import encode_rows, general_rows, usual_rows
from forebay.page.runs import Run, general_runs, runs_of, usual_runs
from forebay.page.varint import encoded
from forebay.v1 import buffer_service_pb2 as pb
from forebay.v1 import record_pb2

T = TypeVar("T")

UNKNOWN_FIELD = b"\x78\x01"
"""Changes nothing in front of a body, but is not in the usual form. After one it could complete what is cut off."""

RUNS = st.builds(
    record_pb2.RecordRun,
    value_lengths=st.lists(st.integers(0, 9), max_size=6),
    values=st.binary(max_size=20),
    key_lengths=st.lists(st.integers(0, 5) | st.just(NO_KEY), max_size=6),
    keys=st.binary(max_size=9),
    event_times_us=st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=6),
    headers=st.lists(
        st.builds(
            record_pb2.Headers,
            entries=st.lists(st.builds(record_pb2.Header, key=st.text(max_size=3), value=st.binary(max_size=9))),
        ),
        max_size=3,
    ),
)
"""Runs whose columns need not agree."""

BODIES = st.lists(RUNS, max_size=3).map(lambda runs: record_pb2.RecordPage(runs=runs).SerializeToString())


@st.composite
def damaged(draw: st.DrawFn, bodies: st.SearchStrategy[bytes]) -> bytes:
    """Draw a body that was cut off, extended, or of which bytes were changed: perhaps still a valid one."""
    body = bytearray(draw(bodies))
    for _ in range(draw(st.integers(0, 3))):
        if body:
            body[draw(st.integers(0, len(body) - 1))] = draw(st.integers(0, 255))
    return bytes(body[: draw(st.integers(0, len(body)))] + draw(st.just(b"") | st.binary(max_size=12)))


def columns(run: Run) -> tuple[object, ...]:
    """Return the columns of a run as bytes; headers as protobuf reads them."""
    headers = tuple(record_pb2.Headers.FromString(bytes(each)) for each in run.headers)
    return (*(bytes(each) for each in (run.value_lengths, run.values, run.key_lengths, run.keys)),
            bytes(run.event_times_us), *(each.SerializeToString(deterministic=True) for each in headers))  # fmt: skip


def outcome(read: Callable[[], T]) -> T | None:
    """Return what is read, None for a malformed page."""
    try:
        return read()
    except MalformedPage:
        return None


@given(body=damaged(BODIES))
def test_runs_are_the_same_by_tags_and_by_protobuf(body: bytes) -> None:
    usual = usual_runs(body)
    general = outcome(lambda: general_runs(body))

    if usual is not None and general is not None:
        assert [columns(run) for run in usual] == [columns(run) for run in general]
    if usual is None:
        assert (outcome(lambda: runs_of(body)) is None) == (general is None)


@given(body=damaged(BODIES))
def test_a_page_is_counted_or_refused_alike_by_tags_and_by_protobuf(body: bytes) -> None:
    padding = bytes(SMALL_BYTES)
    large = record_pb2.RecordPage(runs=[record_pb2.RecordRun(value_lengths=[SMALL_BYTES], values=padding)])
    body = large.SerializeToString() + body

    assert outcome(lambda: count_records(body)) == outcome(lambda: count_records(UNKNOWN_FIELD + body))


@given(
    body=BODIES,
    length_bytes=st.integers(1, 10),
    rows=st.builds(encode_rows, st.integers(1, 99), st.integers(0, 99), st.binary(min_size=1, max_size=40)),
)
def test_lengths_with_more_bytes_than_needed_are_read_or_refused_alike(
    body: bytes, length_bytes: int, rows: bytes
) -> None:
    large = record_pb2.RecordRun(value_lengths=[SMALL_BYTES], values=bytes(SMALL_BYTES)).SerializeToString()
    padded = b"\x0a" + _padded(len(large), length_bytes) + large + body
    counted = outcome(lambda: count_records(padded))
    assert counted == outcome(lambda: count_records(UNKNOWN_FIELD + padded))
    assert counted == outcome(lambda: len(columns_of(runs_of(padded))))

    usual = usual_rows(rows)
    assert usual is not None
    head = rows[: len(rows) - len(usual.messages) - 1]
    stretched = head + _padded(len(usual.messages), length_bytes) + bytes(usual.messages)
    assert (usual_rows(stretched) is None) == (outcome(lambda: general_rows(stretched)) is None)


@given(body=damaged(BODIES))
def test_a_body_whose_records_can_be_counted_is_decoded_to_that_number_of_records(body: bytes) -> None:
    count = outcome(lambda: count_records(body))

    if count is not None:
        assert len(columns_of(runs_of(body))) == count


@given(body=damaged(st.builds(encode_rows, st.integers(1, 300), st.integers(0, 300), st.binary(max_size=40))))
def test_rows_are_the_same_by_tags_and_by_protobuf(body: bytes) -> None:
    usual = usual_rows(body)

    if usual is not None:
        general = general_rows(body)
        assert (usual.schema_version, usual.count, bytes(usual.messages)) == (
            *(general.schema_version, general.count, general.messages),
        )


@given(
    head=damaged(st.just(b"\x08\x03\x10\x07\x18\x01\x20\x01")),
    body=st.integers(SMALL_BYTES, SMALL_BYTES + 300).map(bytes),
    tail=damaged(st.just(b"\x3a\x02ab")),
)
@example(head=b"\xa0\x00", body=bytes(SMALL_BYTES), tail=b":").via("a tag in two bytes, in front of the body")
@example(head=b"", body=bytes(SMALL_BYTES), tail=b"\xb2\x00\x01a").via("a second body, with its tag in two bytes")
def test_a_request_is_split_as_protobuf_reads_it(head: bytes, body: bytes, tail: bytes) -> None:
    whole = publish_request(3, 7, encoding=1, record_count=1, crc32=9, body=body, traceparent="")
    assert split_publish_request(whole) is not None
    content = head + b"\x32" + _length(len(body)) + body + tail
    message = b"\x12" + _length(len(content)) + content

    parts = split_publish_request(message)

    if parts is not None:
        try:
            rest = pb.PublishPage.FromString(parts[0])
        except Exception as refused:
            refusal = type(refused)
            try:
                pb.PublishRequest.FromString(message)
            except refusal:
                return
            raise
        rest.body = bytes(parts[1])
        assert rest == pb.PublishRequest.FromString(message).page


def _padded(number: int, size: int) -> bytes:
    """Return a length of at least so many bytes, of which the last ones may add nothing."""
    out = bytearray(encoded(number))
    while len(out) < size:
        out[-1] |= 0x80
        out.append(0)
    return bytes(out)


def _length(number: int) -> bytes:
    return bytes([number & 0x7F | 0x80, number >> 7])
