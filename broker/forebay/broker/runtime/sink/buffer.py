"""Buffer: one running sink with its partitions, subscriptions and writers.

All state is changed on the loop. The core decides; this module passes data to it and its writes to the committer, and
wakes waiting tasks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from forebay.broker.core.dead_letters.letters import RecordCodec, is_dead_letter_sink
from forebay.broker.core.delivery.lane import Lane
from forebay.broker.core.epochs.values import StoredEpochs
from forebay.broker.core.errors import (
    BrokerError,
    ReadFailed,
    SinkNotFound,
    StoreFenced,
    SubscriptionNotFound,
    shown,
)
from forebay.broker.core.partition.account import Totals
from forebay.broker.core.partition.cursor import Cursor
from forebay.broker.core.partition.log import PartitionLog
from forebay.broker.core.partition.pages import DropReason, Entry, Incoming
from forebay.broker.core.partition.ranges import Range, union
from forebay.broker.core.partition.reservation import Reserve
from forebay.broker.core.partition.retention import Marks, settled_front
from forebay.broker.core.publish.limits import Wait, admit, excess
from forebay.broker.core.settings import Overflow, SinkSettings
from forebay.broker.core.writes import (
    WHOLE_SINK,
    DropEntry,
    DropGap,
    DropSink,
    Due,
    PutDue,
    PutGap,
    PutHead,
    PutSink,
    PutSlot,
    SchemaRecord,
    SinkRecord,
    SubscriptionRecord,
    Write,
)
from forebay.broker.runtime.clock import AgeClock, Clock
from forebay.broker.runtime.commit.accepted import Slots
from forebay.broker.runtime.commit.committer import Committer
from forebay.broker.runtime.commit.durable import Durable
from forebay.broker.runtime.commit.group import Append, Companion, Lineup
from forebay.broker.runtime.commit.pulse import Pulse
from forebay.broker.runtime.commit.reclaimer import Reclaimer
from forebay.broker.runtime.commit.runs import due_runs
from forebay.broker.runtime.delivery.marks import DeliveryMarks
from forebay.broker.runtime.delivery.subscription import DEFAULT_SUBSCRIPTION, Subscription
from forebay.broker.runtime.delivery.subscriptions import Subscribing
from forebay.broker.runtime.epochs.staging import Staging
from forebay.broker.runtime.instruments import Instruments
from forebay.broker.runtime.read.pages import Pages
from forebay.broker.runtime.read.quarantine import Quarantine
from forebay.broker.runtime.read.read_holds import ReadHold
from forebay.broker.runtime.resources.memory import MemoryGuard
from forebay.broker.runtime.resources.quota import Quota
from forebay.broker.runtime.resources.supervision import Supervisor
from forebay.broker.runtime.sink.drop_log import DropLog
from forebay.broker.runtime.sink.fronts import Fronts
from forebay.broker.runtime.sink.memory_tier import MemoryTier
from forebay.broker.runtime.sink.repair import mend
from forebay.broker.runtime.sink.retention import Retaining
from forebay.broker.runtime.sink.schemas import Schemas
from forebay.errors.reasons import Reason

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Services:
    """Dependencies that all buffers of one broker share."""

    clock: Clock
    age: AgeClock
    committer: Committer
    reclaimer: Reclaimer
    pages: Pages
    instruments: Instruments
    start_count: int
    quota: Quota
    memory: MemoryGuard
    records: RecordCodec
    dead_letter_sink: Callable[[Buffer], Buffer]
    """Return the dead-letter sink of a sink.

    It is created on first use, in the batch of the first append to it.
    """
    quarantine: Quarantine
    slots: Slots
    marks: DeliveryMarks
    supervisor: Supervisor
    owner_epochs: Iterator[int]
    """Owner epochs of consumers over all sinks.

    None is reused, not even by a recreated sink or subscription.
    """


class Buffer:
    """Running state of one sink."""

    def __init__(
        self,
        record: SinkRecord,
        logs: Sequence[PartitionLog],
        cursors: dict[tuple[str, int], Cursor],
        services: Services,
        *,
        subscriptions: Iterable[SubscriptionRecord] = (),
        totals: Mapping[tuple[str, int], Totals] | None = None,
        marks: Mapping[int, Marks] | None = None,
        reserves: Mapping[int, Reserve] | None = None,
        epochs: StoredEpochs | None = None,
        schemas: Iterable[SchemaRecord] = (),
    ) -> None:
        self.record = record
        self.logs = list(logs)
        services.quota.take(sum(log.size for log in self.logs))
        self._services = services
        self.deleted = False
        self.gone = asyncio.Event()
        """Set when the sink is deleted."""
        self.created: asyncio.Future[None] = Durable()
        """Done when the sink's creation is durable."""
        self.created.set_result(None)
        self.changed = Pulse()
        """Fires when pages are added or removed."""
        self.admission = asyncio.Lock()
        """Held by the append that waits for room; the others queue behind it in order."""
        self.tier = MemoryTier(self, services, reserves or {})
        self.staging = Staging(self, services, *(epochs or ()))
        self._lineups = [self._lineup(log) for log in self.logs]
        self.fronts = Fronts(services.pages, record.id)
        self.subscriptions: dict[str, Subscription] = {}
        self.subscribing = Subscribing(self, services, subscriptions)
        self.schemas = Schemas(self, services, schemas)
        self.retaining = Retaining(self, services, marks or {})
        for name in self.subscribing.names:
            lanes = [Lane(cursors.get((name, log.number), Cursor()), record.settings) for log in self.logs]
            self.subscriptions[name] = Subscription(self.subscribing.record(name), self, lanes, services)
        for (name, partition), closed in (totals or {}).items():
            if name in self.subscriptions:
                self.subscriptions[name].recall(partition, closed)
        if record.paused is not None:
            for subscription in self.subscriptions.values():
                subscription.pause(record.paused)
        self._drop_log = DropLog(record.name, services.clock)
        self.purges = asyncio.Lock()
        """Held by the purge that drops pages; another one waits for it."""
        self._drops: dict[int, asyncio.Future[None]] = {}
        """Last drop of each partition: when it is durable, all earlier ones are too."""
        self._trim_again: set[int] = set()
        """Partitions whose index could not be read at the last trim."""
        self._trim_event = asyncio.Event()
        self._trim_due: set[int] = {log.number for log in self.logs}
        self._trimming = services.supervisor.keep(f"trim of {record.name}", self._trim_forever)
        self._trim_event.set()

    @property
    def name(self) -> str:
        return self.record.name

    def age_now_us(self) -> int:
        """Return the time on the broker's own clock."""
        return self._services.age.now_us()

    def wall_now_us(self) -> int:
        """Return the wall clock time."""
        return self._services.clock.wall_us()

    @property
    def settings(self) -> SinkSettings:
        return self.record.settings

    def subscription(self, name: str, incarnation: str = "") -> Subscription:
        """Return the subscription with that name, and that incarnation if one is given.

        An empty name is `default`. Every request for a subscription looks it up here, so no request for a former one
        reaches its successor. Raises ``SubscriptionNotFound``, ``SUBSCRIPTION_REPLACED``.
        """
        found = self.subscriptions.get(name or DEFAULT_SUBSCRIPTION)
        if found is None:
            raise SubscriptionNotFound(self.name, name)
        if incarnation and incarnation != found.record.incarnation:
            raise BrokerError(
                Reason.SUBSCRIPTION_REPLACED,
                sink=self.name,
                subscription=found.name,
                named=shown(incarnation),
                current=found.record.incarnation,
            )
        return found

    # -- settings and state

    def stop(self, reason: str) -> asyncio.Future[None]:
        """Pause deliveries, durably; appends continue."""
        self.record = replace(self.record, paused=reason)
        for subscription in self.subscriptions.values():
            subscription.pause(reason)
        _log.warning("sink was paused sink=%s reason=%s", self.name, reason)
        return self._services.committer.write([PutSink(self.record)])

    def resume(self) -> asyncio.Future[None]:
        """Resume deliveries where they were."""
        self.record = replace(self.record, paused=None)
        for subscription in self.subscriptions.values():
            subscription.resume()
        return self._services.committer.write([PutSink(self.record)])

    def change(self, settings: SinkSettings) -> asyncio.Future[None]:
        """Apply new settings from now on. Additional partitions are added."""
        forgets = self.settings.forgets
        self.record = replace(self.record, settings=settings)
        self._grow(settings.partitions)
        for subscription in self.subscriptions.values():
            subscription.change(settings)
        for log in self.logs:
            self.trim_now(log.number)
        put = [PutSink(self.record)]
        if forgets and not settings.forgets:
            return self.tier.offsets.forget(put)
        return self._services.committer.write(put)

    def _grow(self, partitions: int) -> None:
        """Add partitions. Their pages are written no earlier than the record that adds them."""
        numbers = range(len(self.logs), partitions)
        if not numbers:
            return
        for number in numbers:
            self.logs.append(PartitionLog(number))
            self._lineups.append(self._lineup(self.logs[number]))
        for subscription in self.subscriptions.values():
            lanes = [Lane(Cursor(), self.settings) for _ in numbers]
            if self.record.paused is not None:
                for lane in lanes:
                    lane.pause(self.record.paused)
            subscription.grow(lanes)

    @property
    def pending(self) -> int:
        """Unsettled records of the subscription that has most of them."""
        return max(
            sum(lane.cursor.pending(log.tail.next_offset) for lane, log in zip(s.lanes, self.logs, strict=True))
            for s in self.subscriptions.values()
        )

    async def settled_in(self) -> None:
        """Return when no page of the sink waits for its batch."""
        while self._services.committer.fenced is None:
            under_way = self.staging.waiting or self.staging.committing
            if not under_way and not any(log.queued_bytes for log in self.logs):
                return
            await self._services.committer.committed.next().wait()

    async def delete(self) -> None:
        """Delete the sink with everything that belongs to it."""
        self.deleted = True
        self.gone.set()
        await self.settled_in()
        await self.close()
        self._services.quota.give(sum(log.size for log in self.logs))
        self.tier.clear()
        self.staging.clear()
        self.changed.fire()
        await self._services.committer.write([DropSink(self.record.id)])
        self.tier.offsets.give_slots()
        for subscription in self.subscriptions.values():
            subscription.forget_marks()
        whole = [Due(self.record.id, WHOLE_SINK, bulk, 0, 0, 0) for bulk in (True, False)]
        self._services.reclaimer.add(whole)
        self._services.pages.holds.forget(self.record.id, range(len(self.logs)))

    async def close(self) -> None:
        """End the sink's tasks; its state is kept."""
        for subscription in self.subscriptions.values():
            subscription.close()
        self._drop_log.flush()
        await self._trimming.stop()
        await self.staging.close()

    # -- append

    async def append(
        self,
        page: Incoming,
        slot_at: Callable[[int], PutSlot] | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> Append:
        """Admit a checked page and queue it. The result's ``done`` is set when it is durable.

        ``slot_at`` returns the writer's slot for the page, given the first offset. ``check`` raises if the append is
        obsolete after it had to wait.
        """
        self._refuse_dead_letters()
        async with self.admission:
            await self._admit([page])
            check()
            return self._queue(page, slot_at)

    async def append_with(self, page: Incoming, companion: Companion, check: Callable[[], None]) -> Append:
        """Admit a page of the broker and queue it with its companion writes, after a last ``check``."""
        async with self.admission:
            await self._admit([page])
            check()
            return self._queue(page, None, companion)

    async def append_all(self, pages: Sequence[Incoming]) -> list[Append]:
        """Admit checked pages together, all or none, and queue them in their order."""
        self._refuse_dead_letters()
        async with self.admission:
            await self._admit(pages)
            return [self._queue(page, None) for page in pages]

    def _refuse_dead_letters(self) -> None:
        if is_dead_letter_sink(self.name):
            raise BrokerError(
                Reason.INVALID_SINK_NAME,
                f"{self.name!r} holds dead letters: only the broker writes to it",
                field="sink",
            )

    async def _admit(self, pages: Sequence[Incoming]) -> None:
        """Return when pages may be queued without a wait: there is room, and their offsets are reserved.

        Settings may change while an append waits: one that began in a sink with ``fsync`` may end in one without.
        """
        needed: dict[int, int] = {}
        for page in pages:
            needed[page.partition] = needed.get(page.partition, 0) + page.record_count
        while True:
            for partition, records in needed.items():
                await self.tier.offsets.reserve(partition, records)
            await self._make_room(sum(needed.values()), sum(len(page.body) for page in pages))
            self.check_alive()
            if all(self.tier.offsets.covers(partition, records) for partition, records in needed.items()):
                return

    def check_alive(self) -> None:
        """Raise ``SinkNotFound`` if the sink was deleted: nothing is queued for it any more."""
        if self.deleted:
            raise SinkNotFound(self.name)

    async def _make_room(self, records: int, size: int) -> None:
        self.tier.yield_to(size)
        while True:
            if self.deleted:
                raise SinkNotFound(self.name)
            self.tier.admit(size)
            if max(self.over(records, size)) <= 0 or not await self._free(records, size):
                self._services.quota.admit(size)  # after the sink's own drops, which free room in it too
                return

    def over(self, records: int, size: int) -> tuple[int, int]:
        """Return the records and bytes above the limits after an append; see ``limits.excess``."""
        return excess(self.settings, self.logs, records, size, self.staging.usage)

    async def make_room_for_staged(self, records: int, size: int) -> None:
        """Drop pages for staged records that become live; the staged ones are counted already."""
        if self.settings.overflow == Overflow.DROP_OLDEST:
            while max(self.over(records, size)) > 0 and await self._free(records, size):
                if self.deleted:
                    raise SinkNotFound(self.name)
                if self._services.committer.fenced is not None:
                    raise self._services.committer.fenced

    async def give_back_settled(self, records: int, size: int) -> bool:
        """Remove pages that every subscription has settled; True if retained pages were among them.

        Called with the admission held.
        """
        for log in self.logs:
            await self.trim(log, mending=False)
        return self.retaining.active and await self.retaining.make_room(records, size)

    async def _free(self, records: int, size: int) -> bool:
        """Free room for an append that does not fit; False if the append may be admitted as it is."""
        if await self.give_back_settled(records, size):  # no loss, so it goes before anything is dropped or refused
            return True
        may_drop = self.settings.overflow == Overflow.DROP_OLDEST
        in_flight = [frozenset(self.in_flight(log.number)) for log in self.logs] if may_drop else []
        decision = admit(self.name, self.settings, self.logs, in_flight, records, size, self.staging.usage)
        if isinstance(decision, Wait):
            if decision.load is None:
                await self._services.committer.committed.next().wait()
            else:
                await self._services.pages.load_more(self.record.id, self.logs[decision.load])
            return True
        for log in self.logs:
            entries = [drop.entry for drop in decision if drop.partition == log.number]
            if entries:
                self.drop(log.number, entries, DropReason.OVERFLOW)
        return bool(decision)

    def in_flight(self, partition: int) -> set[int]:
        """Base offsets of the pages in flight."""
        found: set[int] = set()
        for subscription in self.subscriptions.values():
            found |= subscription.bases_in_flight(partition)
        return found

    def _queue(
        self, page: Incoming, slot_at: Callable[[int], PutSlot] | None, companion: Companion | None = None
    ) -> Append:
        log = self.logs[page.partition]
        # A page with companion writes is written in one batch with them, in every mode, and synced.
        to_memory = companion is None and self.tier.takes(log, page.record_count)
        first = log.reserve(page.record_count, len(page.body))
        self._services.quota.take(len(page.body))
        append = Append(
            page=page,
            first=first,
            accepted_at_us=log.accept_time(self._services.clock.wall_us()),
            age_us=self._services.age.now_us(),
            slot=slot_at(first) if slot_at is not None else None,
            page_records=self.settings.buffer_page_size,
            done=Durable(),
            companion=companion,
            fsync=self.settings.fsync or companion is not None,
        )
        if to_memory:
            self.committed(page.partition, [self.tier.hold(log, append)])
            return append
        self.tier.sent_to_disk(log)
        self._services.committer.append(self._lineups[page.partition], append)
        return append

    def _lineup(self, log: PartitionLog) -> Lineup:
        return Lineup(self.record.id, log, self.committed, beside=lambda: self.tier.beside(log))

    def committed(self, partition: int, entries: list[Entry], *, beside: tuple[int, int] = (0, 0)) -> None:
        """Notify readers of pages that became records of a partition.

        ``beside``: records and bytes of a large commit that have no entry in memory.
        """
        self._services.instruments.ingested(self.name, partition, entries, self.age_now_us(), beside=beside)
        for subscription in self.subscriptions.values():
            subscription.wake(partition, new_page=True)
        self.changed.fire()

    def read_hold(self, partition: int) -> ReadHold | None:
        """Return why reads of a partition fail now; None while they work."""
        return self._services.pages.holds.at(self.record.id, partition)

    def sweep(self) -> None:
        """End expired leases of pulling consumers and sets, and check retained pages."""
        for subscription in self.subscriptions.values():
            subscription.pullers.sweep()
            subscription.leasing.sweep()
        self._drop_log.sweep()
        while self._trim_again:
            self.trim_now(self._trim_again.pop())
        self.retaining.sweep()
        self.staging.sweep()

    # -- removals

    def drop(self, partition: int, entries: list[Entry], reason: DropReason, *, at_us: int | None = None) -> None:
        """Drop confirmed pages: counters, gaps, cursors and index in one batch.

        ``at_us`` is the time at which the drop was decided, if not now: purged neighbours of one time form one gap.
        """
        if self.deleted:
            return
        log = self.logs[partition]
        now = self._services.clock.monotonic()
        at_us = self._services.clock.wall_us() if at_us is None else at_us
        gaps = log.remove(entries, reason=reason, at_us=at_us)
        gone, made = log.merge_gaps()
        writes: list[Write] = [PutGap(self.record.id, partition, gap) for gap in gaps]
        writes += [DropGap(self.record.id, partition, gap.first) for gap in gone]
        writes += [PutGap(self.record.id, partition, gap) for gap in made]
        dropped = union([Range(entry.base, entry.end) for entry in entries])
        for subscription in self.subscriptions.values():
            subscription.drop(partition, dropped, now)
            writes.append(subscription.cursor_write(partition))
        self._drops[partition] = self._remove(partition, entries, writes, keep=reason is DropReason.CORRUPT)
        ranges = [Range(entry.base, entry.end) for entry in entries]
        self.told_when_durable(partition, reason, ranges, self._drops[partition])
        for subscription in self.subscriptions.values():
            subscription.wake(partition)
        first = log.first_entry()
        if first is None or first.end <= self.settled(log):  # settled pages behind these are at the front now
            self.trim_soon(partition)
        self.changed.fire()

    def told_when_durable(
        self, partition: int, reason: DropReason, dropped: Sequence[Range], synced: asyncio.Future[None]
    ) -> None:
        """Report a drop to the log and the instruments once no crash can undo it."""

        def tell(done: asyncio.Future[None]) -> None:
            if done.exception() is None:
                records = sum(part.size for part in dropped)
                self._services.instruments.dropped(self.name, partition, reason, records)
                self._drop_log.dropped(partition, reason, records, dropped[0].first, dropped[-1].end)

        synced.add_done_callback(tell)

    async def confirmed(self) -> None:
        """Return when every decision so far is durable, so that it may be reported. Raises ``StoreFenced``."""
        waiting = [drop for drop in self._drops.values() if not drop.done()]
        waiting += [saved for subscription in self.subscriptions.values() for saved in subscription.unsaved()]
        if waiting:
            await asyncio.wait(waiting)
            for done in waiting:
                done.result()

    async def mend(self, log: PartitionLog) -> None:
        """Repair the index at an offset that is neither in a page nor in a gap: lost records become a gap."""
        seen = log.mended
        async with self.admission:
            if seen == log.mended and not self.deleted:
                await mend(self, log, self._services)

    def mended(self, partition: int, written: asyncio.Future[None], records: int) -> None:
        """Apply a repair that lost ``records`` records: its gap notices are sent after ``written``."""
        self._drops[partition] = written
        if records:
            self._services.instruments.dropped(self.name, partition, DropReason.CORRUPT, records)
        for subscription in self.subscriptions.values():
            subscription.wake(partition)
        self.trim_soon(partition)
        self.changed.fire()

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

    def _remove(
        self, partition: int, entries: list[Entry], writes: list[Write], *, keep: bool = False
    ) -> asyncio.Future[None]:
        sink = self.record.id
        stored = [entry for entry in entries if self.tier.is_stored(entry)]
        self.tier.forget(entries)
        self._services.quota.give(sum(entry.size for entry in entries))
        if not stored and not writes:  # none of it was ever written
            synced: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            synced.set_result(None)
            return synced
        entries = stored
        writes += [DropEntry(sink, partition, entry.base) for entry in entries]
        writes.append(PutHead(sink, partition, self.logs[partition].head))
        writes += self.tier.beside_head(self.logs[partition])
        due: list[Due] = []
        if keep:
            kept, due = self._services.quarantine.keep(sink, partition, entries)
            writes += kept
        else:
            due = due_runs(sink, partition, entries)
            writes += [PutDue(item) for item in due]
        for entry in entries:
            self._services.pages.tail.drop(entry.number)
        self._services.pages.holds.worked(sink, partition, [entry.number for entry in entries])
        synced = self._services.committer.write(writes)
        synced.add_done_callback(lambda done: None if done.exception() else self._services.reclaimer.add(due))
        return synced

    def trim_soon(self, partition: int) -> None:
        """Trim after a watermark has moved, unless settled pages are retained: then the sweep trims."""
        if not self.retaining.active:
            self.trim_now(partition)

    def trim_now(self, partition: int) -> None:
        """Schedule the trim of a partition."""
        self._trim_due.add(partition)
        self._trim_event.set()

    def settled(self, log: PartitionLog) -> int:
        """Return the offset below which every subscription has settled a partition."""
        return min(s.lanes[log.number].cursor.watermark for s in self.subscriptions.values())

    def is_settled(self, partition: int, entry: Entry) -> bool:
        """Return whether every subscription has settled all records of a page."""
        within = Range(entry.base, entry.end)
        cursors = (subscription.lanes[partition].cursor for subscription in self.subscriptions.values())
        return all(next(cursor.unsettled(within), None) is None for cursor in cursors)

    async def _trim_forever(self) -> None:
        while True:
            await self._trim_event.wait()
            self._trim_event.clear()
            await self._look_at_retained()
            while self._trim_due:
                log = self.logs[self._trim_due.pop()]
                self._trim_again.add(log.number)  # also after an unexpected failure
                try:
                    await self.trim(log)
                    self._trim_again.discard(log.number)
                except ReadFailed:
                    continue  # the failing reads are tracked; see ``ReadHolds``
                except StoreFenced as damage:  # perhaps of this partition's index: the others continue
                    self._trim_again.discard(log.number)
                    _log.error("pages were not trimmed sink=%s partition=%d cause=%s", self.name, log.number, damage)

    async def _look_at_retained(self) -> None:
        try:
            await self.retaining.look()
        except (ReadFailed, StoreFenced) as damage:
            _log.error("retained pages were not counted sink=%s cause=%s", self.name, damage)

    async def trim(self, log: PartitionLog, *, mending: bool = True) -> None:
        """Remove the first pages, as far as all subscriptions have settled them.

        ``mending`` waits for the admission: a caller that holds it passes False, and a hole in the index is repaired
        later.
        """
        while log.pages:
            await self._services.pages.load_oldest(self.record.id, log)
            if log.hole_at(log.head.earliest, log.first_entries()):
                if not mending:
                    self.trim_now(log.number)
                    return
                await self.mend(log)
                if log.hole_at(log.head.earliest, log.first_entries()):
                    return
                continue
            entries = settled_front(log.first_entries(), self.retaining.released(log, self.settled(log)))
            if not entries:
                return
            self.take_out(log, entries)
            await asyncio.sleep(0)  # yield during a long trim

    def take_out(self, log: PartitionLog, entries: list[Entry]) -> None:
        """Remove settled pages from the front of a partition."""
        log.remove(entries, reason=None, at_us=0)
        self._remove(log.number, entries, [])
