from __future__ import annotations

import zlib
from dataclasses import replace
from typing import Any

import pytest

from forebay.broker.core.errors import InvalidPage, RecordTooLarge
from forebay.broker.core.partition.pages import TRACEPARENT_MAX, DropReason, Entry, Gap, Incoming, PagePart
from forebay.errors.reasons import Reason
from forebay.page.format import PAGE_BYTES_MAX, PAGE_FRAMING_BYTES, PAGE_RECORDS_MAX, Bytes
from tests.support.refusals import refusal

RECORD_MAX = 8 << 20


def incoming(body: bytes = b"body", **changed: Any) -> Incoming:
    return replace(Incoming(0, 1, 1, zlib.crc32(body), body), **changed)


def checked(page: Incoming, counted: int | None = None) -> Incoming:
    return page.checked(
        record_bytes_max=RECORD_MAX, count_records=lambda _: page.record_count if counted is None else counted
    )


def test_an_intact_page_is_read_as_it_is() -> None:
    page = incoming()

    assert checked(page) is page


@pytest.mark.parametrize(
    ("page", "counted", "reason", "field"),
    [
        (incoming(encoding=0), None, Reason.INVALID_PAGE, "encoding"),
        (incoming(encoding=9), None, Reason.INVALID_PAGE, "encoding"),
        (incoming(record_count=0), None, Reason.INVALID_PAGE, "record_count"),
        (incoming(record_count=PAGE_RECORDS_MAX + 1), None, Reason.INVALID_PAGE, "record_count"),
        (incoming(), 2, Reason.INVALID_PAGE, "record_count"),
        (incoming(crc32=1), None, Reason.PAGE_CORRUPT, ""),
        (incoming(traceparent="x" * (TRACEPARENT_MAX + 1)), None, Reason.INVALID_PAGE, "traceparent"),
        (incoming(traceparent="é" * TRACEPARENT_MAX), None, Reason.INVALID_PAGE, "traceparent"),
    ],
    ids=["no encoding", "encoding", "empty", "too many", "count", "crc", "long trace", "trace that is not ascii"],
)
def test_a_page_that_contradicts_itself_is_refused(
    page: Incoming, counted: int | None, reason: Reason, field: str
) -> None:
    with refusal(reason) as refused:
        checked(page, counted)

    assert refused.value.facts.get("field", "") == field


def test_a_body_that_cannot_be_parsed_says_why() -> None:
    def count(_: Bytes) -> int:
        raise ValueError("the lengths do not add up")

    with pytest.raises(InvalidPage, match="the lengths do not add up"):
        incoming().checked(record_bytes_max=RECORD_MAX, count_records=count)


@pytest.mark.parametrize(
    ("size", "records", "fits"),
    [
        (PAGE_BYTES_MAX + PAGE_FRAMING_BYTES, 2, True),
        (PAGE_BYTES_MAX + PAGE_FRAMING_BYTES + 1, 2, False),
        (PAGE_BYTES_MAX + PAGE_FRAMING_BYTES + 1, 1, True),
        (RECORD_MAX + PAGE_FRAMING_BYTES, 1, True),
        (RECORD_MAX + PAGE_FRAMING_BYTES + 1, 1, False),
    ],
)
def test_one_record_may_be_larger_than_a_page_and_two_may_not(size: int, records: int, fits: bool) -> None:
    page = incoming(bytes(size), record_count=records)

    if fits:
        assert checked(page) is page
    else:
        with pytest.raises(RecordTooLarge) as refused:
            checked(page)
        assert refused.value.facts["size"] == str(size)


def test_a_gap_is_cut_to_the_reader_s_position() -> None:
    gap = Gap(10, 20, DropReason.OVERFLOW, at_us=5, size=100, pages=2)

    assert gap.cut(3) == gap
    assert gap.cut(10) == gap
    assert gap.cut(15) == replace(gap, first=15)


@pytest.mark.parametrize(("offset", "index"), [(10, 0), (12, 0), (13, 1), (17, 1), (18, 2), (19, 2)])
def test_a_record_belongs_to_the_last_part_that_begins_no_later(offset: int, index: int) -> None:
    parts = (PagePart(10, 100, "a"), PagePart(13, 130), PagePart(18, 180, "c"))
    entry = Entry(10, 10, 1, False, 50, 1, 100, 7, 0, 0, parts)

    assert entry.part_of(offset) == parts[index]


def test_a_page_without_parts_is_one_part() -> None:
    entry = Entry(10, 10, 1, False, 50, 1, 100, 7, 0, 0)

    assert entry.part_of(15) == PagePart(10, 100)
