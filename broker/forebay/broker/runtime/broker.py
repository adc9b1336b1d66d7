"""Running broker: all sinks and their shared resources.

The composition root passes in a journal and the recovered state. The broker starts the commit thread, the reclaimer and
the sweeper, and stops them in the right order.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Protocol

from forebay.broker.core.dead_letters.letters import RecordCodec, dead_letter_settings, dead_letter_sink_name
from forebay.broker.core.epochs.values import StoredEpochs
from forebay.broker.core.errors import (
    BrokerError,
    Draining,
    SinkNotFound,
    StoreFenced,
    TooManySinks,
    shown,
)
from forebay.broker.core.names import checked_request_id, sink_name
from forebay.broker.core.partition.account import Totals
from forebay.broker.core.partition.cursor import Cursor
from forebay.broker.core.partition.log import Head, PartitionLog, Tail
from forebay.broker.core.partition.pages import Gap
from forebay.broker.core.partition.repair import Mended
from forebay.broker.core.partition.reservation import Held, Reserve
from forebay.broker.core.partition.retention import Marks
from forebay.broker.core.settings import SinkSettings
from forebay.broker.core.writes import (
    Due,
    PutAge,
    PutCounting,
    PutQuarantine,
    PutSink,
    PutStopped,
    SchemaRecord,
    SinkRecord,
    SubscriptionRecord,
    Write,
)
from forebay.broker.runtime.clock import MAX_CLOCK_STEP_US, AgeClock, Clock
from forebay.broker.runtime.commit.accepted import Accepted, AcceptedUnknown, Slots
from forebay.broker.runtime.commit.committer import Committer
from forebay.broker.runtime.commit.reclaimer import Reclaimer
from forebay.broker.runtime.commit.store import Journal
from forebay.broker.runtime.delivery.marks import DeliveryMarks
from forebay.broker.runtime.delivery.ownership import owner_epochs
from forebay.broker.runtime.delivery.subscription import DEFAULT_SUBSCRIPTION
from forebay.broker.runtime.epochs.commits import Epochs
from forebay.broker.runtime.epochs.sweep import EpochSweep
from forebay.broker.runtime.instruments import Instruments
from forebay.broker.runtime.publish.writers import Writers
from forebay.broker.runtime.read.pages import Pages
from forebay.broker.runtime.read.quarantine import Quarantine
from forebay.broker.runtime.read.tail import Tail as RecentPages
from forebay.broker.runtime.resources.ballast import BallastKeeper
from forebay.broker.runtime.resources.memory import MemoryGuard, Reading
from forebay.broker.runtime.resources.quota import Quota
from forebay.broker.runtime.resources.slices import Slices
from forebay.broker.runtime.resources.stopping import Stopping
from forebay.broker.runtime.resources.stream_memory import StreamMemory
from forebay.broker.runtime.resources.supervision import Supervisor, Work
from forebay.broker.runtime.sink import expiry
from forebay.broker.runtime.sink.buffer import Buffer, Services
from forebay.broker.runtime.sink.clearing import empty_at_stop
from forebay.broker.runtime.sink.expiry import Expirer
from forebay.broker.runtime.sink.recovery import Restarting
from forebay.broker.runtime.sink.statistics import lag_is_due, sink_lags
from forebay.errors.reasons import Reason

_log: Final = logging.getLogger(__name__)
PROBE_S: Final = 2.0
"""Interval between retries of failed reads that no reader requests."""
SWEEP_S: Final = 1.0


class StoredSink(Protocol):
    """Sink as a store found it."""

    @property
    def record(self) -> SinkRecord: ...
    @property
    def tails(self) -> Mapping[int, Tail]: ...
    @property
    def heads(self) -> Mapping[int, Head]: ...
    @property
    def gaps(self) -> Mapping[int, Sequence[Gap]]: ...
    @property
    def cursors(self) -> Mapping[tuple[str, int], Cursor]: ...
    @property
    def writers(self) -> Mapping[str, int]: ...
    @property
    def subscriptions(self) -> Mapping[str, SubscriptionRecord]: ...
    @property
    def totals(self) -> Mapping[tuple[str, int], Totals]: ...
    @property
    def marks(self) -> Mapping[int, Marks]: ...
    @property
    def reserves(self) -> Mapping[int, Reserve]: ...
    @property
    def held(self) -> Mapping[int, tuple[Held, ...]]: ...
    @property
    def epochs(self) -> StoredEpochs: ...
    @property
    def schemas(self) -> Mapping[int, SchemaRecord]: ...


@dataclass(frozen=True, slots=True)
class Found:
    """State that a start found in the store."""

    start_count: int
    next_sink: int
    age: PutAge
    sinks: Sequence[StoredSink]
    due: Sequence[Due]
    quarantined: Sequence[PutQuarantine] = ()
    mended: Sequence[Mended] = ()
    stopped: bool = False
    """True if the run before stopped in order."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of one broker."""

    sinks: int = 10_000
    partitions: int = 100_000
    streams: int = 4_096
    stream_bytes: int = 256 << 20
    """Memory that all open streams hold for their peers."""
    waiting_bytes: int = 256 << 20
    tail_bytes: int = 64 << 20
    record_bytes: int = 8 << 20
    disk_reserve: int = 0
    stored_bytes: int = 0
    """Bytes of pages of all sinks; 0 is unlimited."""
    session_timeout_s: float = 15.0
    """Time that a consumer has to answer a ping."""
    clock_step_us: int = MAX_CLOCK_STEP_US
    """Largest trusted step of the wall clock between two runs; a larger one does not age any page."""
    memory_high_watermark: float = 0.8
    """Fraction of the memory limit of the process above which it holds less."""


