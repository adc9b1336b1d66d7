"""Registry of a broker's sinks: restore at a start, look-up, create, update and delete."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, Protocol

from forebay.broker.core.dead_letters.letters import dead_letter_settings, dead_letter_sink_name
from forebay.broker.core.epochs.values import StoredEpochs
from forebay.broker.core.errors import BrokerError, SinkNotFound, TooManySinks, shown
from forebay.broker.core.names import RESERVED_SUFFIX, checked_request_id, sink_name
from forebay.broker.core.partition.account import Totals
from forebay.broker.core.partition.log import PartitionLog
from forebay.broker.core.partition.retention import Marks
from forebay.broker.core.settings import SinkSettings
from forebay.broker.core.writes import PutSink, SchemaRecord, SinkRecord, SubscriptionRecord
from forebay.broker.runtime.clock import Clock
from forebay.broker.runtime.commit.committer import Committer
from forebay.broker.runtime.commit.reclaimer import Reclaimer
from forebay.broker.runtime.delivery.lanes import DEFAULT_SUBSCRIPTION
from forebay.broker.runtime.fleet import Fleet
from forebay.broker.runtime.instruments import Instruments
from forebay.broker.runtime.publish.writers import Writers
from forebay.broker.runtime.read.quarantine import Quarantine
from forebay.broker.runtime.resources.supervision import Supervisor
from forebay.broker.runtime.sink.buffer import Buffer
from forebay.broker.runtime.sink.recovery import Found, RepairableSink, SinkRecovery
from forebay.broker.runtime.sink.state import Sink
from forebay.errors.reasons import Reason

_log: Final = logging.getLogger(__name__)
MakeBuffer = Callable[[SinkRecord, Sequence[PartitionLog], Found], Buffer]
MakeWriters = Callable[[Buffer, dict[str, int]], Writers]


class StoredSink(RepairableSink, Protocol):
    """Sink as a store found it."""

    @property
    def writers(self) -> Mapping[str, int]: ...
    @property
    def subscriptions(self) -> Mapping[str, SubscriptionRecord]: ...
    @property
    def totals(self) -> Mapping[tuple[str, int], Totals]: ...
    @property
    def marks(self) -> Mapping[int, Marks]: ...
    @property
    def epochs(self) -> StoredEpochs: ...
    @property
    def schemas(self) -> Mapping[int, SchemaRecord]: ...


class Sinks:
    """Sinks of one broker by name, each with its writers. Used on the loop."""

    def __init__(
        self,
        make: MakeBuffer,
        make_writers: MakeWriters,
        *,
        next_sink: int,
        sinks_max: int,
        partitions_max: int,
        defaults: SinkSettings,
        clock: Clock,
        committer: Committer,
        fleet: Fleet,
        quarantine: Quarantine,
        instruments: Instruments,
        supervisor: Supervisor,
        on_deleted: Callable[[], None],
        replicated: bool,
    ) -> None:
        """``on_deleted`` is called after a sink and its state were deleted.

        ``replicated`` says that what the committer confirms is in the journal of a shard.
        """
        self.running: dict[str, Buffer] = {}
        self.writers: dict[str, Writers] = {}
        self.draining = False
        self._make_buffer = make
        self._make_writers = make_writers
        self._next_sink = next_sink
        self._sinks_max = sinks_max
        self._partitions_max = partitions_max
        self._defaults = defaults
        self._clock = clock
        self._committer = committer
        self._fleet = fleet
        self._quarantine = quarantine
        self._instruments = instruments
        self._supervisor = supervisor
        self._on_deleted = on_deleted
        self._make_log = partial(PartitionLog, replicated=replicated)
        self._superseded: list[Buffer] = []
        """Sinks that were deleted and recreated, and whose deletion a crash kept from the store."""
        self._deletions: set[asyncio.Future[None]] = set()

    # -- the start

    def restore(self, found: Iterable[StoredSink], restarting: SinkRecovery, reclaimer: Reclaimer) -> None:
        """Restore the stored sinks. Blocks, before the first call is served."""
        for stored in sorted(found, key=lambda one: one.record.id):
            self._restore(stored, restarting, reclaimer)

    def _restore(self, stored: StoredSink, restarting: SinkRecovery, reclaimer: Reclaimer) -> None:
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
        standing = restarting.recover(stored, settings, made_at_us)
        reclaimer.add(standing.due)
        logs = [
            self._make_log(p, standing.tails.get(p), standing.heads.get(p), tuple(standing.gaps.get(p, ())))
            for p in range(settings.partitions)
        ]
        for (name, partition), cursor in standing.cursors.items():
            if partition < len(logs) and not cursor.balances(logs[partition].next_offset):
                place = (record.name, name, partition)
                _log.error("account does not balance sink=%s subscription=%s partition=%d", *place)
        state = Found(
            cursors=standing.cursors,
            subscriptions=tuple(stored.subscriptions.values()),
            totals=stored.totals,
            marks=stored.marks,
            reserves=standing.reserves,
            epochs=stored.epochs,
            schemas=tuple(stored.schemas.values()),
        )
        self._add(self._make_buffer(record, logs, state), dict(stored.writers))

    def start(self) -> None:
        """Complete the deletions that a crash interrupted."""
        for former in self._superseded:
            _log.warning("deletion of a recreated sink is completed sink=%s", former.name)
            self._delete(former)

    # -- look-up

    def get(self, name: str, incarnation: str = "") -> Buffer:
        """Return the sink with that name, and that incarnation if one is given.

        Every request for a sink looks it up here, so no request for a former one reaches its successor. Raises
        ``SinkNotFound``, ``NotOwner``, ``SINK_REPLACED``.
        """
        found = self.running.get(name)
        if found is None:
            if name.removesuffix(RESERVED_SUFFIX) in self.running:  # dead letters are in the shard of their origin
                raise SinkNotFound(name)
            raise self._fleet.missing(name)
        if incarnation and incarnation != found.record.incarnation:
            raise BrokerError(
                Reason.SINK_REPLACED, sink=name, named=shown(incarnation), current=found.record.incarnation
            )
        return found

    async def each(self) -> AsyncIterator[Buffer]:
        """Yield each sink once, including new ones: a first dead letter creates a sink during a stop."""
        seen: set[int] = set()
        while rest := [buffer for buffer in self.running.values() if buffer.record.id not in seen]:
            for buffer in rest:
                seen.add(buffer.record.id)
                yield buffer

    def wake(self, sink: int, partition: int) -> None:
        """Wake the subscriptions of a partition whose reads work again."""
        for buffer in self.running.values():
            if buffer.record.id == sink:
                for subscription in buffer.subscriptions.values():
                    subscription.wake(partition)

    # -- changes

    async def create(
        self, name: str, settings: SinkSettings, *, request_id: str = "", shard: str = ""
    ) -> tuple[Buffer, bool]:
        """Create a sink, durably; returns the existing one if it has the same settings.

        A sink that the request of the same id created is returned as created, whatever its settings are by now.
        ``shard`` is the one that must have it, see ``Fleet.check_creation``.
        """
        sink_name(name)
        settings.checked()
        if name not in self.running:
            await self._fleet.check_creation(name, shard)
        existing = self.running.get(name)
        if existing is not None and shard not in {"", self._fleet.shard}:
            raise BrokerError(Reason.SINK_EXISTS, sink=name, differs=f"it is in shard {self._fleet.shard!r}")
        if existing is not None and request_id and existing.record.request_id == request_id:
            await asyncio.shield(existing.state.created)
            return existing, True
        if existing is not None:
            if existing.settings != settings:
                raise BrokerError(Reason.SINK_EXISTS, sink=name, differs=existing.settings.differences(settings))
            await asyncio.shield(existing.state.created)
            return existing, False
        buffer = self._make(name, settings, checked_request_id(request_id))
        await asyncio.shield(buffer.state.created)
        return buffer, True

    def _make(self, name: str, settings: SinkSettings, request_id: str = "") -> Buffer:
        if len(self.running) >= self._sinks_max:
            raise TooManySinks("sinks", self._sinks_max)
        self._check_partitions(settings.partitions)
        made_at_us, incarnation = self._clock.wall_us(), secrets.token_hex(8)
        record = SinkRecord(self._next_sink, name, incarnation, settings, made_at_us, request_id=request_id)
        self._next_sink += 1
        buffer = self._make_buffer(record, [self._make_log(p) for p in range(settings.partitions)], Found())
        self._add(buffer, {})
        buffer.state.created = self._committer.write([PutSink(record, fresh=True)])
        _log.info("sink was created sink=%s partitions=%d", name, settings.partitions)
        return buffer

    def _add(self, buffer: Buffer, writers: dict[str, int]) -> None:
        if (former := self.running.get(buffer.name)) is not None:
            self._superseded.append(former)
        self.running[buffer.name] = buffer
        self.writers[buffer.name] = self._make_writers(buffer, writers)
        buffer.state.draining = self.draining

    def _check_partitions(self, more: int) -> None:
        if sum(len(buffer.logs) for buffer in self.running.values()) + more > self._partitions_max:
            raise TooManySinks("partitions", self._partitions_max)

    async def update(self, name: str, values: Mapping[str, Any], *, incarnation: str = "") -> Buffer:
        """Change the named settings of a sink, durably."""
        buffer = self.get(name, incarnation)
        settings = buffer.settings.changed(values)
        more = settings.partitions - len(buffer.logs)
        if more > 0:
            self._check_partitions(more)
        await asyncio.shield(buffer.change(settings))
        if more > 0:
            _log.info("partitions were added sink=%s partitions=%d", name, settings.partitions)
        return buffer

    def dead_letter_sink(self, origin: Sink) -> Buffer:
        """Return the dead-letter sink of a sink, created on first use, in the batch of the first append to it."""
        name = dead_letter_sink_name(origin.name)
        found = self.running.get(name)
        if found is None:
            found = self._make(name, dead_letter_settings(origin.settings, self._defaults))
        return found

    async def delete(self, name: str, *, force: bool, dead_letters: bool = False, incarnation: str = "") -> None:
        """Delete a sink with its content, and its dead-letter sink only with ``dead_letters``."""
        buffers = [self.get(name, incarnation)]
        if dead_letters and (found := self.running.get(dead_letter_sink_name(name))) is not None:
            buffers.append(found)
        for buffer in buffers:
            if (pending := buffer.state.pending) and not force:
                raise BrokerError(Reason.SINK_NOT_EMPTY, sink=buffer.name, pending=pending)
        for buffer in buffers:
            del self.running[buffer.name]
            del self.writers[buffer.name]
        for deletion in [self._delete(buffer) for buffer in buffers]:
            await asyncio.shield(deletion)  # the caller may leave: the deletion is completed anyway

    def _delete(self, buffer: Buffer) -> asyncio.Future[None]:
        """Complete the deletion of a sink that lookups no longer find."""
        deletion = asyncio.ensure_future(self._finish(buffer))
        self._deletions.add(deletion)
        deletion.add_done_callback(self._deleted)
        return deletion

    async def _finish(self, buffer: Buffer) -> None:
        await buffer.delete()
        self._quarantine.remove_sink(buffer.record.id)
        successor = self.running.get(buffer.name)
        if successor is None:
            self._instruments.forgotten(buffer.name)
        else:  # the other figures are those of the sink that was recreated
            for subscription in buffer.subscriptions.keys() - successor.subscriptions.keys():
                self._instruments.forgotten(buffer.name, subscription)
        self._on_deleted()
        _log.info("sink was deleted sink=%s", buffer.name)

    def _deleted(self, deletion: asyncio.Future[None]) -> None:
        self._deletions.discard(deletion)
        if not deletion.cancelled() and (error := deletion.exception()) is not None:
            self._supervisor.note("deletion", error)  # the caller may be gone

    # -- the end

    def drain(self) -> None:
        """Accept nothing new in any sink, including those that are created from now on."""
        self.draining = True
        for buffer in self.running.values():
            buffer.state.draining = True

    async def deleted(self) -> None:
        """Return when no deletion is in progress."""
        await asyncio.gather(*self._deletions, return_exceptions=True)
