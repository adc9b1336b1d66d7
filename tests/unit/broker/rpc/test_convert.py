from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.broker.core.delivery.lane import SettleOutcome
from forebay.broker.core.partition.pages import TRACEPARENT_MAX, Body, DropReason, Durability, Entry, Gap, PagePart
from forebay.broker.core.partition.ranges import Range
from forebay.broker.rpc import convert
from forebay.broker.runtime.publish.result import PublishResult
from forebay.errors.reasons import Reason
from forebay.v1 import buffer_service_pb2 as pb
from forebay.v1 import record_pb2
from tests.support.refusals import refusal

TIMES_US = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)


def offsets(first: int, last: int) -> record_pb2.OffsetRange:
    return record_pb2.OffsetRange(first_offset=first, last_offset=last)


@given(microseconds=TIMES_US)
def test_wall_times_round_trip(microseconds: int) -> None:
    value = convert.timestamp(microseconds)

    assert convert.timestamp_us(value) == microseconds
    assert 0 <= value.nanos < 1_000_000_000


@given(microseconds=st.integers(-(1 << 90), 1 << 90))
def test_a_wall_time_beyond_what_the_wire_has_a_form_for_is_shown_as_the_nearest(microseconds: int) -> None:
    first, last = -62_135_596_800_000_000, 253_402_300_799_999_999

    assert convert.timestamp_us(convert.timestamp(microseconds)) == min(max(microseconds, first), last)


@given(microseconds=st.integers(-(10**15), 10**15))
def test_durations_round_trip(microseconds: int) -> None:
    assert convert.duration_us(convert.duration(microseconds)) == microseconds


def test_a_receipt_names_both_ends_and_how_safe_the_records_are() -> None:
    message = convert.receipt("orders", 3, PublishResult(10, 5, duplicate=False))

    assert (message.sink, message.partition, message.first_offset, message.last_offset) == ("orders", 3, 10, 14)
    assert (message.durability, message.duplicate) == (record_pb2.DURABILITY_DISK, False)


def test_a_receipt_for_a_forgotten_duplicate_has_no_offsets() -> None:
    message = convert.receipt("orders", 0, PublishResult(None, 5, duplicate=True))

    assert (message.HasField("first_offset"), message.HasField("last_offset"), message.duplicate) == (
        False,
        False,
        True,
    )


@pytest.mark.parametrize("level", list(Durability))
def test_levels_of_durability_have_the_numbers_of_the_wire(level: Durability) -> None:
    assert record_pb2.Durability.Name(convert.durability(level)) == f"DURABILITY_{level.name}"


def test_a_page_from_the_wire_is_taken_as_it_is() -> None:
    message = pb.PublishPage(partition=2, sequence=7, encoding=record_pb2.ENCODING_RECORDS, record_count=3)
    message.crc32, message.body, message.traceparent = 9, b"x", "t"

    page = convert.incoming(message, message.body)

    assert (page.partition, page.encoding, page.record_count) == (2, 1, 3)
    assert (page.crc32, page.body, page.traceparent) == (9, b"x", "t")


def test_a_stored_page_has_the_publish_call_of_each_part() -> None:
    parts = (PagePart(10, 1_000_000, "t"), PagePart(12, 2_000_000))
    entry = Entry(10, 4, 99, True, 5, 1, 1_000_000, 0, 0, 0, parts)

    head = convert.page_head(entry, Body(7, b"bytes"))

    assert (head.base_offset, head.record_count, head.encoding, head.crc32, head.body) == (10, 4, 1, 7, b"")
    assert [(part.first_offset, part.accepted_at.seconds, part.traceparent) for part in head.parts] == [
        (10, 1, "t"),
        (12, 2, ""),
    ]


@pytest.mark.parametrize("reason", list(DropReason))
def test_a_gap_names_its_last_offset_and_its_reason(reason: DropReason) -> None:
    message = convert.gap(1, Gap(10, 20, reason, 3_000_000, 0, 0))

    assert (message.partition, message.first_offset, message.last_offset, message.at.seconds) == (1, 10, 19, 3)
    assert record_pb2.DropReason.Name(message.reason) == f"DROP_REASON_{reason.name}"


def test_ranges_of_the_wire_include_their_last_offset() -> None:
    assert convert.ranges([offsets(0, 0), offsets(5, 9), offsets(2**63 - 2, 2**63 - 1)]) == [
        Range(0, 1),
        Range(5, 10),
        Range(2**63 - 2, 2**63),
    ]


@pytest.mark.parametrize("wanted", [[], [offsets(5, 4)], [offsets(0, 0)] * (convert.RANGES_MAX + 1)])
def test_no_range_one_upside_down_and_too_many_are_refused(wanted: list[record_pb2.OffsetRange]) -> None:
    with refusal(Reason.INVALID_RANGE):
        convert.ranges(wanted)


@pytest.mark.parametrize("outcome", list(SettleOutcome))
def test_outcomes_have_the_numbers_of_the_wire(outcome: SettleOutcome) -> None:
    [message] = convert.results([(2, Range(5, 2**64), outcome)])

    assert (message.partition, message.range) == (2, offsets(5, 2**64 - 1))
    assert pb.SettleOutcome.Name(message.outcome) == f"SETTLE_OUTCOME_{outcome.name}"


@pytest.mark.parametrize(
    ("metadata", "found"),
    [
        (None, ""),
        ([], ""),
        ([("user-agent", "x"), ("traceparent", "00-1-2-01")], "00-1-2-01"),
        ([("traceparent", b"bytes")], ""),
        ([("traceparent", "x" * (TRACEPARENT_MAX + 1))], ""),
    ],
)
def test_the_callers_trace_is_found_in_the_metadata_of_a_call(
    metadata: list[tuple[str, str | bytes]] | None, found: str
) -> None:
    assert convert.traceparent(metadata) == found
