from __future__ import annotations

from dataclasses import replace

import pytest

from forebay.broker.core.partition.log import GAPS_MAX, RECENT_MAX, RECENT_PARTS_MAX, Head, PartitionLog, Tail
from forebay.broker.core.partition.pages import DropReason, Durability, Entry, Gap, PagePart
from forebay.broker.core.partition.ranges import Range
from forebay.broker.storage.records.partitions.gap import GAP, decode_gap
from tests.support.pages.samples import entry

OVERFLOW = DropReason.OVERFLOW


def append(log: PartitionLog, *entries: Entry) -> None:
    """Reserve and confirm ``entries``."""
    for each in entries:
        first = log.reserve(each.count, each.size)
        assert first == each.base
    tail = replace(
        log.tail,
        next_offset=entries[-1].end,
        appended_bytes=log.tail.appended_bytes + sum(each.size for each in entries),
        appended_pages=log.tail.appended_pages + len(entries),
    )
    log.confirm(tail, list(entries), sum(each.size for each in entries))


def filled(pages: int, *, records: int = 1) -> PartitionLog:
    log = PartitionLog(0)
    append(log, *(entry(index * records, records) for index in range(pages)))
    return log


def stored(log: PartitionLog) -> PartitionLog:
    """The log as a start finds it."""
    return PartitionLog(0, log.tail, log.head, log.gaps)


def test_an_empty_log_begins_at_zero() -> None:
    log = PartitionLog(0)

    assert (log.earliest, log.next_offset, log.records, log.size, log.pages) == (0, 0, 0, 0, 0)
    assert log.whole
    assert not log.needs_oldest


def test_queued_appends_have_offsets_but_are_not_stored() -> None:
    log = PartitionLog(0)

    assert log.reserve(5, 50) == 0
    assert log.reserve(2, 20) == 5

    assert (log.next_offset, log.tail.next_offset, log.queued_bytes, log.records) == (7, 0, 70, 0)


def test_a_confirmed_page_is_stored() -> None:
    log = filled(3, records=2)

    assert (log.records, log.size, log.pages, log.queued_bytes, log.earliest) == (6, 60, 3, 0, 0)
    assert log.recent_from(3) == [entry(2, 2), entry(4, 2)]
    assert log.recent_from(6) == []


def test_accepted_at_never_goes_back() -> None:
    log = PartitionLog(0, tail=Tail(accepted_at_us=100))

    assert [log.accept_time(90), log.accept_time(150), log.accept_time(120)] == [100, 150, 150]


def test_a_long_log_keeps_its_newest_entries_only() -> None:
    log = filled(1)
    for index in range(1, 3 * RECENT_MAX):
        append(log, entry(index))

    assert RECENT_MAX <= len(log.recent) <= 2 * RECENT_MAX
    assert not log.whole
    assert log.needs_oldest
    assert log.recent_from(0) is None
    assert log.recent_from(3 * RECENT_MAX - 1) == [entry(3 * RECENT_MAX - 1)]


def joined(base: int, appends: int) -> Entry:
    """An entry of as many records as appends."""
    return replace(entry(base, appends), parts=tuple(PagePart(base + at, 0) for at in range(appends)))


def kept_parts(log: PartitionLog) -> int:
    return sum(len(each.parts) for each in log.recent)


def test_a_log_keeps_fewer_entries_where_many_appends_formed_each() -> None:
    log, kept = PartitionLog(0), list[int]()
    for number in range(100):
        append(log, joined(256 * number, 256))
        kept.append(kept_parts(log))

    assert max(kept) == 2 * RECENT_PARTS_MAX
    assert min(kept[number] for number in range(50, 100)) == RECENT_PARTS_MAX
    assert log.recent_from(256 * 99) == [joined(256 * 99, 256)]
    assert log.recent_from(0) is None


def test_entries_that_were_removed_leave_room_for_others() -> None:
    log = PartitionLog(0)
    for number in range(100):
        append(log, joined(256 * number, 256))
        log.remove([joined(256 * number, 256)], reason=None, at_us=7)
    for number in range(100, 132):
        append(log, joined(256 * number, 256))

    assert kept_parts(log) == 2 * RECENT_PARTS_MAX


def test_the_newest_entry_is_kept_whatever_its_parts() -> None:
    log = PartitionLog(0)
    for number in range(2):
        append(log, joined(3 * RECENT_PARTS_MAX * number, 3 * RECENT_PARTS_MAX))

    assert len(log.recent) == 1


def test_trimming_from_the_front_moves_the_earliest_offset_and_leaves_no_gap() -> None:
    log = filled(3, records=2)

    assert log.remove([entry(0, 2)], reason=None, at_us=7) == []

    assert (log.earliest, log.head.earliest, log.records, log.size, log.pages) == (2, 2, 4, 40, 2)
    assert log.gaps == ()
    assert log.head.dropped == ()


