"""Placement of staged pages: offsets, entries, and batches that are written ahead."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest

from forebay.broker.core.epochs.values import StagedPage, StageRecord
from forebay.broker.core.partition.log import RECENT_MAX, PartitionLog, Tail
from forebay.broker.core.writes import DropLargeCommit, PutPlaced, Write
from forebay.broker.runtime.epochs.placement import AHEAD_BATCH, EntriesInBatch, Placement
from forebay.broker.runtime.epochs.stage import Stage

BEFORE = Tail(10, 500, 5, 1, 1)
AT_US, AGE_US = 1_000, 2_000


def stage(number: int, pages: Sequence[StagedPage]) -> Stage:
    """A durable stage with pages in partition 1 only."""
    record = StageRecord(number, "producer", "query", 3, f"token {number}", "run", 1)
    return Stage.stored(record, {(1, sequence): page for sequence, page in enumerate(pages)}, 0.0)


def pages(first: int, count: int, *, records: int = 2) -> list[StagedPage]:
    return [StagedPage(first + index, False, 1, records, 100, 7) for index in range(count)]


def placement() -> Placement:
    log = PartitionLog(1)
    log.next_offset = BEFORE.next_offset
    return Placement(4, log, BEFORE, AT_US, AGE_US)


def placed(made: Placement, stages: Sequence[Stage]) -> list[tuple[Write, int]]:
    return [*made.place(stages), *made.rest()]


def test_pages_follow_each_other_in_the_order_of_their_tokens() -> None:
    made = placement()

    [(write, size)] = placed(made, [stage(8, pages(80, 2)), stage(7, pages(70, 1, records=5))])

    assert size == 3
    assert isinstance(write, PutPlaced)
    assert (write.sink, write.partition, write.before) == (4, 1, BEFORE)
    assert [page.number for page in write.pages] == [80, 81, 70]
    assert made.tail == Tail(19, 800, 8, AT_US, AGE_US)
    assert made.stages == [8, 4, 2, 7, 5, 1]
    part = made.part()
    assert (part.partition, part.base, part.records, part.pages, part.size) == (1, 10, 9, 3, 300)


def test_a_large_epoch_is_written_in_batches_that_continue_each_other() -> None:
    made = placement()
    writes = placed(made, [stage(1, pages(0, AHEAD_BATCH + 1)), stage(2, pages(AHEAD_BATCH + 1, AHEAD_BATCH))])

    assert [size for _, size in writes] == [AHEAD_BATCH, AHEAD_BATCH, 1]
    befores = [write.before for write, _ in writes if isinstance(write, PutPlaced)]
    assert [before.next_offset for before in befores] == [10, 10 + 2 * AHEAD_BATCH, 10 + 4 * AHEAD_BATCH]
    numbers = [page.number for write, _ in writes if isinstance(write, PutPlaced) for page in write.pages]
    assert numbers == list(range(2 * AHEAD_BATCH + 1))


@pytest.mark.parametrize("count", [1, RECENT_MAX, 2 * RECENT_MAX + 1, AHEAD_BATCH + 3])
def test_memory_gets_the_newest_entries_as_a_reader_would_find_them(count: int) -> None:
    made = placement()
    placed(made, [stage(1, pages(0, count))])

    newest = made.newest()

    assert min(count, RECENT_MAX) <= len(newest) <= 2 * RECENT_MAX
    assert (newest[-1].end, newest[-1].number) == (made.tail.next_offset, count - 1)
    assert newest[-1].bytes_before + newest[-1].size == made.tail.appended_bytes
    assert newest[-1].pages_before + 1 == made.tail.appended_pages
    for entry, after in pairwise(newest):
        assert (entry.end, entry.bytes_before + 100, entry.pages_before + 1) == (
            after.base,
            after.bytes_before,
            after.pages_before,
        )


def test_a_partition_without_pages_gets_no_write() -> None:
    made = placement()

    assert placed(made, []) == []
    assert (made.tail, made.newest(), made.part().records) == (BEFORE, [], 0)


@pytest.mark.anyio
async def test_the_entries_of_a_small_commit_are_in_its_batch() -> None:
    batch: list[Write] = []

    await EntriesInBatch(batch).put(DropLargeCommit(1), 3)

    assert batch == [DropLargeCommit(1)]
