"""Purge: removal of records at the request of a caller, or of all records at a clean stop.

A purge covers every record that had an offset when it was requested, including those that wait for their batch.
Deliveries are revoked first, so that a late ack settles nothing. Then pages are dropped, oldest first, in slices that
each keep the account balanced. A page is dropped as a whole or not at all. The purge ends when the last slice is
durable. If the caller leaves, it ends between two slices: the dropped pages stay dropped, and a new request continues.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from forebay.broker.core.errors import OffsetAhead, ReadFailed, StoreFenced
from forebay.broker.core.partition.log import PartitionLog
from forebay.broker.core.partition.pages import DropReason, Entry
from forebay.broker.runtime.commit.committer import Committer
from forebay.broker.runtime.read.pages import Pages
from forebay.broker.runtime.sink.buffer import Buffer

_log: Final = logging.getLogger(__name__)
PAGES_AT_ONCE: Final = 4_096
"""Approximate number of pages dropped in one batch when a sink is emptied."""


@dataclass(frozen=True, slots=True)
class Until:
    """Bounds of a purge; without one it covers everything."""

    offset: int | None = None
    """Pages that end at or below this offset are dropped."""

    time_us: int | None = None
    """Pages whose records were all accepted before this wall clock time are dropped."""

    ends: Mapping[int, int] = field(default_factory=dict)
    """Offset per partition: pages that end at or below it are dropped.

    A repeated request with the same ends drops nothing new.
    """

    def bounds(self, partition: int) -> list[int]:
        """Return the offsets that bound the purge in a partition."""
        return [bound for bound in (self.offset, self.ends.get(partition)) if bound is not None]

    def covers(self, entry: Entry) -> bool:
        """Return whether a page is dropped."""
        if self.offset is not None and entry.end > self.offset:
            return False
        return self.time_us is None or entry.parts[-1].accepted_at_us < self.time_us


@dataclass(frozen=True, slots=True)
class Purged:
    """Result of a purge in one partition."""

    partition: int
    records: int
    size: int
    """Bytes of the dropped bodies."""

    pages: int
    earliest: int
    """Lowest stored offset, or the next one if nothing is stored."""


async def purge(
    buffer: Buffer, partitions: Sequence[int], until: Until, *, committer: Committer, pages: Pages
) -> list[Purged]:
    """Drop pages of partitions, durably.

    Raises:
        OffsetAhead: an offset of ``until`` is not assigned.
        SinkNotFound: the sink was deleted during the purge.
        StoreFenced: the store failed.
    """
    ends: dict[int, int] = {}
    for partition in partitions:
        log = buffer.logs[partition]
        bounds = until.bounds(partition)
        if bounds and max(bounds) > log.next_offset:
            raise OffsetAhead(max(bounds), log.earliest, log.next_offset)
        ends[partition] = min(bounds, default=log.next_offset)
    async with buffer.purges:
        return [
            await _purge(buffer, buffer.logs[partition], Until(end, until.time_us), committer, pages)
            for partition, end in ends.items()
        ]


async def _purge(buffer: Buffer, log: PartitionLog, until: Until, committer: Committer, pages: Pages) -> Purged:
    records = size = count = 0
    at_us = buffer.state.clock.wall_us()
    try:
        while True:
            await _confirmed(committer, log, until.offset or 0)
            await pages.load_oldest(buffer.record.id, log)
            buffer.state.check_alive()
            entries = _covered(log, until)
            if not entries:
                break
            for subscription in buffer.subscriptions.values():
                subscription.begin_purge(log.number)
            buffer.removal.drop(log.number, entries, DropReason.PURGED, at_us=at_us)
            records += sum(entry.count for entry in entries)
            size += sum(entry.size for entry in entries)
            count += len(entries)
            await asyncio.sleep(0)  # yield during a long purge
    finally:
        for subscription in buffer.subscriptions.values():
            subscription.end_purge(log.number)
    await buffer.removal.drops_durable(log.number)
    return Purged(log.number, records, size, count, log.earliest)


async def _confirmed(committer: Committer, log: PartitionLog, end: int) -> None:
    """Return when everything below ``end`` is durable: pages that wait for their batch cannot be dropped."""
    while log.tail.next_offset < end and committer.fenced is None:
        await committer.committed.next().wait()
    if committer.fenced is not None:
        raise committer.fenced


def _covered(log: PartitionLog, until: Until) -> list[Entry]:
    """Return the oldest pages to drop, as far as they are in memory."""
    covered: list[Entry] = []
    for entry in log.iter_first():
        if not until.covers(entry):
            break
        covered.append(entry)
    return covered


async def empty(buffer: Buffer, pages: Pages, reason: DropReason) -> int:
    """Drop the rest of a sink, in flight or not, durably; returns the number of dropped records.

    Pages that are settled by all subscriptions are trimmed instead, without a loss. No append may run at the same
    time. Raises ``StoreFenced``.
    """
    dropped = 0
    for log in buffer.logs:
        await buffer.removal.trim(log)
        while log.pages:
            await pages.load_oldest(buffer.record.id, log)
            entries = log.first_entries()
            while len(entries) < PAGES_AT_ONCE and not log.complete:
                await pages.load_more(buffer.record.id, log)
                entries = log.first_entries()
            if not entries:  # the index has lost pages that the counters still count
                break
            dropped += buffer.removal.drop(log.number, entries, reason)
            await buffer.removal.drops_durable(log.number)
    return dropped


async def empty_at_stop(buffer: Buffer, pages: Pages) -> None:
    """Remove all records of a sink that is configured so, at a clean stop.

    A sink whose index cannot be read keeps the rest.
    """
    if buffer.settings.clean_cache_at_stop:
        try:
            dropped = await empty(buffer, pages, DropReason.CLEANED_AT_STOP)
        except (ReadFailed, StoreFenced) as damage:
            _log.error("sink was not emptied sink=%s cause=%s", buffer.name, damage)
        else:
            _log.info("sink was emptied at the stop sink=%s records=%d", buffer.name, dropped)
