from __future__ import annotations

import asyncio
import itertools
import zlib
from collections.abc import Callable

import pytest

from forebay.broker.core.partition.log import PartitionLog, Tail
from forebay.broker.core.partition.pages import DropReason, Gap, PagePart
from forebay.broker.core.publish.writer import Slot
from forebay.broker.core.writes import PutEntry, PutGap, PutSlot, PutTail, Write
from forebay.broker.runtime.commit.group import (
    BULK_BYTES,
    GROUP_BYTES,
    PARTS_MAX,
    QUANTUM_BYTES,
    SHARE_BYTES,
    Append,
    AppendQueue,
    Group,
    cut,
)
from forebay.page.format import PAGE_BYTES_MAX
from tests.support.pages.samples import page, values

pytestmark = pytest.mark.anyio
MIB = 1 << 20


def append_queue(partition: int = 0) -> AppendQueue:
    return AppendQueue(1, PartitionLog(partition), lambda partition, entries: None)


def queue(to: AppendQueue, *found: bytes, page_records: int = 256, at_us: int = 7, slot: Slot | None = None) -> Append:
    """Let values wait as one append."""
    asked = page(*found, partition=to.log.number, traceparent=f"trace {at_us}")
    append = Append(
        page=asked,
        first=to.log.reserve(len(found), len(asked.body)),
        accepted_at_us=at_us,
        age_us=at_us,
        slot=PutSlot(1, "w", 5, to.log.number, slot) if slot is not None else None,
        page_records=page_records,
        done=asyncio.get_running_loop().create_future(),
    )
    to.waiting.append(append)
    to.size += len(asked.body)
    return append


def numbers(first: int = 100) -> Callable[[], int]:
    return itertools.count(first).__next__


def stored(group: Group) -> list[list[bytes]]:
    return [values(each.body.data) for each in group.pages]


async def test_small_appends_of_a_partition_become_one_page_in_the_order_of_their_offsets() -> None:
    line = append_queue()
    for number in range(3):
        queue(line, b"%d" % number, b"x", at_us=number)

    group = cut([line], numbers())

    [written] = group.pages
    assert stored(group) == [[b"0", b"x", b"1", b"x", b"2", b"x"]]
    assert (written.entry.base, written.entry.count, written.entry.number) == (0, 6, 100)
    assert written.entry.parts == (PagePart(0, 0, "trace 0"), PagePart(2, 1, "trace 1"), PagePart(4, 2, "trace 2"))
    assert written.body.crc32 == zlib.crc32(written.body.data)
    assert (len(line.waiting), line.size) == (0, 0)


async def test_joined_pages_hold_no_more_records_than_the_sink_says() -> None:
    line = append_queue()
    for _ in range(5):
        queue(line, b"a", b"b", page_records=4)

    group = cut([line], numbers())

    assert [each.entry.count for each in group.pages] == [4, 4, 2]
    assert [each.entry.base for each in group.pages] == [0, 4, 8]


async def test_a_page_with_more_records_than_that_is_alone_in_its_message() -> None:
    line = append_queue()
    for count in (1, 9, 1):
        queue(line, *[b"x"] * count, page_records=4)

    group = cut([line], numbers())

    assert [each.entry.count for each in group.pages] == [1, 9, 1]


