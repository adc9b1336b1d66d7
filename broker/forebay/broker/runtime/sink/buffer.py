"""Buffer: one running sink with its partitions, subscriptions and writers.

All state is changed on the loop. The core decides; this module passes data to it and its writes to the committer, and
wakes waiting tasks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from forebay.broker.core.dead_letters.letters import RecordCodec
from forebay.broker.core.delivery.lane import Lane
from forebay.broker.core.partition.cursor import Cursor
from forebay.broker.core.partition.log import PartitionLog
from forebay.broker.core.partition.pages import Entry
from forebay.broker.core.settings import BufferMode, SinkSettings
from forebay.broker.core.writes import (
    WHOLE_SINK,
    DropSink,
    Due,
    PutSink,
    SinkRecord,
)
from forebay.broker.runtime.clock import AgeClock, Clock
from forebay.broker.runtime.commit.accepted import Slots
from forebay.broker.runtime.commit.committer import Committer
from forebay.broker.runtime.commit.reclaimer import Reclaimer
from forebay.broker.runtime.commit.reservations import Reservations
from forebay.broker.runtime.dead_letters.batch import Target
from forebay.broker.runtime.delivery.marks import DeliveryMarks
from forebay.broker.runtime.delivery.subscription import Subscription
from forebay.broker.runtime.delivery.subscriptions import Subscriptions
from forebay.broker.runtime.epochs.staging import Staging
from forebay.broker.runtime.instruments import Instruments
from forebay.broker.runtime.read.pages import Pages
from forebay.broker.runtime.read.quarantine import Quarantine
from forebay.broker.runtime.read.read_holds import ReadHold
from forebay.broker.runtime.read.replay import Replay
from forebay.broker.runtime.resources.memory import MemoryGuard
from forebay.broker.runtime.resources.quota import Quota
from forebay.broker.runtime.resources.stream_memory import Share
from forebay.broker.runtime.resources.supervision import Supervisor
from forebay.broker.runtime.sink.admission import Admission
from forebay.broker.runtime.sink.appends import Appends
from forebay.broker.runtime.sink.fronts import Fronts
from forebay.broker.runtime.sink.memory_tier import MemoryTier
from forebay.broker.runtime.sink.recovery import Found
from forebay.broker.runtime.sink.retention.removal import Removal
from forebay.broker.runtime.sink.retention.retention import Retention
from forebay.broker.runtime.sink.schemas import Schemas
from forebay.broker.runtime.sink.state import Sink

_log: Final = logging.getLogger(__name__)


class Buffer:
    """One running sink: it builds its parts, and passes each what it needs."""

    def __init__(
        self,
        record: SinkRecord,
        logs: Sequence[PartitionLog],
        found: Found,
        *,
        clock: Clock,
        age: AgeClock,
        committer: Committer,
        reclaimer: Reclaimer,
        pages: Pages,
        instruments: Instruments,
        start_count: int,
        quota: Quota,
        memory: MemoryGuard,
        codec: RecordCodec,
        dead_letter_sink: Callable[[Sink], Target],
        quarantine: Quarantine,
        slots: Slots,
        marks: DeliveryMarks,
        supervisor: Supervisor,
        owner_epochs: Iterator[int],
        restored_at_us: int = 0,
    ) -> None:
        """``owner_epochs`` are those of all sinks.

        None is reused, not even by a recreated sink or subscription. ``restored_at_us`` is the time at which the store
        was restored from a backup, 0 if it was not.
        """
        self.state = state = Sink(record, logs, clock, age)
        self._committer, self._reclaimer, self._pages = committer, reclaimer, pages
        pages.tail.limit(record.id, record.settings.realtime_bytes)
        self._quota = quota
        quota.add(sum(log.size for log in state.logs))
        self.subscriptions: dict[str, Subscription] = {}
        self.offsets = Reservations(state, committer, slots, found.reserves)
        self.tier = MemoryTier(state, self.offsets, committer=committer, pages=pages, memory=memory)
        self.retaining = Retention(state, committer, pages, found.marks)
        self.removal = Removal(
            state,
            self.subscriptions,
            self.tier,
            self.retaining,
            committer=committer,
            reclaimer=reclaimer,
            pages=pages,
            quarantine=quarantine,
            quota=quota,
            instruments=instruments,
        )
        self.admission = Admission(
            state,
            self.offsets,
            self.tier,
            self.removal,
            self.retaining,
            committer=committer,
            pages=pages,
            memory=memory,
            quota=quota,
        )
        self.staging = Staging(
            state,
            self.admission,
            *found.epochs,
            committer=committer,
            reclaimer=reclaimer,
            pages=pages,
            quota=quota,
            start_count=start_count,
            restored_at_us=restored_at_us if record.created_at_us <= restored_at_us else 0,
        )
        self.fronts = Fronts(pages, record.id)
        self.schemas = Schemas(state, committer, found.schemas)
        self.appends = Appends(
            state,
            self.subscriptions,
            self.tier,
            self.admission,
            committer=committer,
            quota=quota,
            instruments=instruments,
        )
        self.append, self.append_with = self.appends.append, self.appends.append_with
        self.append_all = self.appends.append_all
        self.subscribing = Subscriptions(
            state,
            self.subscriptions,
            found.subscriptions,
            self.removal,
            committer=committer,
            pages=pages,
            instruments=instruments,
            make=partial(
                Subscription,
                sink=state,
                tier=self.tier,
                removal=self.removal,
                schemas=self.schemas,
                committer=committer,
                pages=pages,
                instruments=instruments,
                marks=marks,
                owner_epochs=owner_epochs,
                supervisor=supervisor,
                codec=codec,
                dead_letter_sink=dead_letter_sink,
                pause=self.stop,
            ),
        )
        self.subscribing.restore(found.cursors, found.totals)
        self.purges = asyncio.Lock()
        """Held by the purge that drops pages; another one waits for it."""
        self._trimming = supervisor.keep_running(f"trim of {record.name}", self.removal.run)

    @property
    def record(self) -> SinkRecord:
        return self.state.record

    @property
    def name(self) -> str:
        return self.state.record.name

    @property
    def settings(self) -> SinkSettings:
        return self.state.record.settings

    @property
    def logs(self) -> list[PartitionLog]:
        return self.state.logs

    def subscription(self, name: str, incarnation: str = "") -> Subscription:
        """See ``Subscriptions.get``."""
        return self.subscribing.get(name, incarnation)

    def replay(self, partition: int, memory: Share | None = None, *, ahead: bool = False) -> Replay:
        """Return a replay of a partition; see ``Replay``."""
        return Replay(self.state, partition, self._pages, self.removal, memory, ahead=ahead)

    def read_hold(self, partition: int) -> ReadHold | None:
        """Return why reads of a partition fail now; None while they work."""
        return self._pages.holds.at(self.state.id, partition)

    @property
    def serves_from_memory(self) -> bool:
        """True if memory keeps new pages, for readers at the head."""
        return self._pages.tail.serves(self.state.id)

    @property
    def tail_bytes(self) -> int:
        """Memory of the newest pages."""
        return self._pages.tail.size_of(self.state.id)

    def is_in_memory(self, log: PartitionLog, entry: Entry) -> bool:
        """Return whether memory holds a page."""
        return entry.base in log.held or self._pages.tail.has(self.state.id, entry.number)

    # -- settings and life

    def stop(self, reason: str) -> asyncio.Future[None]:
        """Pause deliveries, durably; appends continue."""
        self.state.record = replace(self.record, paused=reason)
        for subscription in self.subscriptions.values():
            subscription.pause(reason)
        _log.warning("sink was paused sink=%s reason=%s", self.name, reason)
        return self._committer.write([PutSink(self.record)])

    def resume(self) -> asyncio.Future[None]:
        """Resume deliveries where they were."""
        self.state.record = replace(self.record, paused=None)
        for subscription in self.subscriptions.values():
            subscription.resume()
        return self._committer.write([PutSink(self.record)])

    def change(self, settings: SinkSettings) -> asyncio.Future[None]:
        """Apply new settings from now on. Additional partitions are added."""
        forgets = self.settings.forgets
        self.state.record = replace(self.record, settings=settings)
        self._pages.tail.limit(self.state.id, settings.realtime_bytes)
        self._grow(settings.partitions)
        for subscription in self.subscriptions.values():
            subscription.change(settings)
        for log in self.logs:
            self.removal.trim_now(log.number)
        put = [PutSink(self.record)]
        if forgets and not settings.forgets:
            return self.offsets.end(put)
        return self._committer.write(put)

    def _grow(self, partitions: int) -> None:
        """Add partitions. Their pages are written no earlier than the record that adds them."""
        numbers = range(len(self.logs), partitions)
        if not numbers:
            return
        logs = [PartitionLog(number) for number in numbers]
        self.state.add_logs(logs)
        self.appends.grow(logs)
        for subscription in self.subscriptions.values():
            lanes = [Lane(Cursor(), self.settings) for _ in numbers]
            if self.record.paused is not None:
                for lane in lanes:
                    lane.pause(self.record.paused)
            subscription.grow(lanes)

    async def settled_in(self) -> None:
        """Return when no page of the sink waits for its batch."""
        while self._committer.fenced is None:
            under_way = self.staging.waiting or self.staging.committing
            if not under_way and not any(log.queued_bytes for log in self.logs):
                return
            await self._committer.committed.next().wait()

    async def delete(self) -> None:
        """Delete the sink with everything that belongs to it."""
        self.state.end()
        await self.settled_in()
        await self.close()
        self._quota.remove(sum(log.size for log in self.logs))
        self.tier.clear()
        self.staging.clear()
        self.state.changed.fire()
        await self._committer.write([DropSink(self.state.id)])
        self.offsets.free_slots()
        for subscription in self.subscriptions.values():
            subscription.accounts.forget_marks()
        whole = [Due(self.state.id, WHOLE_SINK, bulk, 0, 0, 0) for bulk in (True, False)]
        self._reclaimer.add(whole)
        self._pages.holds.forget(self.state.id, range(len(self.logs)))
        self._pages.tail.forget(self.state.id)

    def sweep(self) -> None:
        """End expired leases of pulling consumers and sets, and check retained pages."""
        for subscription in self.subscriptions.values():
            subscription.pullers.sweep()
            subscription.leasing.sweep()
        self.removal.sweep()
        self.staging.sweep()

    async def close(self) -> None:
        """End the sink's tasks; its state is kept."""
        for subscription in self.subscriptions.values():
            subscription.close()
        self.removal.close()
        await self._trimming.stop()
        await self.staging.close()

    async def close_memory(self) -> None:
        """Spill what is only in memory at a clean stop, or drop and count it in a sink that never writes."""
        if self.settings.buffer_mode == BufferMode.MEMORY:
            self.removal.drop_from_memory()
        await self.tier.close()