def test_trimming_everything_leaves_the_next_offset_as_the_earliest() -> None:
    log = filled(2)

    log.remove([entry(0), entry(1)], reason=None, at_us=7)

    assert (log.earliest, log.records, log.size, log.pages) == (2, 0, 0, 0)
    assert stored(log).earliest == 2


def test_a_confirmed_record_is_on_the_disk_once_it_is_synced_and_replicated_at_once_where_a_journal_has_it() -> None:
    alone, shared = filled(2), PartitionLog(0, replicated=True)
    append(shared, entry(0), entry(1))

    assert (alone.level(0, 1), alone.least) == (Durability.PROCESS, Durability.PROCESS)
    alone.synced = 1
    assert (alone.level(0, 1), alone.level(1, 2), alone.least) == (
        Durability.DISK,
        Durability.PROCESS,
        Durability.PROCESS,
    )
    assert (shared.level(0, 1), shared.least) == (Durability.REPLICATED, Durability.REPLICATED)


@pytest.mark.parametrize("replicated", [False, True])
def test_a_page_that_is_only_in_memory_is_never_more_durable_than_that(replicated: bool) -> None:
    log = PartitionLog(0, replicated=replicated)
    append(log, entry(0), entry(1))
    log.held[1] = entry(1)

    assert log.level(1, 2) is log.least is Durability.MEMORY


def test_a_drop_is_counted_by_reason_and_marked() -> None:
    log = filled(4, records=2)

    gaps = log.remove([entry(0, 2), entry(2, 2)], reason=OVERFLOW, at_us=7)
    log.remove([entry(4, 2)], reason=DropReason.CORRUPT, at_us=8)

    assert gaps == [Gap(0, 4, OVERFLOW, 7, size=40, pages=2)]
    assert log.head.dropped == ((1, 4), (2, 2))
    assert [(gap.first, gap.end, gap.reason) for gap in log.gaps] == [(0, 4, 1), (4, 6, 2)]
    assert log.earliest == 6


def test_settled_records_of_dropped_pages_are_in_the_gap_and_in_no_count() -> None:
    log = filled(4, records=2)

    settled = log.remove([entry(4, 2)], reason=OVERFLOW, at_us=6, lost=())
    partly = log.remove([entry(0, 2), entry(2, 2)], reason=OVERFLOW, at_us=7, lost=(Range(1, 4),))

    assert [(gap.first, gap.end, gap.records, gap.whole) for gap in (*settled, *partly)] == [
        (4, 6, 0, False),
        (0, 4, 3, False),
    ]
    assert log.head.dropped == ((1, 3),)
    assert [decode_gap(GAP.codec.encode(gap), gap.first) for gap in log.gaps] == list(log.gaps)


def test_a_drop_around_a_page_in_flight_leaves_that_page_and_two_gaps() -> None:
    log = filled(3)

    gaps = log.remove([entry(0), entry(2)], reason=OVERFLOW, at_us=7)

    assert [(gap.first, gap.end) for gap in gaps] == [(0, 1), (2, 3)]
    assert (log.earliest, log.records) == (1, 1)
    assert log.recent_from(0) == [entry(1)]


def test_gaps_are_found_by_offset() -> None:
    log = filled(30)
    log.remove([entry(at) for at in range(10)], reason=OVERFLOW, at_us=1)
    log.remove([entry(at) for at in range(20, 30)], reason=OVERFLOW, at_us=2)

    assert log.gap_at(9) == log.next_gap(0) == log.gaps[0]
    assert log.gap_at(10) is None
    assert log.next_gap(10) == log.gap_at(20) == log.gaps[1]
    assert log.next_gap(30) is None


def test_the_first_entries_of_a_long_log_are_loaded_from_the_store() -> None:
    entries = [entry(at) for at in range(3 * RECENT_MAX)]
    log = PartitionLog(0)
    append(log, *entries)
    log = stored(log)

    log.offer_oldest(entries[:4], 4)

    assert log.first_entry() == entries[0]
    assert log.first_entries() == entries[:4]
    assert not log.needs_oldest


def test_entries_removed_while_they_were_read_are_left_out() -> None:
    entries = [entry(at) for at in range(6)]
    log = filled(6)
    log.remove(entries[:2], reason=None, at_us=0)
    log.remove([entries[3]], reason=DropReason.CORRUPT, at_us=0)
    log = stored(log)

    log.offer_oldest(entries, 6)

    assert log.first_entries() == [entries[2], entries[4], entries[5]]


