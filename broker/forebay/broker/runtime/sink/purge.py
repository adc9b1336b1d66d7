"""Dropping what a sink holds because somebody asks for it.

A purge covers all that had an offset when it was asked for, also what still waited for its batch. What is in flight is
revoked first, so a late ack settles nothing; then pages go, oldest first, in slices that each keep the account right.
A page goes whole or not at all. It is over when the last slice is durable. A caller that leaves ends it between two
slices: what has gone is gone, and asking again goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from forebay.broker.core.errors import OffsetAhead, SinkNotFound
from forebay.broker.core.partition.log import PartitionLog
from forebay.broker.core.partition.pages import DropReason, Entry
from forebay.broker.runtime.sink.buffer import Buffer, Services


@dataclass(frozen=True, slots=True)
class Until:
    """How far a purge goes; without a bound it takes all that is there."""

    offset: int | None = None
    """Pages that end at or below this offset go."""

    time_us: int | None = None
    """Pages of which every record was accepted before this wall time go."""

    ends: Mapping[int, int] = field(default_factory=dict)
    """By partition, pages that end at or below this offset go: whoever asks again for the same drops nothing new."""

    def bounds(self, partition: int) -> list[int]:
        """The offsets that bound the purge in a partition."""
        return [bound for bound in (self.offset, self.ends.get(partition)) if bound is not None]

    def covers(self, entry: Entry) -> bool:
        """Whether a page goes."""
        if self.offset is not None and entry.end > self.offset:
            return False
        return self.time_us is None or entry.parts[-1].accepted_at_us < self.time_us


@dataclass(frozen=True, slots=True)
class Purged:
    """What became of one partition."""

    partition: int
    records: int
    size: int
    """Bytes of the bodies that went."""

    pages: int
    earliest: int
    """Lowest offset that is stored now, or the next one when nothing is."""


async def purge(buffer: Buffer, services: Services, partitions: Sequence[int], until: Until) -> list[Purged]:
    """Drop pages of partitions, durably.

    Raises:
        OffsetAhead: an offset of ``until`` has not been given to a record.
        SinkNotFound: the sink was deleted meanwhile.
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
            await _purge(buffer, services, buffer.logs[partition], Until(end, until.time_us))
            for partition, end in ends.items()
        ]


async def _purge(buffer: Buffer, services: Services, log: PartitionLog, until: Until) -> Purged:
    records = size = pages = 0
    at_us = services.clock.wall_us()
    try:
        while True:
            await _confirmed(services, log, until.offset or 0)
            await services.pages.load_oldest(buffer.record.id, log)
            if buffer.deleted:
                raise SinkNotFound(buffer.name)
            entries = _covered(log, until)
            if not entries:
                break
            for subscription in buffer.subscriptions.values():
                subscription.hold(log.number)
            buffer.drop(log.number, entries, DropReason.PURGED, at_us=at_us)
            records += sum(entry.count for entry in entries)
            size += sum(entry.size for entry in entries)
            pages += len(entries)
            await asyncio.sleep(0)  # a long purge lets others run
    finally:
        for subscription in buffer.subscriptions.values():
            subscription.let_go(log.number)
    await buffer.drops_durable(log.number)
    return Purged(log.number, records, size, pages, log.earliest)


async def _confirmed(services: Services, log: PartitionLog, end: int) -> None:
    """Return when all below ``end`` is durable: what waits for its batch cannot be dropped before."""
    committer = services.committer
    while log.tail.next_offset < end and committer.fenced is None:
        await committer.committed.next().wait()
    if committer.fenced is not None:
        raise committer.fenced


def _covered(log: PartitionLog, until: Until) -> list[Entry]:
    """The oldest pages that go, as far as they are in memory."""
    covered: list[Entry] = []
    for entry in log.first_entries():
        if not until.covers(entry):
            break
        covered.append(entry)
    return covered