class Broker:
    """All sinks of one store. Created and used on the loop."""

    def __init__(
        self,
        journal: Journal,
        found: Found,
        clock: Clock,
        *,
        bounds: Bounds | None = None,
        sink_defaults: SinkSettings | None = None,
        instruments: Instruments | None = None,
        on_fenced: Callable[[StoreFenced], None] = lambda _: None,
        measure_memory: Callable[[], Sequence[Reading]] = list,
        on_memory: Callable[[], None] = lambda: None,
        on_deleted: Callable[[], None] = lambda: None,
        ballast: BallastKeeper | None = None,
        records: RecordCodec,
        accepted: Accepted | None = None,
        delivered: Accepted | None = None,
    ) -> None:
        """``accepted`` and ``delivered`` are the counts of such records, which survive a kill.

        ``on_memory`` is called after memory was freed, to return it to the system; ``on_deleted`` after a sink and its
        state were deleted.
        """
        self.bounds = bounds or Bounds()
        self.sink_defaults = sink_defaults or SinkSettings()
        self.clock = clock
        self.start_count = found.start_count
        self.tail = RecentPages(self.bounds.tail_bytes)
        self.draining = False
        self.streams = 0
        self._sweeps = 0
        self.stream_memory = StreamMemory(
            self.bounds.stream_bytes, clock.monotonic, on_shed=(instruments or Instruments()).stream_shed
        )
        self._ended = asyncio.Event()
        self.supervisor = Supervisor(self._ended)
        self._journal = journal
        self._next_sink = found.next_sink
        meter = instruments or Instruments()
        youngest = max((tail.age_us for sink in found.sinks for tail in sink.tails.values()), default=0)
        age = AgeClock(clock, found.age, max_step_us=self.bounds.clock_step_us, at_least_us=youngest)
        if age.rejected_step_us:
            _log.warning("clock jumped while the broker was down seconds=%d", age.rejected_step_us // 1_000_000)
        self.committer = Committer(
            journal,
            clock,
            self.tail,
            start_count=found.start_count,
            waiting_bytes_max=self.bounds.waiting_bytes,
            disk_reserve_bytes=self.bounds.disk_reserve,
            on_fenced=self._fenced(on_fenced),
            on_synced=meter.synced,
        )
        self.reclaimer = Reclaimer(journal, self.committer, found.due, self.supervisor)
        self._on_memory = on_memory
        self._on_deleted = on_deleted
        self._ballast = ballast
        self.memory = MemoryGuard(
            measure_memory,
            high_watermark=self.bounds.memory_high_watermark,
            waiting_bytes_max=self.bounds.waiting_bytes,
            on_change=self._memory_changed,
        )
        self.quarantine = Quarantine(found.quarantined)
        self.mended = found.mended
        """Repairs of the start."""
        self.quota = Quota(self.bounds.stored_bytes)
        self._accepted: Accepted = accepted or AcceptedUnknown()
        self._marks = DeliveryMarks(delivered or AcceptedUnknown(), stopped=found.stopped, damaged=bool(found.mended))
        used = {reserve.slot for stored in found.sinks for reserve in stored.reserves.values()}
        self.services = Services(
            clock,
            age,
            self.committer,
            self.reclaimer,
            Pages(journal, self.tail, self.committer.call, clock),
            meter,
            found.start_count,
            self.quota,
            self.memory,
            records,
            self.dead_letter_sink,
            self.quarantine,
            Slots(self._accepted, {slot for slot in used if slot is not None}),
            self._marks,
            self.supervisor,
            owner_epochs(found.start_count),
        )
        self.services.pages.holds.on_over = self._reads_work
        self.sinks: dict[str, Buffer] = {}
        self.writers: dict[str, Writers] = {}
        self.epochs = Epochs(self.services)
        self.epoch_sweep = EpochSweep(self.services, self.sinks.values)
        restarting = Restarting(journal, self._accepted.found, self._marks, at_us=clock.wall_us())
        self._superseded: list[Buffer] = []
        """Sinks that were deleted and recreated, and whose deletion a crash kept from the store."""
        for stored in sorted(found.sinks, key=lambda one: one.record.id):
            self._add_stored(stored, restarting)
        journal.commit([], [PutCounting(found.start_count)])  # a start killed before it leaves the counts as they are
        self._accepted.begin()
        self._marks.begin()
        self.expirer = Expirer(self.sinks.values, self.services.pages)
        self._deletions: set[asyncio.Future[None]] = set()

    def _fenced(self, then: Callable[[StoreFenced], None]) -> Callable[[StoreFenced], None]:
        def fenced(failure: StoreFenced) -> None:
            self._ended.set()
            then(failure)

        return fenced

    def _add_stored(self, stored: StoredSink, restarting: Restarting) -> None:
        settings, wrong = stored.record.settings.corrected()
        staged = [partition for pages in stored.epochs.staged.values() for partition, _ in pages]
        found = [*stored.tails, *stored.heads, *staged, *(partition for _, partition in stored.cursors)]
        if wrong and max(found, default=0) >= settings.partitions:  # no partition is lost by a correction
            settings = replace(settings, partitions=max(found) + 1)
        for problem in wrong:
            _log.warning("stored setting was corrected sink=%s problem=%s", stored.record.name, problem)
        record = replace(stored.record, settings=settings)
        made_at_us = {one.name: one.created_at_us for one in stored.subscriptions.values()}
        made_at_us.setdefault(DEFAULT_SUBSCRIPTION, record.created_at_us)
        standing = restarting.go_on(stored, settings, made_at_us)
        self.reclaimer.add(standing.due)
        logs = [
            PartitionLog(p, standing.tails.get(p), standing.heads.get(p), tuple(standing.gaps.get(p, ())))
            for p in range(settings.partitions)
        ]
        for (name, partition), cursor in standing.cursors.items():
            if partition < len(logs) and not cursor.balances(logs[partition].next_offset):
                place = (record.name, name, partition)
                _log.error("account does not balance sink=%s subscription=%s partition=%d", *place)
        buffer = Buffer(
            record,
            logs,
            standing.cursors,
            self.services,
            subscriptions=stored.subscriptions.values(),
            totals=stored.totals,
            marks=stored.marks,
            reserves=standing.reserves,
            epochs=stored.epochs,
            schemas=stored.schemas.values(),
        )
        self._add(buffer, dict(stored.writers))

    def _add(self, buffer: Buffer, writers: dict[str, int]) -> None:
        if (former := self.sinks.get(buffer.name)) is not None:
            self._superseded.append(former)
        self.sinks[buffer.name] = buffer
        self.writers[buffer.name] = Writers(buffer, self.services, writers)
        self._set_draining(buffer)

    def start(self) -> None:
        """Start the background work."""
        self.committer.start()
        self.reclaimer.start()
        for former in self._superseded:
            _log.warning("deletion of a recreated sink is completed sink=%s", former.name)
            self._delete(former)
        jobs: list[tuple[str, Callable[[], float], Work]] = [
            ("sinks", lambda: SWEEP_S, self._sweep_sinks),
            ("epochs", lambda: SWEEP_S, self.epoch_sweep.sweep),
            ("disk", lambda: SWEEP_S, self._look_at_disk),
            ("memory", lambda: SWEEP_S, self._look_at_memory),
            ("streams", lambda: SWEEP_S, self._look_at_streams),
            ("age", lambda: SWEEP_S, self._store_age),
            ("expiry", lambda: expiry.EXPIRE_S, self.expirer.sweep_all),
            ("reads", lambda: PROBE_S, self.services.pages.probe),
        ]
        for name, period_s, job in jobs:
            self.supervisor.repeat(name, period_s, job)

    def _memory_changed(self, overloaded: bool) -> None:
        self.tail.bound(0 if overloaded else self.bounds.tail_bytes)
        if overloaded:
            self._on_memory()

    async def _sweep_sinks(self) -> None:
        """Sweep time limits, memory and lag of each sink; a sink that fails does not affect the others."""
        pending = list(self.sinks.values())
        self._sweeps += 1
        while pending:
            await self.supervisor.attempt("sinks", partial(self._sweep_rest, pending))

    async def _sweep_rest(self, pending: list[Buffer]) -> None:
        slices = Slices()
        lanes = sum(len(buffer.logs) * len(buffer.subscriptions) for buffer in self.sinks.values())
        while pending:
            await slices.turn()
            buffer = pending.pop()
            if buffer.deleted:
                continue
            self.writers[buffer.name].sweep()
            buffer.sweep()
            await buffer.tier.relieve()
            if self.services.instruments.wants_lag and lag_is_due(self._sweeps, buffer.record.id, lanes):
                await self._measure(buffer)

    async def _look_at_disk(self) -> None:
        self.committer.look_at_disk()
        if self._ballast is not None:
            await self._ballast.look(self.committer.free_bytes)

    async def _look_at_memory(self) -> None:
        self.memory.look()

    async def _look_at_streams(self) -> None:
        self.stream_memory.look()
        if self.stream_memory.calmed():
            await asyncio.to_thread(self._on_memory)

    async def _store_age(self) -> None:
        self.committer.write([self.services.age.reading()])

    async def _store_deliveries(self) -> None:
        """Write the cursors at the end of all deliveries, with a mark that they are up to date."""
        writes: list[Write] = [
            write
            for buffer in self.sinks.values()
            for subscription in buffer.subscriptions.values()
            for write in subscription.delivered_cursors()
        ]
        self.committer.write([*writes, PutStopped(self.start_count)])

    async def _measure(self, buffer: Buffer) -> None:
        try:
            found = await sink_lags(buffer)
        except StoreFenced as damage:
            _log.error("lag could not be read sink=%s cause=%s", buffer.name, damage)
            return
        slices = Slices()
        records, size = sum(log.records for log in buffer.logs), sum(log.size for log in buffer.logs)
        self.services.instruments.stored(buffer.name, records, size)
        for subscription, lanes in found:
            await slices.turn()
            if not buffer.deleted and buffer.subscriptions.get(subscription.name) is subscription:
                self.services.instruments.measured(buffer.name, subscription.name, lanes)

    def _reads_work(self, sink: int, partition: int) -> None:
        """Wake the subscriptions of a partition whose reads work again."""
        for buffer in self.sinks.values():
            if buffer.record.id == sink:
                for subscription in buffer.subscriptions.values():
                    subscription.wake(partition)

    def background_failures(self) -> list[str]:
        """Return a sentence for each kind of background work that has failed."""
        known = sorted(self.supervisor.failures.items())
        return [f"{name} failed {failed.count} times, at last of {failed.reason}" for name, failed in known]

    def unreadable(self) -> list[str]:
        """Return a sentence for each partition whose reads fail now."""
        names = {buffer.record.id: buffer.name for buffer in self.sinks.values()}
        return [
            f"partition {partition} of {names[sink]} since {hold.since}: {hold.reason}"
            for sink, partition, hold in self.services.pages.holds
            if sink in names
        ]

    # -- sinks

    def sink(self, name: str, incarnation: str = "") -> Buffer:
        """Return the sink with that name, and that incarnation if one is given.

        Every request for a sink looks it up here, so no request for a former one reaches its successor. Raises
        ``SinkNotFound``, ``SINK_REPLACED``.
        """
        found = self.sinks.get(name)
        if found is None:
            raise SinkNotFound(name)
        if incarnation and incarnation != found.record.incarnation:
            raise BrokerError(
                Reason.SINK_REPLACED, sink=name, named=shown(incarnation), current=found.record.incarnation
            )
        return found

    async def create(self, name: str, settings: SinkSettings, *, request_id: str = "") -> tuple[Buffer, bool]:
        """Create a sink, durably; returns the existing one if it has the same settings.

        A sink that the request of the same id created is returned as created, whatever its settings are by now.
        """
        self.check_serving()
        sink_name(name)
        settings.checked()
        existing = self.sinks.get(name)
        if existing is not None and request_id and existing.record.request_id == request_id:
            await asyncio.shield(existing.created)
            return existing, True
        if existing is not None:
            if existing.settings != settings:
                raise BrokerError(Reason.SINK_EXISTS, sink=name, differs=existing.settings.differences(settings))
            await asyncio.shield(existing.created)
            return existing, False
        buffer = self._make(name, settings, checked_request_id(request_id))
        await asyncio.shield(buffer.created)
        return buffer, True

    def _make(self, name: str, settings: SinkSettings, request_id: str = "") -> Buffer:
        if len(self.sinks) >= self.bounds.sinks:
            raise TooManySinks("sinks", self.bounds.sinks)
        self._check_partitions(settings.partitions)
        made_at_us, incarnation = self.clock.wall_us(), secrets.token_hex(8)
        record = SinkRecord(self._next_sink, name, incarnation, settings, made_at_us, request_id=request_id)
        self._next_sink += 1
        buffer = Buffer(record, [PartitionLog(p) for p in range(settings.partitions)], {}, self.services)
        self._add(buffer, {})
        buffer.created = self.committer.write([PutSink(record, fresh=True)])
        _log.info("sink was created sink=%s partitions=%d", name, settings.partitions)
        return buffer

    def _check_partitions(self, more: int) -> None:
        if sum(len(buffer.logs) for buffer in self.sinks.values()) + more > self.bounds.partitions:
            raise TooManySinks("partitions", self.bounds.partitions)

    async def update(self, name: str, values: Mapping[str, Any], *, incarnation: str = "") -> Buffer:
        """Change the named settings of a sink, durably."""
        self.check_serving()
        buffer = self.sink(name, incarnation)
        settings = buffer.settings.changed(values)
        more = settings.partitions - len(buffer.logs)
        if more > 0:
            self._check_partitions(more)
        await asyncio.shield(buffer.change(settings))
        if more > 0:
            _log.info("partitions were added sink=%s partitions=%d", name, settings.partitions)
        return buffer

    def dead_letter_sink(self, origin: Buffer) -> Buffer:
        """Return the dead-letter sink of a sink, created on first use, in the next batch."""
        name = dead_letter_sink_name(origin.name)
        found = self.sinks.get(name)
        if found is None:
            found = self._make(name, dead_letter_settings(origin.settings, self.sink_defaults))
        return found

    async def delete(self, name: str, *, force: bool, dead_letters: bool = False, incarnation: str = "") -> None:
        """Delete a sink with its content, and its dead-letter sink only with ``dead_letters``."""
        buffers = [self.sink(name, incarnation)]
        if dead_letters and (found := self.sinks.get(dead_letter_sink_name(name))) is not None:
            buffers.append(found)
        for buffer in buffers:
            if buffer.pending and not force:
                raise BrokerError(Reason.SINK_NOT_EMPTY, sink=buffer.name, pending=buffer.pending)
        deletions = [self._begin_deletion(buffer) for buffer in buffers]
        for deletion in deletions:
            await asyncio.shield(deletion)  # the caller may leave: the deletion is completed anyway

    def _begin_deletion(self, buffer: Buffer) -> asyncio.Future[None]:
        del self.sinks[buffer.name]
        del self.writers[buffer.name]
        return self._delete(buffer)

    def _delete(self, buffer: Buffer) -> asyncio.Future[None]:
        """Complete the deletion of a sink that lookups no longer find."""
        deletion = asyncio.ensure_future(self._finish(buffer))
        self._deletions.add(deletion)
        deletion.add_done_callback(self._deleted)
        return deletion

    async def _finish(self, buffer: Buffer) -> None:
        await buffer.delete()
        self.quarantine.forget(buffer.record.id)
        if buffer.name not in self.sinks:  # else the figures are those of the sink that was made anew
            self.services.instruments.forgotten(buffer.name)
        self._on_deleted()
        _log.info("sink was deleted sink=%s", buffer.name)

    def _deleted(self, deletion: asyncio.Future[None]) -> None:
        self._deletions.discard(deletion)
        if not deletion.cancelled() and (error := deletion.exception()) is not None:
            self.supervisor.note("deletion", error)  # the caller may be gone

    # -- streams, and the end

    def check_serving(self) -> None:
        """Raise unless the broker accepts new work."""
        if self.committer.fenced is not None:
            raise self.committer.fenced
        if self.draining:
            raise Draining

    def enter_stream(self) -> None:
        """Count a new stream; raises at the bound."""
        self.check_serving()
        if self.streams >= self.bounds.streams:
            raise BrokerError(Reason.TOO_MANY_STREAMS, "streams", bound=self.bounds.streams)
        self.streams += 1

    def leave_stream(self) -> None:
        """Count a stream as ended."""
        self.streams -= 1

    async def ended(self) -> None:
        """Return when the broker drains or is fenced: streams end then."""
        await self._ended.wait()

    async def drain(self) -> None:
        """Reject new work, and return when pending work is durable."""
        self.draining = True
        for buffer in self.sinks.values():
            self._set_draining(buffer)
        try:
            async for buffer in self._all_sinks():
                await buffer.settled_in()
        finally:
            self._ended.set()

    def _set_draining(self, buffer: Buffer) -> None:
        self.writers[buffer.name].draining = self.draining
        buffer.staging.draining = self.draining

    async def _all_sinks(self) -> AsyncIterator[Buffer]:
        """Yield each sink once, including new ones: a first dead letter creates a sink during a stop."""
        seen: set[int] = set()
        while rest := [buffer for buffer in self.sinks.values() if buffer.record.id not in seen]:
            for buffer in rest:
                seen.add(buffer.record.id)
                yield buffer

    async def close(self) -> None:
        """Stop everything and close the store; each step runs whatever the result of the others.

        Raises ``StopFailed`` at the end if a step failed.
        """
        stopping = Stopping()
        await stopping.step("drain", self.drain)
        await stopping.step("deletions", lambda: asyncio.gather(*self._deletions, return_exceptions=True))
        await stopping.step("epochs", self.epochs.close)
        async for buffer in self._all_sinks():
            await stopping.step(f"sink {buffer.name}", buffer.close)
        await stopping.step("background work", self.supervisor.close)
        if self.committer.fenced is None:
            async for buffer in self._all_sinks():
                await stopping.step(f"emptying of {buffer.name}", partial(empty_at_stop, buffer, self.services.pages))
        async for buffer in self._all_sinks():  # memory goes: what it holds is written, or dropped and counted
            await stopping.step(f"memory of {buffer.name}", buffer.tier.close)
        if self.committer.fenced is None:
            await stopping.step("age", self._store_age)
        if self.committer.fenced is None and not stopping.failures:
            await stopping.step("deliveries", self._store_deliveries)
        await stopping.step("reclaimer", self.reclaimer.close)
        await stopping.step("committer", self.committer.close)
        await stopping.step("store", self._close_store)
        stopping.finish()

    async def _close_store(self) -> None:
        with ExitStack() as closing:  # from the last to the first, each whatever became of the others
            closing.callback(self._journal.close)
            closing.callback(self._accepted.close)
            closing.callback(self._marks.close)
            closing.callback(self.services.pages.close)