def test_removing_all_that_was_loaded_asks_for_more() -> None:
    entries = [entry(at) for at in range(10)]
    log = stored(filled(10))
    log.offer_oldest(entries[:3], 3)

    log.remove(entries[:3], reason=None, at_us=0)

    assert log.needs_oldest
    assert log.earliest == log.head.earliest == 3


def test_adjacent_gaps_merge_above_the_bound_and_keep_their_sums() -> None:
    log = filled(GAPS_MAX + 2)
    for at in range(GAPS_MAX + 2):
        log.remove([entry(at)], reason=OVERFLOW, at_us=at)

    gone, made = log.merge_gaps()

    assert len(log.gaps) == GAPS_MAX
    assert made == [Gap(0, 3, OVERFLOW, 2, size=30, pages=3, since_us=0, merged=((OVERFLOW, 3),))]
    assert {gap.first for gap in gone} == {0, 1, 2}
    assert sum(gap.end - gap.first for gap in log.gaps) == GAPS_MAX + 2


def test_gaps_with_live_pages_between_them_do_not_merge() -> None:
    count = 2 * (GAPS_MAX + 5)
    log = filled(count)
    for at in range(1, count, 2):
        log.remove([entry(at)], reason=OVERFLOW, at_us=at)

    assert log.merge_gaps() == ([], [])
    assert len(log.gaps) == GAPS_MAX + 5


def test_gaps_below_everything_that_lives_merge_over_what_was_settled() -> None:
    count = 2 * (GAPS_MAX + 5)
    log = filled(count + 1)
    for at in range(1, count, 2):
        log.remove([entry(at)], reason=OVERFLOW, at_us=at)
    for at in range(0, count, 2):
        log.remove([entry(at)], reason=None, at_us=at)

    log.merge_gaps()

    assert len(log.gaps) == GAPS_MAX
    assert log.gaps[0].first == 1
    assert log.gaps[-1].end == count


def test_few_gaps_stay_as_they_are() -> None:
    log = filled(3)
    log.remove([entry(0)], reason=OVERFLOW, at_us=0)
    log.remove([entry(1)], reason=OVERFLOW, at_us=0)

    assert log.merge_gaps() == ([], [])
    assert len(log.gaps) == 2


def test_a_stored_head_gives_the_same_log_again() -> None:
    log = filled(5, records=3)
    log.remove([entry(0, 3)], reason=None, at_us=0)
    log.remove([entry(3, 3)], reason=OVERFLOW, at_us=1)

    again = stored(log)

    assert (again.records, again.size, again.pages, again.next_offset) == (9, 90, 3, 15)
    assert again.gaps == log.gaps
    assert again.head == Head(6, 6, 60, 2, ((1, 3),))


def test_more_entries_follow_those_that_were_loaded() -> None:
    entries = [entry(at) for at in range(10)]
    log = stored(filled(10))
    log.offer_oldest(entries[:3], 3)

    log.offer_more(entries[3:6], 3, 6)
    log.offer_more(entries[3:6], 3, 6)  # the same entries, loaded by another caller

    assert log.first_entries() == entries[:6]
    assert not log.complete
    log.offer_more(entries[6:], 6, 10)
    assert log.complete


def test_loaded_entries_that_reach_the_recent_ones_make_the_whole() -> None:
    entries = [entry(at) for at in range(10)]
    log = stored(filled(8))
    append(log, *entries[8:])

    log.offer_oldest(entries[:8], 8)

    assert log.complete
    assert log.first_entries() == entries


def test_loaded_entries_are_not_complete_once_recent_ones_are_forgotten() -> None:
    log = stored(filled(4))
    log.offer_oldest([entry(at) for at in range(4)], 4)
    for at in range(4, 4 + 2 * RECENT_MAX + 1):
        append(log, entry(at))

    assert not log.complete
    assert log.first_entries() == [entry(at) for at in range(4)]


def test_an_index_with_fewer_entries_than_counted_is_not_asked_for_ever() -> None:
    log = stored(filled(4))

    log.offer_oldest([], 4)

    assert log.complete
    assert not log.needs_oldest
    assert log.first_entries() == []


def test_the_first_gaps_from_an_offset_come_in_order_with_those_of_subscriptions() -> None:
    log = filled(10)
    for each in log.first_entries()[::2]:
        log.remove([each], reason=OVERFLOW, at_us=0)
    for name in ("b", "a"):
        log.reject(name, [Range(1, 2), Range(6, 7)], settled_to=0, at_us=0, detail="no")

    found = log.all_gaps_from(1, 6)

    assert [(gap.first, gap.subscription) for gap in found] == [(1, "a"), (1, "b"), (2, ""), (4, ""), (6, ""), (6, "a")]
    assert [gap.first for gap in log.gaps_from(3)] == [4, 6, 8]
