from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from forebay.broker.core.dead_letters.letters import PlainRecord
from forebay.broker.core.partition.pages import Body, PagePart
from forebay.broker.core.partition.ranges import Range
from forebay.broker.rpc.pages.bounds import count_records
from forebay.broker.rpc.pages.codec import PageCodec
from tests.support.pages.samples import entry, no_schema

RECORDS = st.builds(
    PlainRecord,
    value=st.binary(max_size=20),
    key=st.none() | st.binary(max_size=5),
    headers=st.lists(st.tuples(st.text(min_size=1, max_size=4), st.binary(max_size=4)), max_size=2).map(tuple),
    event_time_us=st.none() | st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999),
)


@given(st.lists(st.lists(RECORDS, min_size=1, max_size=8), min_size=1, max_size=3), st.data())
def test_records_are_cut_out_of_a_joined_page_as_they_went_in(
    runs: list[list[PlainRecord]], data: st.DataObject
) -> None:
    pages = [PageCodec().page(run, 0, "") for run in runs]
    body = Body(0, b"".join(page.body for page in pages))
    records = [record for run in runs for record in run]
    wanted = sorted(data.draw(st.sets(st.integers(100, 99 + len(records)))))

    found = PageCodec().cut(entry(100, len(records)), body, [Range(offset, offset + 1) for offset in wanted], no_schema)

    assert [cut.offset for cut in found] == wanted
    assert [cut.record for cut in found] == [records[offset - 100] for offset in wanted]


@given(st.lists(RECORDS, min_size=1, max_size=20))
def test_a_page_of_records_is_one_that_a_publisher_could_have_sent(records: list[PlainRecord]) -> None:
    page = PageCodec().page(records, 3, "00-a-b-01")

    assert page.checked(record_bytes_max=1 << 20, count_records=count_records) == page
    assert (page.partition, page.record_count, page.traceparent) == (3, len(records), "00-a-b-01")


def test_each_record_keeps_the_time_and_the_trace_of_its_part() -> None:
    page = PageCodec().page([PlainRecord(b"a"), PlainRecord(b"b"), PlainRecord(b"c")], 0, "")
    parts = (PagePart(10, 100, "first"), PagePart(12, 200, "second"))

    found = PageCodec().cut(replace(entry(10, 3), parts=parts), Body(0, page.body), [Range(11, 13)], no_schema)

    assert [(cut.offset, cut.accepted_at_us, cut.traceparent) for cut in found] == [
        (11, 100, "first"),
        (12, 200, "second"),
    ]


def test_a_range_that_reaches_beyond_the_page_is_cut_to_it() -> None:
    page = PageCodec().page([PlainRecord(b"a"), PlainRecord(b"b")], 0, "")

    found = PageCodec().cut(entry(10, 2), Body(0, page.body), [Range(0, 100)], no_schema)

    assert [cut.offset for cut in found] == [10, 11]
