"""Removal of a sink's pages: drops with their gaps, the trim of settled pages, their durability.

A drop is decided at once, and reported when its batch is durable: until then a crash could undo it. Settled pages are
trimmed by a task of the sink, and by appends that need room.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Final

from forebay.broker.core.errors import ReadFailed, StoreFenced
from forebay.broker.core.partition import ranges as sets
from forebay.broker.core.partition.expiry import expired
from forebay.broker.core.partition.log import PartitionLog
from forebay.broker.core.partition.pages import DropReason, Entry
from forebay.broker.core.partition.ranges import Range, union
from forebay.broker.core.partition.retention import settled_front
from forebay.broker.core.writes import DropEntry, DropGap, Due, PutDue, PutGap, PutHead, Write
from forebay.broker.runtime.commit.committer import Committer
from forebay.broker.runtime.commit.reclaimer import Reclaimer
from forebay.broker.runtime.commit.runs import due_runs
from forebay.broker.runtime.instruments import Instruments
from forebay.broker.runtime.read.pages import Pages
from forebay.broker.runtime.read.quarantine import Quarantine
from forebay.broker.runtime.resources.quota import Quota
from forebay.broker.runtime.sink.memory_tier import MemoryTier
from forebay.broker.runtime.sink.repair import Repair, Subscriber
from forebay.broker.runtime.sink.retention.drop_log import DropLog
from forebay.broker.runtime.sink.retention.retention import Retention
from forebay.broker.runtime.sink.state import Sink

_log: Final = logging.getLogger(__name__)
_OF_UNSETTLED: Final = frozenset(
    {DropReason.OVERFLOW, DropReason.EXPIRED, DropReason.MEMORY_PRESSURE, DropReason.CLEANED_AT_STOP}
)
"""Reasons of drops that count no settled record: it would have been trimmed."""


class Removal:
    """Removal of pages of one sink. Used on the loop."""

    def __init__(
        self,
        sink: Sink,
        subscribers: Mapping[str, Subscriber],
        tier: MemoryTier,
        retaining: Retention,
        *,
        committer: Committer,
        reclaimer: Reclaimer,
        pages: Pages,
        quarantine: Quarantine,
        quota: Quota,
        instruments: Instruments,
    ) -> None:
        self._sink = sink
        self._subscribers = subscribers
        self._tier = tier
        self._retaining = retaining
        self._committer = committer
        self._reclaimer = reclaimer
        self._pages = pages
        self._quarantine = quarantine
        self._quota = quota
        self._instruments = instruments
        self._repair = Repair(
            sink, subscribers, tier, committer=committer, pages=pages, quota=quota, on_repair=self._repaired
        )
        self._drop_log = DropLog(sink.name, sink.clock)
        self._drops: dict[int, asyncio.Future[None]] = {}
        """Last drop of each partition: when it is durable, all earlier ones are too."""
        self._trim_again: set[int] = set()
        """Partitions whose index could not be read at the last trim."""
        self._trim_event = asyncio.Event()
        self._trim_event.set()
        self._trim_due: set[int] = {log.number for log in sink.logs}

    # -- drops

    def drop(self, partition: int, entries: list[Entry], reason: DropReason, *, at_us: int | None = None) -> int:
        """Drop confirmed pages: counters, gaps, cursors and index in one batch.

        Returns the number of dropped records.
        Of pages after one in flight all records may be settled: a limit, or a clean stop, counts the others only.
        ``at_us`` is the time at which the drop was decided, if not now: purged neighbours of one time form one gap.
        """
        if self._sink.deleted:
            return 0
        sink, log = self._sink.id, self._sink.logs[partition]
        dropped = union([Range(entry.base, entry.end) for entry in entries])
        unsettled = self._sink.unsettled(partition, dropped) if reason in _OF_UNSETTLED else None
        lost = dropped if unsettled is None else unsettled
        at_us = self._sink.clock.wall_us() if at_us is None else at_us
        gaps = log.remove(entries, reason=reason, at_us=at_us, lost=unsettled)
        gone, made = log.merge_gaps()
        writes: list[Write] = [PutGap(sink, partition, gap) for gap in gaps]
        writes += [DropGap(sink, partition, gap.first) for gap in gone]
        writes += [PutGap(sink, partition, gap) for gap in made]
        for subscriber in self._subscribers.values():
            subscriber.drop(partition, dropped)
            writes.append(subscriber.cursor_write(partition))
        self._drops[partition] = self._remove(partition, entries, writes, keep=reason is DropReason.CORRUPT)
        if lost:
            self.report_when_durable(partition, reason, lost, self._drops[partition])
        for subscriber in self._subscribers.values():
            subscriber.wake(partition)
        first = log.first_entry()
        if first is None or first.end <= self._sink.settled(log):  # settled pages after these are at the front now
            self.trim_soon(partition)
        self._sink.changed.fire()
        return sets.count(lost)

    def drop_expired(self, partition: int, entries: Sequence[Entry]) -> bool:
        """Drop expired entries among those that a reader is about to send; returns True if there were any."""
        sink = self._sink
        if not sink.settings.max_age_us or sink.deleted:
            return False
        log = sink.logs[partition]
        old = expired(entries, sink.age.now_us() - sink.settings.max_age_us, sink.in_flight(partition))
        live = [entry for entry in old if entry.base >= log.head.earliest and log.gap_at(entry.base) is None]
        if sink.settings.retain_acked_time_us or sink.settings.retain_acked_bytes:  # settled ones by rules of their own
            live = [entry for entry in live if not sink.is_settled(partition, entry)]
        if live:
            self.drop(partition, live, DropReason.EXPIRED)
        return bool(live)

    def drop_from_memory(self) -> None:
        """Drop and count what a sink that never writes has in memory, at a clean stop."""
        if self._committer.fenced is None:
            for log in self._sink.logs:
                if log.held:
                    self.drop(log.number, list(log.held.values()), DropReason.CLEANED_AT_STOP)

    def report_when_durable(
        self, partition: int, reason: DropReason, dropped: Sequence[Range], synced: asyncio.Future[None]
    ) -> None:
        """Report a drop to the log and the instruments once no crash can undo it."""

        def report(done: asyncio.Future[None]) -> None:
            if done.exception() is None:
                records = sum(part.size for part in dropped)
                self._instruments.dropped(self._sink.name, partition, reason, records)
                self._drop_log.dropped(partition, reason, records, dropped[0].first, dropped[-1].end)

        synced.add_done_callback(report)

    def unsynced_drop(self, partition: int) -> asyncio.Future[None] | None:
        """Return the drop to await before a gap notice is sent; until then a crash could undo it.

        The caller must not cancel it.
        """
        last = self._drops.get(partition)
        return None if last is None or (last.done() and last.exception() is None) else last

    async def drops_durable(self, partition: int) -> None:
        """Return when every drop of a partition is durable. Raises ``StoreFenced`` if it never will be."""
        last = self.unsynced_drop(partition)
        if last is not None:
            await asyncio.wait([last])  # shared: a cancelled waiter must not cancel it
            last.result()

    async def confirmed(self) -> None:
        """Return when every decision so far is durable, so that it may be reported. Raises ``StoreFenced``."""
        waiting = [drop for drop in self._drops.values() if not drop.done()]
        waiting += [saved for subscriber in self._subscribers.values() for saved in subscriber.unsaved()]
        if waiting:
            await asyncio.wait(waiting)
            for done in waiting:
                done.result()

    async def repair(self, log: PartitionLog) -> None:
        """Repair the index of a partition; see ``Repair.repair``."""
        await self._repair.repair(log)

    def _repaired(self, partition: int, written: asyncio.Future[None], records: int) -> None:
        """Apply a repair that lost ``records`` records: its gap notices are sent after ``written``."""
        self._drops[partition] = written
        if records:
            self._instruments.dropped(self._sink.name, partition, DropReason.CORRUPT, records)
        for subscriber in self._subscribers.values():
            subscriber.wake(partition)
        self.trim_soon(partition)
        self._sink.changed.fire()

    def _remove(
        self, partition: int, entries: list[Entry], writes: list[Write], *, keep: bool = False
    ) -> asyncio.Future[None]:
        sink, log = self._sink.id, self._sink.logs[partition]
        stored = [entry for entry in entries if self._tier.is_stored(entry)]
        self._tier.remove(entries)
        self._quota.remove(sum(entry.size for entry in entries))
        if not stored and not writes:  # none of it was ever written
            synced: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            synced.set_result(None)
            return synced
        writes += [DropEntry(sink, partition, entry.base) for entry in stored]
        writes.append(PutHead(sink, partition, log.head))
        writes += self._tier.beside_head(log)
        due: list[Due] = []
        if keep:
            kept, due = self._quarantine.keep(sink, partition, stored)
            writes += kept
        else:
            due = due_runs(sink, partition, stored)
            writes += [PutDue(item) for item in due]
        numbers = [entry.number for entry in stored]
        self._pages.read_cache.drop(sink, numbers)
        self._pages.holds.worked(sink, partition, numbers)
        synced = self._committer.write(writes)
        synced.add_done_callback(lambda done: None if done.exception() else self._reclaimer.add(due))
        return synced

    # -- the trim

    def trim_soon(self, partition: int) -> None:
        """Trim after a watermark has moved, unless settled pages are retained: then the sweep trims."""
        if not self._retaining.active:
            self.trim_now(partition)

    def trim_now(self, partition: int) -> None:
        """Schedule the trim of a partition."""
        self._trim_due.add(partition)
        self._trim_event.set()

    def sweep(self) -> None:
        """Log pending drops, and schedule the trims that failed and those that became possible."""
        self._drop_log.sweep()
        for partition in [*self._trim_again, *self._retaining.sweep()]:
            self.trim_now(partition)
        self._trim_again.clear()

    def close(self) -> None:
        """Log pending drops."""
        self._drop_log.flush()

    async def end(self) -> None:
        """Log pending drops when the last ones are durable: no sweep follows."""
        if self._drops:
            await asyncio.wait(self._drops.values())  # also of those that are done: their reports come first
        self._drop_log.flush()

    async def run(self) -> None:
        """Trim the scheduled partitions, until cancelled."""
        while True:
            await self._trim_event.wait()
            self._trim_event.clear()
            await self._select_retained()
            while self._trim_due:
                log = self._sink.logs[self._trim_due.pop()]
                self._trim_again.add(log.number)  # also after an unexpected failure
                try:
                    await self.trim(log)
                    self._trim_again.discard(log.number)
                except ReadFailed:
                    continue  # the failing reads are tracked; see ``ReadHolds``
                except StoreFenced as damage:  # perhaps of this partition's index: the others continue
                    self._trim_again.discard(log.number)
                    place = (self._sink.name, log.number, damage)
                    _log.error("pages were not trimmed sink=%s partition=%d cause=%s", *place)

    async def _select_retained(self) -> None:
        try:
            for partition in await self._retaining.select():
                self.trim_now(partition)
        except (ReadFailed, StoreFenced) as damage:
            _log.error("retained pages were not counted sink=%s cause=%s", self._sink.name, damage)

    async def trim(self, log: PartitionLog, *, repair: bool = True) -> None:
        """Remove the first pages, as far as all subscriptions have settled them.

        ``repair`` waits for the admission: a caller that holds it passes False, and a hole in the index is repaired
        later. A sink that was deleted meanwhile is left alone.
        """
        while log.pages and not self._sink.deleted:
            await self._pages.load_oldest(self._sink.id, log)
            if log.hole_at(log.head.earliest, log.first_entry()):
                if not repair:
                    self.trim_now(log.number)
                    return
                await self.repair(log)
                if log.hole_at(log.head.earliest, log.first_entry()):
                    return
                continue
            entries = settled_front(log.iter_first(), self._retaining.released(log, self._sink.settled(log)))
            if not entries:
                return
            self.take_out(log, entries)
            await asyncio.sleep(0)  # yield during a long trim

    def take_out(self, log: PartitionLog, entries: list[Entry]) -> None:
        """Remove settled pages from the front of a partition, unless the sink was deleted meanwhile."""
        if self._sink.deleted:
            return  # the deletion counts them
        log.remove(entries, reason=None, at_us=0)
        self._remove(log.number, entries, [])
