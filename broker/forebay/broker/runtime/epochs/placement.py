"""Placement of staged pages in their partitions: their offsets, and the writes of their index entries.

The entries of a small commit are in its single batch. Those of a large one are written ahead, in batches between those
of other tasks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from forebay.broker.core.epochs.values import EpochPart, EpochRecord, StagedPage
from forebay.broker.core.partition.log import RECENT_MAX, PartitionLog, Tail
from forebay.broker.core.partition.pages import Entry, PagePart
from forebay.broker.core.writes import DropLargeCommit, PutLargeCommit, PutPlaced, Write
from forebay.broker.runtime.commit.committer import Committer
from forebay.broker.runtime.epochs.stage import Stage

OFFSET_MAX: Final = (1 << 64) - 1
AHEAD_FROM: Final = 20_000
"""Pages above which a commit writes its entries ahead, in batches.

Below, its single batch takes at most a tenth of a second.
"""
SYNC_EVERY: Final = 8
"""Batches written ahead per sync, which keeps the last sync short."""
AHEAD_BATCH: Final = 4_000
"""Entries per batch: other writes wait for it."""


class EntriesAhead:
    """Entries of a large commit, written ahead in batches between those of other tasks.

    They are beyond the ends of their partitions, where no reader looks, until the last batch moves the ends. A start
    that finds them without that batch removes them.
    """

    def __init__(self, committer: Committer) -> None:
        self._committer = committer
        self._waiting: list[Write] = []
        self._size = 0
        self._batches = 0
        self._last_batch: asyncio.Future[None] | None = None

    async def begin(self, placed: Iterable[tuple[int, EpochRecord]]) -> None:
        """Record the epochs of each sink durably before any entry, for the next start."""
        epochs: dict[int, list[tuple[str, int]]] = {}
        for number, record in placed:
            epochs.setdefault(number, []).append((record.producer, record.epoch))
        await self._committer.write([PutLargeCommit(sink, tuple(found)) for sink, found in sorted(epochs.items())])

    async def put(self, write: Write, size: int) -> None:
        """Add a write of ``size`` entries to the next batch."""
        self._waiting.append(write)
        self._size += size
        if self._size >= AHEAD_BATCH:
            await self._flush()

    async def _flush(self) -> None:
        batch, self._waiting, self._size = self._waiting, [], 0
        if self._last_batch is not None:
            await self._last_batch
        if batch:
            self._batches += 1
            self._last_batch = self._committer.write(batch, sync=self._batches % SYNC_EVERY == 0)
        else:
            self._last_batch = None

    async def end(self, sinks: Sequence[int]) -> list[Write]:
        """Return the writes of the last batch, which makes the others durable, when all are written."""
        await self._flush()
        await self._flush()
        return [DropLargeCommit(sink) for sink in sinks]


class EntriesInBatch:
    """Entries of a small commit, which are written in its single batch."""

    def __init__(self, writes: list[Write]) -> None:
        self._writes = writes

    async def put(self, write: Write, size: int) -> None:
        """Add a write to the batch."""
        self._writes.append(write)


class Placement:
    """Placement of the pages of one epoch in one partition, in the order of their tokens."""

    def __init__(self, sink: int, log: PartitionLog, tail: Tail, accepted_at_us: int, age_us: int) -> None:
        self.tail = tail
        """End of the partition after them."""
        self.stages: list[int] = []
        """Number, records and pages of each stage, flat: integers cost no garbage collection."""
        self._before = tail
        self._sink = sink
        self._log = log
        self._accepted_at_us = accepted_at_us
        self._age_us = age_us
        self._pages: list[StagedPage] = []
        """Pages that are not in a write yet."""
        self._newest: list[StagedPage] = []
        """Last placed pages: at least as many as memory keeps."""
        self._first, self._last = OFFSET_MAX, 0

    def place(self, stages: Iterable[Stage]) -> Iterator[tuple[Write, int]]:
        """Place the staged pages of the partition; yields writes with the number of their entries."""
        partition, waiting, parts = self._log.number, self._pages, self.stages
        for stage in stages:
            pages = stage.pages.pop(partition)
            parts += (stage.record.number, stage.counts[partition], len(pages))
            waiting += pages
        while len(self._pages) >= AHEAD_BATCH:
            yield self._placed(self._pages[:AHEAD_BATCH])
            del self._pages[:AHEAD_BATCH]

    def rest(self) -> Iterator[tuple[Write, int]]:
        """Yield the last write."""
        if self._pages:
            yield self._placed(self._pages)
            self._pages = []

    def _placed(self, pages: list[StagedPage]) -> tuple[Write, int]:
        before = self.tail
        records, size = sum([page.count for page in pages]), sum([page.size for page in pages])
        numbers = [page.number for page in pages]
        self._first, self._last = min(self._first, *numbers), max(self._last, *numbers)
        base = self._log.reserve(records, size)
        assert base == before.next_offset, "no write of the partition is pending"
        times = (self._accepted_at_us, self._age_us)
        self.tail = Tail(base + records, before.appended_bytes + size, before.appended_pages + len(pages), *times)
        self._newest = [*self._newest[-RECENT_MAX:], *pages[-2 * RECENT_MAX :]]
        return PutPlaced(self._sink, self._log.number, before, *times, pages), len(pages)

    def part(self) -> EpochPart:
        """Return the part of the epoch in this partition."""
        before, tail = self._before, self.tail
        return EpochPart(
            self._log.number,
            before.next_offset,
            tail.next_offset - before.next_offset,
            tail.appended_pages - before.appended_pages,
            tail.appended_bytes - before.appended_bytes,
            self._first,
            self._last,
        )

    def newest(self) -> list[Entry]:
        """Return the last entries, as many as memory keeps."""
        pages = self._newest if len(self._newest) <= 2 * RECENT_MAX else self._newest[-RECENT_MAX:]
        end = self.tail.next_offset - sum(page.count for page in pages)
        bytes_before = self.tail.appended_bytes - sum(page.size for page in pages)
        pages_before = self.tail.appended_pages - len(pages)
        found: list[Entry] = []
        for page in pages:
            parts = (PagePart(end, self._accepted_at_us, page.traceparent),)
            facts = (page.number, page.bulk, page.size, page.encoding, self._accepted_at_us, self._age_us)
            found.append(Entry(end, page.count, *facts, bytes_before, pages_before, parts))
            end += page.count
            bytes_before += page.size
            pages_before += 1
        return found
