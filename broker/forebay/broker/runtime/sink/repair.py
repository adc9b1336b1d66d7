"""Repair of a partition in a running broker: the index lacks entries that its counters include.

A reader finds a hole: its position is neither in a page nor in a gap. The whole index of the partition is then read,
pages without an entry get one, and the rest becomes a gap. No append to the sink runs until then; other sinks continue.
A part of the index that cannot be read at all is excluded first by rewriting it, see ``pages``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from forebay.broker.core.errors import StoreFenced
from forebay.broker.core.partition.log import PartitionLog, Tail
from forebay.broker.core.partition.ranges import Range, union
from forebay.broker.core.partition.repair import Survey, gaps_for, recounted
from forebay.broker.core.writes import DropEntry, PutEntry, PutGap, PutHead, Write
from forebay.broker.runtime.commit.committer import Committer
from forebay.broker.runtime.read.pages import Pages
from forebay.broker.runtime.resources.quota import Quota
from forebay.broker.runtime.sink.memory_tier import MemoryTier
from forebay.broker.runtime.sink.state import Sink

_log: Final = logging.getLogger(__name__)
_TRIES: Final = 8


class Subscriber(Protocol):
    """Subscription of a sink, as appends and removals of records affect it. Used on the loop."""

    def drop(self, partition: int, dropped: Sequence[Range]) -> None:
        """Settle records that were dropped from the sink. The ranges are disjoint and sorted."""

    def cursor_write(self, partition: int) -> Write:
        """Return the write of the current cursor."""

    def wake(self, partition: int, *, new_page: bool = False) -> None:
        """Wake the owner of a partition after a change."""

    def unsaved(self) -> Sequence[asyncio.Future[None]]:
        """Return the last pending write of each partition: earlier ones become durable with it."""


class Repair:
    """Repair of one sink's partitions. Used on the loop."""

    def __init__(
        self,
        sink: Sink,
        subscribers: Mapping[str, Subscriber],
        tier: MemoryTier,
        *,
        committer: Committer,
        pages: Pages,
        quota: Quota,
        on_repair: Callable[[int, asyncio.Future[None], int], None],
    ) -> None:
        """``on_repair`` gets the partition, the write, before it is durable, and the number of lost records."""
        self._sink = sink
        self._subscribers = subscribers
        self._tier = tier
        self._committer = committer
        self._pages = pages
        self._quota = quota
        self._on_repair = on_repair

    async def repair(self, log: PartitionLog) -> None:
        """Repair the index at an offset that is neither in a page nor in a gap: lost records become a gap.

        Raises ``StoreFenced``.
        """
        seen = log.repairs
        async with self._sink.admission:
            if seen == log.repairs and not self._sink.deleted:
                await self._survey(log)

    async def _survey(self, log: PartitionLog) -> None:
        """Survey a partition and apply the result."""
        for _ in range(_TRIES):
            head, tail = log.head, log.tail
            known = [*log.first_entries(), *log.recent, *log.held.values()]  # those in memory are in no index
            survey = self._pages.survey
            found = await survey(self._sink.id, log.number, head.earliest, tail.next_offset, log.gaps, known)
            if self._sink.deleted:
                return
            if log.head is head:
                if not found.is_intact:
                    await asyncio.shield(self._apply(log, tail, found))  # index reads now find the rebuilt entries
                log.repairs += 1
                return
        raise StoreFenced(f"partition {log.number} of {self._sink.name} changed whenever it was surveyed")

    def _apply(self, log: PartitionLog, tail: Tail, found: Survey) -> asyncio.Future[None]:
        sink, partition = self._sink.id, log.number
        made = gaps_for(found.lost, self._sink.clock.wall_us())
        before = log.size
        log.apply_repair(recounted(log.head, tail, found), made)
        self._quota.remove(before - log.size)
        rebuilt = [entry for entry in found.rebuilt if self._tier.is_stored(entry)]
        writes: list[Write] = [PutEntry(sink, partition, entry) for entry in rebuilt]
        writes += [DropEntry(sink, partition, base) for base in found.broken]
        writes += [PutGap(sink, partition, gap) for gap in made]
        writes.append(PutHead(sink, partition, log.head))
        writes += self._tier.beside_head(log)
        for subscriber in self._subscribers.values():
            subscriber.drop(partition, union(found.lost))
            if made:
                writes.append(subscriber.cursor_write(partition))
        records = sum(part.size for part in found.lost)
        _log.error(
            "index was damaged sink=%s partition=%d entries_rebuilt=%d records_lost=%d; inspect with `forebay verify`",
            *(self._sink.name, partition, len(rebuilt), records),
        )
        written = self._committer.write(writes)
        self._on_repair(partition, written, records)
        return written
