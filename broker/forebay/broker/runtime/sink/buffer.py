"""Buffer: one running sink with its partitions, subscriptions and writers.

All state is changed on the loop. The core decides; this module passes data to it and its writes to the committer, and
wakes waiting tasks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from forebay.broker.core.dead_letters.letters import RecordCodec
from forebay.broker.core.partition.log import PartitionLog
from forebay.broker.core.partition.pages import Entry
from forebay.broker.core.settings import SinkSettings
from forebay.broker.core.writes import (
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
from forebay.broker.runtime.read.readers import Reader, Readers
from forebay.broker.runtime.read.replay import Replay
from forebay.broker.runtime.resources.memory import MemoryGuard
from forebay.broker.runtime.resources.quota import Quota
from forebay.broker.runtime.resources.stream_memory import Share
from forebay.broker.runtime.resources.supervision import Supervisor
from forebay.broker.runtime.sink.admission import Admission
from forebay.broker.runtime.sink.appends import Appends
from forebay.broker.runtime.sink.control import SinkControl
from forebay.broker.runtime.sink.fronts import Fronts
from forebay.broker.runtime.sink.memory_tier import MemoryTier
from forebay.broker.runtime.sink.recovery import Found
from forebay.broker.runtime.sink.retention.removal import Removal
from forebay.broker.runtime.sink.retention.retention import Retention
from forebay.broker.runtime.sink.schemas import Schemas
from forebay.broker.runtime.sink.shutdown import Shutdown
from forebay.broker.runtime.sink.state import Sink


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
        own_restored_at_us = restored_at_us if record.created_at_us <= restored_at_us else 0
        self.state = state = Sink(record, logs, clock, age)
        self._pages = pages
        pages.read_cache.limit(record.id, record.settings.realtime_bytes)
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
            instruments=instruments,
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
            restored_at_us=own_restored_at_us,
        )
        self.fronts = Fronts(pages, record.id)
        self.readers = Readers(clock.monotonic)
        self.schemas = Schemas(state, committer, found.schemas, restored_at_us=own_restored_at_us)
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
        control = SinkControl(
            state,
            self.subscriptions,
            self.offsets,
            self.removal,
            self.appends,
            committer=committer,
            pages=pages,
        )
        self.stop, self.resume, self.change = control.pause, control.resume, control.change
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
                pause=control.pause,
            ),
        )
        self.subscribing.restore(found.cursors, found.totals)
        self.purges = asyncio.Lock()
        """Held by the purge that drops pages; another one waits for it."""
        shutdown = Shutdown(
            state,
            self.subscriptions,
            self.offsets,
            self.tier,
            self.removal,
            supervisor.keep_running(f"trim of {record.name}", self.removal.run),
            self.staging,
            committer=committer,
            reclaimer=reclaimer,
            pages=pages,
            quota=quota,
        )
        self.settled_in, self.delete = shutdown.settled_in, shutdown.delete
        self.close, self.close_memory = shutdown.close, shutdown.close_memory

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

    def replay(
        self, partition: int, memory: Share | None = None, *, ahead: bool = False, reader: Reader | None = None
    ) -> Replay:
        """Return a replay of a partition; see ``Replay``."""
        return Replay(self.state, partition, self._pages, self.removal, memory, ahead=ahead, reader=reader)

    def read_hold(self, partition: int) -> ReadHold | None:
        """Return why reads of a partition fail now; None while they work."""
        return self._pages.holds.at(self.state.id, partition)

    @property
    def serves_from_memory(self) -> bool:
        """True if memory keeps new pages, for readers at the head."""
        return self._pages.read_cache.serves(self.state.id)

    @property
    def tail_bytes(self) -> int:
        """Memory of the newest pages."""
        return self._pages.read_cache.size_of(self.state.id)

    def is_in_memory(self, log: PartitionLog, entry: Entry) -> bool:
        """Return whether memory holds a page."""
        return entry.base in log.held or self._pages.read_cache.has(self.state.id, entry.number)

    def sweep(self) -> None:
        """End expired leases of pulling consumers and sets, and check retained pages."""
        for subscription in self.subscriptions.values():
            subscription.pullers.sweep()
            subscription.leasing.sweep()
        self.removal.sweep()
        self.staging.sweep()
