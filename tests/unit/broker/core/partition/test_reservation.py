"""Start with a partition whose memory tier is lost."""

from __future__ import annotations

from dataclasses import replace

from forebay.broker.core.partition.cursor import Cursor, Settlement
from forebay.broker.core.partition.log import Head, Tail
from forebay.broker.core.partition.pages import DropReason, Entry, Gap
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.partition.reservation import Held, HeldRuns, Reserve, Restarted, restart
from tests.support.pages.samples import entry

NONE = Head()


def began(
    tail: Tail,
    head: Head = NONE,
    *,
    cursor: Cursor | None = None,
    end: int = 65_536,
    held: tuple[Held, ...] = (),
    accepted: int | None = None,
    wiped: bool = False,
    gaps: tuple[Gap, ...] = (),
) -> Restarted:
    cursors = {"default": cursor or Cursor()}
    reserve = Reserve(end)
    return restart(tail, head, gaps, cursors, reserve=reserve, held=held, accepted=accepted, wiped=wiped, at_us=7)


def told(found: Restarted) -> list[tuple[int, int, bool]]:
    return [(gap.first, gap.end, gap.at_most) for gap in found.gaps]


def paged(base: int) -> Entry:
    """A page of one record, in a log of such pages."""
    return replace(entry(base), bytes_before=10 * base, pages_before=base)


def held(*pages: Entry) -> HeldRuns:
    runs = HeldRuns()
    for each in pages:
        runs.add(each)
    return runs


def test_pages_become_runs_of_consecutive_records() -> None:
    runs = held(paged(0), paged(1), paged(9))

    assert runs.held() == (Held(0, 2, 20, 2), Held(9, 10, 10, 1))


def test_pages_that_leave_shorten_and_split_their_runs() -> None:
    pages = [paged(at) for at in range(6)]
    runs = held(*pages)

    found = []
    for at in (0, 3, 3, 5, 4):
        runs.remove(pages[at])
        found.append(runs.held())

    split = (Held(1, 3, 20, 2), Held(4, 6, 20, 2))
    assert found == [(Held(1, 6, 50, 5),), split, split, (split[0], Held(4, 5, 10, 1)), split[:1]]


def test_after_a_kill_it_continues_after_what_was_accepted_and_counts_exactly() -> None:
    found = began(Tail(), accepted=5)

    assert found.tail.next_offset == 5
    assert told(found) == [(0, 5, False)]
    assert (found.lost, found.head.dropped) == (5, ((8, 5),))
    assert found.cursors["default"].dropped == 5
    assert found.cursors["default"].balances(5)


def test_after_a_power_loss_it_continues_at_the_reservation_and_says_at_most() -> None:
    found = began(Tail(next_offset=3), Head(removed_records=0), end=100)

    assert found.tail.next_offset == 100
    assert told(found) == [(3, 100, True)]
    assert found.cursors["default"].balances(100)


def test_after_a_clean_stop_nothing_is_missing() -> None:
    tail = Tail(next_offset=3, appended_pages=1)

    assert began(tail, end=3).gaps == ()
    assert began(tail, end=3).tail == tail


def test_records_that_a_cursor_shows_as_settled_stay_acked_after_a_kill() -> None:
    cursor, _ = Cursor().settle(Range(0, 2), Settlement.ACKED)
    cursor, _ = cursor.settle(Range(3, 4), Settlement.ACKED)

    found = began(Tail(), cursor=cursor, accepted=6)

    assert (found.cursors["default"].acked, found.cursors["default"].dropped, found.lost) == (3, 3, 3)
    assert found.cursors["default"].watermark == 6
    assert told(found) == [(2, 6, False)]
    assert found.gaps[0].merged == ((int(DropReason.LOST_IN_CRASH), 3),)


def test_a_cursor_ahead_of_everything_moves_the_tail_up() -> None:
    cursor, _ = Cursor().settle(Range(0, 9), Settlement.ACKED)

    found = began(Tail(next_offset=4, appended_pages=1), Head(), cursor=cursor, end=0, accepted=4)

    assert found.tail.next_offset == 9
    assert found.cursors["default"] == cursor


def test_pages_that_memory_held_before_those_on_the_disk_are_a_gap_in_their_place() -> None:
    tail = Tail(next_offset=10, appended_bytes=100, appended_pages=5)

    found = began(tail, held=(Held(0, 4, 40, 2),), end=10, accepted=4)

    assert told(found) == [(0, 4, False)]
    assert (found.gaps[0].size, found.gaps[0].pages) == (40, 2)
    assert found.head == Head(4, 4, 40, 2, ((8, 4),))
    assert found.tail == tail


def test_pages_held_up_to_the_end_and_those_after_are_one_gap_after_a_kill() -> None:
    tail = Tail(next_offset=4, appended_bytes=40, appended_pages=2)

    found = began(tail, held=(Held(0, 4, 40, 2),), accepted=9)

    assert told(found) == [(0, 9, False)]
    assert found.head.earliest == 9


def test_a_wiped_partition_has_nothing_left_and_every_unsettled_record_counts() -> None:
    tail = Tail(next_offset=10, appended_bytes=100, appended_pages=5)
    head = Head(earliest=2, removed_records=2, removed_bytes=20, removed_pages=1)
    cursor, _ = Cursor().settle(Range(0, 3), Settlement.ACKED)

    found = began(tail, head, cursor=cursor, end=10, wiped=True)

    assert told(found) == [(3, 10, False)]
    assert found.gaps[0].reason is DropReason.WIPED_AT_START
    assert found.head == Head(10, 10, 100, 5, ((7, 7),))
    assert found.cursors["default"].balances(10)


def test_a_wipe_leaves_the_gaps_that_there_are() -> None:
    tail = Tail(next_offset=10, appended_bytes=100, appended_pages=5)
    head = Head(earliest=0, removed_records=2, removed_bytes=20, removed_pages=1, dropped=((1, 2),))
    cursor, _ = Cursor().settle(Range(4, 6), Settlement.DROPPED)

    found = began(tail, head, cursor=cursor, end=10, wiped=True, gaps=(Gap(4, 6, DropReason.OVERFLOW, 1, 20, 1),))

    assert told(found) == [(0, 4, False), (6, 10, False)]
    assert (found.lost, found.head.removed_records) == (8, 10)