async def test_joined_pages_are_no_larger_than_a_page() -> None:
    line = append_queue()
    for _ in range(3):
        queue(line, b"x" * (PAGE_BYTES_MAX // 2))

    group = cut([line], numbers())

    assert [each.entry.count for each in group.pages] == [1, 1, 1]
    assert all(each.entry.size <= PAGE_BYTES_MAX for each in group.pages)


async def test_no_more_appends_are_joined_than_an_entry_has_places_for() -> None:
    line = append_queue()
    for _ in range(PARTS_MAX + 1):
        queue(line, b"x", page_records=65_536)

    group = cut([line], numbers())

    assert [len(each.entry.parts) for each in group.pages] == [PARTS_MAX, 1]


async def test_counters_of_the_partition_rise_with_its_pages() -> None:
    line = append_queue()
    for _ in range(2):
        queue(line, b"abc", page_records=1, at_us=9)

    group = cut([line], numbers())

    first, second = (each.entry for each in group.pages)
    assert (first.bytes_before, first.pages_before) == (0, 0)
    assert (second.bytes_before, second.pages_before) == (first.size, 1)
    assert group.shares[0].tail == Tail(2, first.size + second.size, 2, 9, 9)
    assert line.log.tail == Tail(), "nothing is confirmed by being cut"


async def test_entries_tail_and_writers_go_into_the_batch_of_their_pages() -> None:
    line = append_queue()
    slot = Slot(3, 1, 0, 1)
    queue(line, b"a", slot=slot)
    queue(line, b"b")

    group = cut([line], numbers())

    assert group.writes == [
        PutEntry(1, 0, group.pages[0].entry),
        PutTail(1, 0, group.shares[0].tail),
        PutSlot(1, "w", 5, 0, slot),
    ]


async def test_page_numbers_rise_in_the_order_of_offsets() -> None:
    lines = [append_queue(0), append_queue(1)]
    for _ in range(3):
        for line in lines:
            queue(line, b"x", page_records=1)

    group = cut(lines, numbers())

    for partition in (0, 1):
        own = [each.entry for each in group.pages if each.partition == partition]
        assert [each.base for each in own] == [0, 1, 2]
        assert [each.number for each in own] == sorted(each.number for each in own)


async def test_a_partition_with_much_waiting_is_bulk_and_the_small_ones_go_first() -> None:
    large, small = append_queue(0), append_queue(1)
    for _ in range(BULK_BYTES // MIB):
        queue(large, b"x" * MIB)
    queue(small, b"y")

    group = cut([large, small], numbers())

    assert [each.partition for each in group.pages][-1] == 1
    assert {each.partition: each.entry.bulk for each in group.pages} == {0: True, 1: False}


def waiting(number: int, mebibytes: float) -> AppendQueue:
    """A partition with so much waiting, in pages of half a MiB."""
    line = append_queue(number)
    for _ in range(int(mebibytes * 2)):
        queue(line, b"x" * (MIB // 2))
    return line


def bulk_of(group: Group) -> dict[int, bool]:
    return {each.partition: each.entry.bulk for each in group.pages}


async def test_partitions_that_have_much_waiting_together_share_a_file_though_none_would_alone() -> None:
    lines = [waiting(0, 2), waiting(1, 2.5)]

    assert bulk_of(cut(lines, numbers())) == {0: True, 1: True}
    assert bulk_of(cut([waiting(0, 2)], numbers())) == {0: False}


async def test_a_partition_with_little_keeps_out_of_the_file_of_the_others() -> None:
    little = append_queue(2)
    queue(little, b"x" * (SHARE_BYTES // 2))

    group = cut([waiting(0, 2), little, waiting(1, 2.5)], numbers())

    assert bulk_of(group) == {0: True, 1: True, 2: False}


async def test_after_a_file_partitions_with_little_have_a_group_to_themselves() -> None:
    large, little = waiting(0, 5), append_queue(1)
    queue(little, b"y")

    group = cut([large, little], numbers(), after_bulk=True)

    assert (bulk_of(group), group.is_bulk) == ({1: False}, False)
    assert len(large.waiting) == 10
    assert bulk_of(cut([large, little], numbers(), after_bulk=True)) == {0: True}


async def test_pages_of_one_partition_are_side_by_side_in_the_file() -> None:
    group = cut([waiting(number, 6) for number in range(3)], numbers())

    bulk = [each for each in group.pages if each.entry.bulk]
    assert [each.entry.number for each in bulk] == list(range(100, 100 + len(bulk)))
    assert [partition for partition, _ in itertools.groupby(each.partition for each in bulk)] == [0, 1, 2]


async def test_partitions_take_turns_and_those_left_out_keep_what_they_have() -> None:
    lines = [waiting(number, 2 * QUANTUM_BYTES / MIB) for number in range(10)]

    group = cut(lines, numbers())

    assert GROUP_BYTES <= group.size <= GROUP_BYTES + QUANTUM_BYTES
    assert [share.size for share in group.shares] == [group.shares[0].size] * (GROUP_BYTES // QUANTUM_BYTES)
    assert all(share.size <= QUANTUM_BYTES + MIB for share in group.shares)
    assert [bool(line.waiting) for line in lines] == [True] * 10


async def test_nothing_waiting_is_an_empty_group() -> None:
    group = cut([append_queue()], numbers())

    assert (group.shares, group.pages, group.writes, group.size) == ([], [], [], 0)


class Letter:
    """Writes that become durable with a dead letter."""

    def cut(self, first: int) -> list[Write]:
        return [PutGap(9, 0, Gap(first, first + 1, DropReason.PURGED, 0, 0, 0))]

    def committed(self) -> None:
        pass


async def test_an_append_with_a_companion_write_is_in_the_next_group_however_full_the_group_is() -> None:
    busy, letters = append_queue(0), append_queue(1)
    for _ in range(40):
        queue(busy, bytes(MIB))
    for _ in range(24):
        queue(letters, bytes(MIB))
    queue(letters, b"a dead letter").companion = Letter()
    queue(letters, b"an append after it")

    group = cut([busy, letters], numbers())

    left = [append.page.record_count for append in letters.waiting]
    assert any(isinstance(write, PutGap) for write in group.writes)
    assert (left, letters.size) == ([1], sum(len(append.page.body) for append in letters.waiting))
    assert len(busy.waiting) > 0
    assert group.size == sum(len(page.body.data) for page in group.pages)
