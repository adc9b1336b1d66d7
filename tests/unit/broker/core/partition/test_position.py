from __future__ import annotations

import pytest

from forebay.broker.core.errors import OffsetAhead, OffsetTrimmed
from forebay.broker.core.partition.log import Head, PartitionLog, Tail
from forebay.broker.core.partition.pages import DropReason, Gap
from forebay.broker.core.partition.position import EARLIEST, At, Position, StartOffset, place
from forebay.broker.core.partition.ranges import Range


def log_of(*gaps: tuple[int, int], earliest: int = 40, end: int = 100, pages: int = 3) -> PartitionLog:
    """A log that is stored from ``earliest`` on, with gaps."""
    found = tuple(Gap(first, last, DropReason.OVERFLOW, 0, 1, 1) for first, last in gaps)
    return PartitionLog(2, Tail(end, 1000, pages), Head(earliest=earliest), found)


def at(offset: int) -> Position:
    return Position(At.OFFSET, offset)


def start_of(position: Position, log: PartitionLog, since: dict[int, int] | None = None) -> int:
    return place(position, log, since or {}, or_earliest=False).start


def test_the_earliest_is_what_is_stored_and_the_latest_the_end() -> None:
    log = log_of((30, 40))

    assert (start_of(EARLIEST, log), start_of(Position(At.LATEST), log)) == (40, 100)


@pytest.mark.parametrize("offset", [40, 41, 99, 100])
def test_an_offset_that_is_stored_or_the_end_is_taken_as_it_is(offset: int) -> None:
    assert place(at(offset), log_of(), {}, or_earliest=False) == StartOffset(2, offset)


@pytest.mark.parametrize("or_earliest", [True, False])
def test_an_offset_beyond_the_end_is_refused_whatever_was_chosen(*, or_earliest: bool) -> None:
    with pytest.raises(OffsetAhead) as refused:
        place(at(101), log_of(), {}, or_earliest=or_earliest)

    assert refused.value.facts == {"requested": "101", "earliest": "40", "next": "100"}


def test_an_offset_that_was_trimmed_is_refused_or_becomes_the_earliest_with_a_word_on_what_is_gone() -> None:
    with pytest.raises(OffsetTrimmed):
        place(at(39), log_of(), {}, or_earliest=False)

    assert place(at(10), log_of(), {}, or_earliest=True) == StartOffset(2, 40, Range(10, 40))


def test_a_gap_that_reaches_up_to_what_is_stored_can_be_begun_in() -> None:
    log = log_of((10, 20), (25, 30), (30, 40))

    assert log.reachable == 25
    assert start_of(at(27), log) == 27
    with pytest.raises(OffsetTrimmed):
        place(at(15), log, {}, or_earliest=False)
    assert place(at(15), log, {}, or_earliest=True) == StartOffset(2, 25, Range(15, 25))


def test_an_empty_log_can_be_begun_in_the_gap_that_ends_it() -> None:
    log = log_of((90, 100), earliest=100, pages=0)

    assert (start_of(EARLIEST, log), start_of(at(95), log)) == (100, 95)


def test_offsets_by_partition_leave_the_others_at_the_earliest() -> None:
    assert start_of(Position(At.OFFSETS, offsets=((2, 50),)), log_of()) == 50
    assert start_of(Position(At.OFFSETS, offsets=((1, 50),)), log_of()) == 40


def test_a_time_never_leads_out_of_what_there_is() -> None:
    time = Position(At.TIME, 7)

    assert start_of(time, log_of(), {2: 60}) == 60
    assert start_of(time, log_of(), {2: 10}) == 40
    assert start_of(time, log_of(), {}) == 40
