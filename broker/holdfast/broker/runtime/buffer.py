"""One sink while it runs: its partitions, subscriptions and writers, and what moves between them.

All state is changed on the loop. Decisions are the core's; this module gives them data, passes their writes to the
committer and wakes who waits.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from holdfast.broker.core.cursor import Cursor
from holdfast.broker.core.dead_letters import RecordCodec, is_dead_letter_sink
from holdfast.broker.core.errors import InvalidName, SinkNotFound, StoreFenced, SubscriptionNotFound
from holdfast.broker.core.lane import Lane
from holdfast.broker.core.limits import Wait, admit
from holdfast.broker.core.log import PartitionLog
from holdfast.broker.core.pages import DropReason, Entry, Incoming
from holdfast.broker.core.ranges import Range
from holdfast.broker.core.settings import SinkSettings
from holdfast.broker.core.writes import (
    WHOLE_SINK,
    DropEntry,
    DropGap,
    DropSink,
    Due,
    PutDue,
    PutGap,
    PutHead,
    PutQuarantine,
    PutSink,
    PutSlot,
    SinkRecord,
    Write,
)
from holdfast.broker.runtime.clock import AgeClock, Clock
from holdfast.broker.runtime.committer import Committer
from holdfast.broker.runtime.group import Append, Companion, Lineup
from holdfast.broker.runtime.instruments import Instruments
from holdfast.broker.runtime.pages import Pages
from holdfast.broker.runtime.pulse import Pulse
from holdfast.broker.runtime.reclaimer import Reclaimer
from holdfast.broker.runtime.subscription import Subscription

_log: Final = logging.getLogger(__name__)
DEFAULT_SUBSCRIPTION: Final = "default"


@dataclass(frozen=True, slots=True)
class Services:
    """What all buffers of one broker share."""

    clock: Clock
    age: AgeClock
    committer: Committer
    reclaimer: Reclaimer
    pages: Pages
    instruments: Instruments
    start_count: int
    records: RecordCodec
    dead_letter_sink: Callable[[Buffer], Buffer]
    """The dead-letter sink of a sink, made if need be: in the batch of whatever is appended to it next."""


class Buffer:
    """The running state of one sink."""

    def __init__(
        self,
        record: SinkRecord,
        logs: Sequence[PartitionLog],
        cursors: dict[tuple[str, int], Cursor],
        services: Services,
    ) -> None:
        self.record = record
        self.logs = list(logs)
        self._services = services
        self.deleted = False
        self.gone = asyncio.Event()
        """Set when the sink is deleted."""
        self.created: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the sink's creation is durable."""
        self.created.set_result(None)
        self.changed = Pulse()
        """Fires when pages come or go."""
        self._admission = asyncio.Lock()
        """Held by the append that waits for room to be made; others wait behind it, so that nobody overtakes."""
        self._lineups = [Lineup(record.id, log, self._committed) for log in self.logs]
        self.subscriptions: dict[str, Subscription] = {}
        names = {DEFAULT_SUBSCRIPTION, *(name for name, _ in cursors)}
        for name in sorted(names):
            lanes = [Lane(cursors.get((name, log.number), Cursor()), record.settings) for log in self.logs]
            self.subscriptions[name] = Subscription(name, self, lanes, services)
        if record.paused is not None:
            for subscription in self.subscriptions.values():
                subscription.pause(record.paused)
        self._drops: dict[int, asyncio.Future[None]] = {}
        """The last drop of each partition: done when it is durable, and all before it with it."""
        self._trim_event = asyncio.Event()
        self._trim_due: set[int] = {log.number for log in self.logs}
        self._tasks = [
            asyncio.get_running_loop().create_task(self._trim_forever(), name=f"holdfast-trim-{record.name}")
        ]
        self._trim_event.set()

    @property
    def name(self) -> str:
        return self.record.name

    def age_now_us(self) -> int:
        """The broker's own clock."""
        return self._services.age.now_us()

    def wall_now_us(self) -> int:
        """The wall clock."""
        return self._services.clock.wall_us()

    @property
    def settings(self) -> SinkSettings:
        return self.record.settings

    def subscription(self, name: str) -> Subscription:
        """The subscription of that name; an empty name is `default`."""
        found = self.subscriptions.get(name or DEFAULT_SUBSCRIPTION)
        if found is None:
            raise SubscriptionNotFound(self.name, name)
        return found

    # -- settings and state

    def stop(self, reason: str) -> asyncio.Future[None]:
        """Stop deliveries, durably; appends go on."""
        self.record = replace(self.record, paused=reason)
        for subscription in self.subscriptions.values():
            subscription.pause(reason)
        _log.warning("sink was paused sink=%s reason=%s", self.name, reason)
        return self._services.committer.write([PutSink(self.record)])

    def resume(self) -> asyncio.Future[None]:
        """Let deliveries go on where they were."""
        self.record = replace(self.record, paused=None)
        for subscription in self.subscriptions.values():
            subscription.resume()
        return self._services.committer.write([PutSink(self.record)])

    def change(self, settings: SinkSettings) -> asyncio.Future[None]:
        """Take new settings; they hold from now on."""
        self.record = replace(self.record, settings=settings)
        for subscription in self.subscriptions.values():
            for lane in subscription.lanes:
                lane.settings = lane.resend.settings = settings
        return self._services.committer.write([PutSink(self.record)])

    @property
    def pending(self) -> int:
        """Unsettled records of the subscription that has most of them."""
        return max(
            sum(lane.cursor.pending(log.tail.next_offset) for lane, log in zip(s.lanes, self.logs, strict=True))
            for s in self.subscriptions.values()
        )

    async def settled_in(self) -> None:
        """Return when nothing of the sink waits for its batch."""
        while any(log.queued_bytes for log in self.logs) and self._services.committer.fenced is None:
            await self._services.committer.committed.next().wait()

    async def delete(self) -> None:
        """Delete the sink with all that it holds."""
        self.deleted = True
        self.gone.set()
        await self.settled_in()
        await self.close()
        self.changed.fire()
        await self._services.committer.write([DropSink(self.record.id)])
        whole = [Due(self.record.id, WHOLE_SINK, bulk, 0, 0, 0) for bulk in (True, False)]
        self._services.reclaimer.add(whole)

    async def close(self) -> None:
        """End the sink's tasks; its state stays as it is."""
        for subscription in self.subscriptions.values():
            subscription.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # -- append

    async def append(
        self,
        page: Incoming,
        slot_at: Callable[[int], PutSlot] | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> Append:
        """Admit a checked page and queue it. The result's ``done`` is set when it is durable.

        ``slot_at`` makes what the writer is remembered by, given the first offset. ``check`` raises when the
        append is no longer wanted after it had to wait.
        """
        self._refuse_dead_letters()
        async with self._admission:
            await self._make_room(page.record_count, len(page.body))
            check()
            return self._queue(page, slot_at)

    async def append_with(self, page: Incoming, companion: Companion, check: Callable[[], None]) -> Append:
        """Admit a page of ours and queue it together with what belongs to it, after a last ``check``."""
        async with self._admission:
            await self._make_room(page.record_count, len(page.body))
            check()
            return self._queue(page, None, companion)

    async def append_all(self, pages: Sequence[Incoming]) -> list[Append]:
        """Admit checked pages together, all or none, and queue them in their order."""
        self._refuse_dead_letters()
        async with self._admission:
            await self._make_room(sum(page.record_count for page in pages), sum(len(page.body) for page in pages))
            return [self._queue(page, None) for page in pages]

    def _refuse_dead_letters(self) -> None:
        if is_dead_letter_sink(self.name):
            raise InvalidName(f"{self.name!r} holds dead letters: only the broker writes to it", field="sink")

    async def _make_room(self, records: int, size: int) -> None:
        while True:
            if self.deleted:
                raise SinkNotFound(self.name)
            self._services.committer.admit(size)
            in_flight = [frozenset(self._in_flight(log.number)) for log in self.logs] if self._may_drop else []
            decision = admit(self.name, self.settings, self.logs, in_flight, records, size)
            if isinstance(decision, Wait):
                if decision.load is None:
                    await self._services.committer.committed.next().wait()
                else:
                    await self._services.pages.load_more(self.record.id, self.logs[decision.load])
            elif not decision:
                return
            else:
                for log in self.logs:
                    entries = [drop.entry for drop in decision if drop.partition == log.number]
                    if entries:
                        self.drop(log.number, entries, DropReason.OVERFLOW)

    @property
    def _may_drop(self) -> bool:
        return self.settings.overflow == 1

    def _in_flight(self, partition: int) -> set[int]:
        found: set[int] = set()
        for subscription in self.subscriptions.values():
            found |= subscription.bases_in_flight(partition)
        return found

    def _queue(
        self, page: Incoming, slot_at: Callable[[int], PutSlot] | None, companion: Companion | None = None
    ) -> Append:
        log = self.logs[page.partition]
        first = log.reserve(page.record_count, len(page.body))
        append = Append(
            page=page,
            first=first,
            accepted_at_us=log.accept_time(self._services.clock.wall_us()),
            age_us=self._services.age.now_us(),
            slot=slot_at(first) if slot_at is not None else None,
            page_records=self.settings.buffer_page_size,
            done=asyncio.get_running_loop().create_future(),
            companion=companion,
        )
        self._services.committer.append(self._lineups[page.partition], append)
        return append

    def _committed(self, partition: int, entries: list[Entry]) -> None:
        self._services.instruments.ingested(self.name, partition, entries, self.age_now_us())
        for subscription in self.subscriptions.values():
            subscription.wake(partition, new_page=True)
        self.changed.fire()

    def sweep(self) -> None:
        """End pulling consumers whose lease has run out."""
        for subscription in self.subscriptions.values():
            subscription.pullers.sweep()

    # -- removals

    def drop(self, partition: int, entries: list[Entry], reason: DropReason) -> None:
        """Drop confirmed pages: counters, gaps, cursors and index in one batch."""
        if self.deleted:
            return
        log = self.logs[partition]
        now, at_us = self._services.clock.monotonic(), self._services.clock.wall_us()
        gaps = log.remove(entries, reason=reason, at_us=at_us)
        gone, made = log.merge_gaps()
        writes: list[Write] = [PutGap(self.record.id, partition, gap) for gap in gaps]
        writes += [DropGap(self.record.id, partition, gap.first) for gap in gone]
        writes += [PutGap(self.record.id, partition, gap) for gap in made]
        for subscription in self.subscriptions.values():
            for entry in entries:
                subscription.drop(partition, Range(entry.base, entry.end), now)
            writes.append(subscription.cursor_write(partition))
        self._services.instruments.dropped(self.name, partition, reason, sum(entry.count for entry in entries))
        _log.warning(
            "records were dropped sink=%s partition=%d reason=%s first=%d end=%d",
            *(self.name, partition, reason.name, entries[0].base, entries[-1].end),
        )
        self._drops[partition] = self._remove(partition, entries, writes, keep=reason is DropReason.CORRUPT)
        for subscription in self.subscriptions.values():
            subscription.wake(partition)
        self.changed.fire()

    def unsynced_drop(self, partition: int) -> asyncio.Future[None] | None:
        """What to wait for, without cancelling it, before a gap is told: a crash could undo it until then."""
        last = self._drops.get(partition)
        return None if last is None or (last.done() and last.exception() is None) else last

    def _remove(
        self, partition: int, entries: list[Entry], writes: list[Write], *, keep: bool = False
    ) -> asyncio.Future[None]:
        sink = self.record.id
        writes += [DropEntry(sink, partition, entry.base) for entry in entries]
        writes.append(PutHead(sink, partition, self.logs[partition].head))
        due: list[Due] = []
        if keep:
            writes += [PutQuarantine(sink, partition, entry) for entry in entries]
        else:
            due = list(_due(sink, partition, entries))
            writes += [PutDue(item) for item in due]
        for entry in entries:
            self._services.pages.tail.drop(entry.number)
        synced = self._services.committer.write(writes)
        synced.add_done_callback(lambda done: None if done.exception() else self._services.reclaimer.add(due))
        return synced

    def trim_soon(self, partition: int) -> None:
        """A watermark has moved: what is settled by all may go."""
        self._trim_due.add(partition)
        self._trim_event.set()

    async def _trim_forever(self) -> None:
        while True:
            await self._trim_event.wait()
            self._trim_event.clear()
            while self._trim_due:
                log = self.logs[self._trim_due.pop()]
                try:
                    await self._trim(log)
                except StoreFenced as damage:  # of this partition's index, perhaps: the others go on
                    _log.error("pages were not trimmed sink=%s partition=%d cause=%s", self.name, log.number, damage)

    async def _trim(self, log: PartitionLog) -> None:
        while log.pages:
            await self._services.pages.load_oldest(self.record.id, log)
            settled = min(s.lanes[log.number].cursor.watermark for s in self.subscriptions.values())
            entries: list[Entry] = []
            for entry in log.first_entries():
                if entry.end > settled:
                    break
                entries.append(entry)
            if not entries:
                return
            log.remove(entries, reason=None, at_us=0)
            self._remove(log.number, entries, [])
            await asyncio.sleep(0)  # a long trim lets others run


def _due(sink: int, partition: int, entries: Sequence[Entry]) -> list[Due]:
    """Ledger entries for pages: a run only where every number in it is theirs."""
    runs: list[Due] = []
    for entry in sorted(entries, key=lambda e: (e.bulk, e.number)):
        last = runs[-1] if runs else None
        if last is not None and last.bulk == entry.bulk and last.last + 1 == entry.number:
            runs[-1] = Due(sink, partition, last.bulk, last.first, entry.number, last.size + entry.size)
        else:
            runs.append(Due(sink, partition, entry.bulk, entry.number, entry.number, entry.size))
    return runs
