"""The body of a page, cut out of its message."""

from __future__ import annotations

import pytest
from google.protobuf.message import DecodeError
from hypothesis import example, given
from hypothesis import strategies as st

from forebay.broker.rpc.pages.requests import PageRequest, read
from forebay.client.publish.pages import EncodedPage, frame_publish_page
from forebay.page.format import SMALL_BYTES
from forebay.v1 import buffer_service_pb2 as pb

LARGE = b"x" * (SMALL_BYTES + 1)
PAGES = st.builds(
    pb.PublishPage,
    partition=st.integers(0, 2**32 - 1),
    sequence=st.integers(0, 2**64 - 1),
    encoding=st.sampled_from([0, 1, 77]),
    record_count=st.integers(0, 2**32 - 1),
    crc32=st.integers(0, 2**32 - 1),
    body=st.sampled_from([b"", b"small", LARGE]),
    traceparent=st.sampled_from(["", "00-trace-01", "\u2620"]),
)


def by_protobuf(message: bytes) -> pb.PublishRequest | None:
    try:
        return pb.PublishRequest.FromString(message)
    except DecodeError:
        return None


def together(found: PageRequest | pb.PublishRequest) -> pb.PublishRequest:
    """The request as protobuf has it."""
    if isinstance(found, pb.PublishRequest):
        return found
    page = pb.PublishPage()
    page.CopyFrom(found.page)
    page.body = bytes(found.body)
    return pb.PublishRequest(page=page)


@given(page=PAGES)
def test_a_page_is_what_protobuf_reads(page: pb.PublishPage) -> None:
    request = pb.PublishRequest(page=page)

    found = read(request.SerializeToString())

    assert isinstance(found, PageRequest)
    assert together(found) == request


def test_the_body_of_a_large_page_is_not_read_by_protobuf() -> None:
    found = read(frame_publish_page(3, 9, EncodedPage(LARGE, 5), "00-trace-01"))

    assert isinstance(found, PageRequest)
    assert (found.body, found.page.body) == (LARGE, b"")
    assert (found.page.partition, found.page.sequence, found.page.record_count) == (3, 9, 5)
    assert found.page.traceparent == "00-trace-01"


@pytest.mark.parametrize("request_", [pb.PublishRequest(open=pb.PublishOpen(sink="s")), pb.PublishRequest()])
def test_other_requests_stay_as_they_are(request_: pb.PublishRequest) -> None:
    assert read(request_.SerializeToString()) == request_


def test_of_two_bodies_the_last_one_counts() -> None:
    first, last = pb.PublishPage(body=LARGE), pb.PublishPage(body=b"y" * len(LARGE), partition=7)
    twice = pb.PublishRequest(page=first).SerializeToString() + pb.PublishRequest(page=last).SerializeToString()
    both = first.SerializeToString() + last.SerializeToString()
    within = pb.PublishRequest.FromString(twice).SerializeToString()

    assert together(read(twice)) == pb.PublishRequest(page=last)
    assert together(read(within)) == pb.PublishRequest(page=last)
    assert pb.PublishPage.FromString(both) == last


@given(
    message=st.binary(max_size=24).map(
        lambda start: start + pb.PublishRequest(page=pb.PublishPage(body=LARGE)).SerializeToString()
    ),
    at=st.integers(0, 20),
    byte=st.integers(0, 255),
)
@example(message=b"\x12\x80" + LARGE, at=0, byte=0x12)
def test_damage_is_read_as_protobuf_reads_it(message: bytes, at: int, byte: int) -> None:
    damaged = message[:at] + bytes([byte]) + message[at + 1 :]
    expected = by_protobuf(damaged)

    if expected is None:
        with pytest.raises(DecodeError):
            read(damaged)
    else:
        found = together(read(damaged))
        for each in (found, expected):
            each.DiscardUnknownFields()
        assert found == expected
