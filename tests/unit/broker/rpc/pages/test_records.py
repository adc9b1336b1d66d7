from __future__ import annotations

import time
from itertools import pairwise

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from forebay.broker.core.errors import InvalidPage
from forebay.broker.core.partition.pages import Body, Encoding, Entry, Incoming, PagePart
from forebay.broker.core.partition.ranges import Range
from forebay.broker.rpc.pages.bounds import count_records
from forebay.broker.rpc.pages.records import pages_of, placed
from forebay.page.format import PAGE_BYTES_MAX, PAGE_RECORDS_MAX
from forebay.v1 import record_pb2
from tests.support.pages.samples import no_schema

TIMES = st.builds(
    Timestamp, seconds=st.integers(-(10**9), 10**10), nanos=st.integers(0, 999_999).map(lambda n: n * 1_000)
)
HEADERS = st.builds(record_pb2.Header, key=st.text(max_size=5), value=st.binary(max_size=5))
RECORDS = st.builds(
    record_pb2.Record,
    value=st.binary(max_size=20),
    key=st.none() | st.binary(max_size=5),
    headers=st.lists(HEADERS, max_size=3),
    event_time=st.none() | TIMES,
)


def checked(records: list[record_pb2.Record]) -> list[Incoming]:
    """Records as pages, each as the broker accepts it."""
    return [
        page.checked(record_bytes_max=8 << 20, count_records=count_records) for page in pages_of(records, 3, "trace")
    ]


def stored(page: Incoming, base: int = 0, parts: tuple[PagePart, ...] = ()) -> tuple[Entry, Body]:
    """A page as it is stored in the log."""
    entry = Entry(base, page.record_count, 1, False, len(page.body), page.encoding, 50, 0, 0, 0, parts)
    return entry, Body(page.crc32, page.body)


def read(pages: list[Incoming]) -> list[record_pb2.Record]:
    return [found.record for page in pages for found in placed(*stored(page), Range(0, 1 << 40), no_schema)]


# -- records into pages


@given(records=st.lists(RECORDS, min_size=1, max_size=10))
def test_records_come_out_of_their_pages_as_they_went_in(records: list[record_pb2.Record]) -> None:
    assert read(checked(records)) == records


def test_a_page_says_where_it_goes_how_it_is_encoded_and_who_sent_it() -> None:
    [page] = checked([record_pb2.Record(value=b"a")])

    assert (page.partition, page.encoding, page.record_count, page.traceparent) == (3, Encoding.RECORDS, 1, "trace")


@pytest.mark.parametrize(
    "record",
    [
        record_pb2.Record(value=b"x" * 1_000),
        record_pb2.Record(value=b""),
        record_pb2.Record(
            value=b"x" * 10, key=b"k", event_time=Timestamp(seconds=1), headers=[{"key": "h", "value": b"v" * 200}]
        ),
        record_pb2.Record(value=b"x", headers=[{"key": "name" * 2, "value": b""}] * 20),
        record_pb2.Record(value=b"x", key=b"k", event_time=Timestamp(seconds=1), headers=[{"key": "日本語" * 20}]),
    ],
    ids=["value", "empty", "everything", "many headers", "names that are longer in bytes"],
)
def test_every_page_is_within_the_bounds_of_a_page_and_nearly_full(record: record_pb2.Record) -> None:
    count = min(100_000, 3 * PAGE_BYTES_MAX // max(1, record.ByteSize()) + 1)

    pages = checked([record] * count)

    assert sum(page.record_count for page in pages) == count
    assert all(page.record_count <= PAGE_RECORDS_MAX for page in pages)
    assert all(
        one.record_count + two.record_count > PAGE_RECORDS_MAX // 2 or len(one.body) > PAGE_BYTES_MAX // 3
        for one, two in pairwise(pages)
    )


def test_a_record_larger_than_a_page_is_alone_in_its_message() -> None:
    large = record_pb2.Record(value=b"x" * (2 * PAGE_BYTES_MAX))
    small = record_pb2.Record(value=b"y")

    pages = checked([small, large, small, small])

    assert [page.record_count for page in pages] == [1, 1, 2]


@pytest.mark.parametrize("seconds", [1 << 62, -(1 << 62), 9_223_372_036_855])
def test_an_event_time_that_no_record_can_hold_is_refused(seconds: int) -> None:
    with pytest.raises(InvalidPage) as refused:
        checked([record_pb2.Record(value=b"x", event_time=Timestamp(seconds=seconds))])

    assert refused.value.facts["field"] == "records.event_time"


# -- pages into records


def test_only_what_is_asked_for_comes_out_of_a_page() -> None:
    [page] = checked([record_pb2.Record(value=b"%d" % number) for number in range(5)])

    found = list(placed(*stored(page, 100), Range(102, 104), no_schema))

    assert [(each.offset, each.record.value) for each in found] == [(102, b"2"), (103, b"3")]


def test_a_record_was_accepted_when_its_part_of_the_page_was() -> None:
    [page] = checked([record_pb2.Record(value=b"x") for _ in range(4)])
    parts = (PagePart(100, 7), PagePart(101, 8), PagePart(103, 9))

    found = list(placed(*stored(page, 100, parts), Range(0, 200), no_schema))

    assert [each.accepted_at_us for each in found] == [7, 8, 8, 9]
    assert [each.accepted_at_us for each in placed(*stored(page, 100), Range(0, 101), no_schema)] == [50]


def test_a_page_that_was_joined_from_several_is_read_through() -> None:
    [first] = checked([record_pb2.Record(value=b"a", key=b"k")])
    [second] = checked([record_pb2.Record(value=b"b"), record_pb2.Record(value=b"c")])
    joined = Incoming(0, 1, 3, 0, bytes(first.body) + bytes(second.body))

    assert [record.value for record in read([joined])] == [b"a", b"b", b"c"]


def test_the_records_of_a_large_page_come_out_quickly() -> None:
    [page] = checked([record_pb2.Record(value=b"x" * 10) for _ in range(20_000)])
    begun = time.process_time()

    found = list(placed(*stored(page), Range(19_000, 20_000), no_schema))

    assert len(found) == 1_000
    assert time.process_time() - begun < 1
