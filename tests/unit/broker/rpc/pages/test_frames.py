from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from forebay.broker.core.partition.pages import Body, Entry, PagePart
from forebay.broker.rpc.pages import frames
from forebay.v1 import buffer_service_pb2 as pb
from forebay.v1 import record_pb2

NUMBERS = st.integers(0, 2**50)
PARTS = st.builds(PagePart, NUMBERS, NUMBERS, st.sampled_from(["", "00-trace-01"]))
ENTRIES = st.builds(
    Entry,
    base=NUMBERS,
    count=st.integers(1, 65_536),
    number=NUMBERS,
    bulk=st.booleans(),
    size=NUMBERS,
    encoding=st.just(1),
    accepted_at_us=NUMBERS,
    age_us=NUMBERS,
    bytes_before=NUMBERS,
    pages_before=NUMBERS,
    parts=st.lists(PARTS, max_size=3).map(tuple),
)
BODIES = st.builds(Body, st.integers(0, 2**32 - 1), st.binary(max_size=300))
PAGES = st.lists(st.tuples(ENTRIES, BODIES), min_size=1, max_size=4)


def check(found: record_pb2.StoredPage, entry: Entry, body: Body) -> None:
    assert (found.base_offset, found.record_count, found.encoding) == (entry.base, entry.count, entry.encoding)
    assert (found.crc32, found.body) == (body.crc32, body.data)
    assert [(part.first_offset, part.traceparent) for part in found.parts] == [
        (part.first, part.traceparent) for part in entry.parts
    ]


@given(pages=PAGES)
def test_pages_of_a_replay_are_what_protobuf_reads(pages: list[tuple[Entry, Body]]) -> None:
    response = pb.ReplayResponse.FromString(frames.replay_pages(pages))

    assert response.WhichOneof("response") == "pages"
    assert len(response.pages.pages) == len(pages)
    for found, (entry, body) in zip(response.pages.pages, pages, strict=True):
        check(found, entry, body)


@given(pages=PAGES, partition=NUMBERS.map(lambda n: n % 1024), epoch=NUMBERS)
def test_a_delivery_is_what_protobuf_reads(pages: list[tuple[Entry, Body]], partition: int, epoch: int) -> None:
    ranges = [record_pb2.OffsetRange(first_offset=1, last_offset=2)]
    rest = pb.Delivery(partition=partition, owner_epoch=epoch, ranges=ranges, resend=True)

    response = pb.DeliverResponse.FromString(frames.delivery(rest, pages))

    found = response.delivery
    assert len(found.pages) == len(pages)
    for page, (entry, body) in zip(found.pages, pages, strict=True):
        check(page, entry, body)
    del found.pages[:]
    assert found == rest


def test_messages_are_serialised_and_bytes_left_as_they_are() -> None:
    message = pb.DeliverResponse(opened=pb.DeliverOpened(partitions=3))

    assert frames.serialized(message) == message.SerializeToString()
    assert frames.serialized(b"as it is") == b"as it is"
