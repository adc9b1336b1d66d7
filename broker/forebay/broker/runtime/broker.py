"""Running broker: its parts, and their start and stop in the right order.

The composition root builds them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

from forebay.broker.core.backups.values import Restored
from forebay.broker.core.dead_letters.letters import RecordCodec
from forebay.broker.core.errors import Draining
from forebay.broker.core.partition.repair import RepairReport
from forebay.broker.core.settings import SinkSettings
from forebay.broker.core.writes import PutStopped, Write
from forebay.broker.runtime.backups.backups import Backups
from forebay.broker.runtime.backups.checkpoints import Checkpoints
from forebay.broker.runtime.clock import MAX_CLOCK_STEP_US, Clock
from forebay.broker.runtime.commit.accepted import Accepted
from forebay.broker.runtime.commit.committer import Committer
from forebay.broker.runtime.commit.reclaimer import Reclaimer
from forebay.broker.runtime.commit.store import Journal
from forebay.broker.runtime.delivery.marks import DeliveryMarks
from forebay.broker.runtime.epochs.commits import Epochs
from forebay.broker.runtime.epochs.sweep import EpochSweep
from forebay.broker.runtime.fleet import Fleet
from forebay.broker.runtime.housekeeping import Housekeeping
from forebay.broker.runtime.instruments import Instruments
from forebay.broker.runtime.positions import Positions
from forebay.broker.runtime.publish.writers import Writers
from forebay.broker.runtime.read.pages import Pages
from forebay.broker.runtime.read.quarantine import Quarantine
from forebay.broker.runtime.read.read_cache import ReadCache
from forebay.broker.runtime.read.realtime import Realtime
from forebay.broker.runtime.resources.memory import MemoryGuard
from forebay.broker.runtime.resources.quota import Quota
from forebay.broker.runtime.resources.stop_steps import StopSteps
from forebay.broker.runtime.resources.stream_memory import StreamMemory
from forebay.broker.runtime.resources.streams import OpenStreams
from forebay.broker.runtime.resources.supervision import Supervisor
from forebay.broker.runtime.sink.buffer import Buffer
from forebay.broker.runtime.sink.retention.expiry import Expirer
from forebay.broker.runtime.sink.retention.purge import empty_at_stop
from forebay.broker.runtime.sinks import Sinks
from forebay.state.numbers import counted


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of one broker."""

    sinks: int = 10_000
    partitions: int = 100_000
    streams: int = 4_096
    stream_bytes: int = 256 << 20
    """Memory that all open streams hold for their peers."""
    waiting_bytes: int = 256 << 20
    journal_batch_bytes: int = 4 << 20
    """Waiting bytes from which a batch begins while others are open, where the store has a window."""
    tail_bytes: int = 64 << 20
    realtime: bool = True
    """Serve readers at the head from memory, unless a choice is stored."""
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


@dataclass(slots=True, kw_only=True)
class Broker:
    """All sinks of one store. Created and used on the loop."""

    clock: Clock
    bounds: Bounds
    sink_defaults: SinkSettings
    start_count: int
    journal: Journal
    committer: Committer
    reclaimer: Reclaimer
    pages: Pages
    read_cache: ReadCache
    realtime: Realtime
    quarantine: Quarantine
    quota: Quota
    memory: MemoryGuard
    streams: OpenStreams
    stream_memory: StreamMemory
    instruments: Instruments
    codec: RecordCodec
    accepted: Accepted
    marks: DeliveryMarks
    registry: Sinks
    epochs: Epochs
    epoch_sweep: EpochSweep
    positions: Positions
    backups: Backups
    checkpoints: Checkpoints | None
    fleet: Fleet
    expirer: Expirer
    housekeeping: Housekeeping
    supervisor: Supervisor
    ending: asyncio.Event
    """Set when the broker drains or is fenced: streams end then."""
    repairs: Sequence[RepairReport]
    """Repairs of the start."""
    restored: Restored | None = None
    """Restore that the store comes from."""

    def start(self) -> None:
        """Start the background work."""
        self.committer.start()
        self.reclaimer.start()
        self.registry.start()
        self.housekeeping.start()
        if self.backups.target:
            self.supervisor.keep_running("backups", self.backups.run)
        if self.checkpoints is not None:
            self.supervisor.keep_running("checkpoints", self.checkpoints.run)
        if self.fleet.has_directory:
            self.supervisor.keep_running("directory", self.fleet.run)

    def background_failures(self) -> list[str]:
        """Return a sentence for each kind of background work that has failed."""
        known = sorted(self.supervisor.failures.items())
        return [f"{name} failed {counted(failed.count, 'time')}, at last of {failed.reason}" for name, failed in known]

    def unreadable(self) -> list[str]:
        """Return a sentence for each partition whose reads fail now."""
        names = {buffer.record.id: buffer.name for buffer in self.sinks.values()}
        return [
            f"partition {partition} of {names[sink]} since {hold.since}: {hold.reason}"
            for sink, partition, hold in self.pages.holds
            if sink in names
        ]

    # -- sinks

    @property
    def sinks(self) -> dict[str, Buffer]:
        """Running sinks by name."""
        return self.registry.running

    @property
    def writers(self) -> dict[str, Writers]:
        """Writers of each sink, by its name."""
        return self.registry.writers

    def sink(self, name: str, incarnation: str = "") -> Buffer:
        """See ``Sinks.get``."""
        return self.registry.get(name, incarnation)

    async def create(
        self, name: str, settings: SinkSettings, *, request_id: str = "", shard: str = ""
    ) -> tuple[Buffer, bool]:
        """See ``Sinks.create``."""
        self.check_serving()
        return await self.registry.create(name, settings, request_id=request_id, shard=shard)

    async def update(self, name: str, values: Mapping[str, Any], *, incarnation: str = "") -> Buffer:
        """See ``Sinks.update``."""
        self.check_serving()
        return await self.registry.update(name, values, incarnation=incarnation)

    async def set_realtime(self, enabled: bool | None, *, sink: str = "", incarnation: str = "") -> bool:
        """Serve readers at the head from memory or not, in one sink or all, durably.

        None: as the settings say. Returns whether memory serves them now, which takes both switches.
        """
        self.check_serving()
        if not sink:
            await self.realtime.choose(enabled)
            return self.realtime.enabled
        values = {"realtime": self.sink_defaults.realtime if enabled is None else enabled}
        buffer = await self.registry.update(sink, values, incarnation=incarnation)
        return self.realtime.enabled and buffer.settings.realtime

    async def delete(self, name: str, *, force: bool, dead_letters: bool = False, incarnation: str = "") -> None:
        """See ``Sinks.delete``."""
        await self.registry.delete(name, force=force, dead_letters=dead_letters, incarnation=incarnation)

    # -- streams, and the end

    def check_serving(self) -> None:
        """Raise unless the broker accepts new work."""
        if self.committer.fenced is not None:
            raise self.committer.fenced
        if self.registry.draining:
            raise Draining

    async def ended(self) -> None:
        """Return when the broker drains or is fenced: streams end then."""
        await self.ending.wait()

    @property
    def draining(self) -> bool:
        """True if the broker accepts no new work because it stops."""
        return self.registry.draining

    async def drain(self) -> None:
        """Reject new work, and return when pending work is durable."""
        self.registry.drain()
        try:
            async for buffer in self.registry.each():
                await buffer.settled_in()
        finally:
            self.ending.set()

    async def close(self) -> None:
        """Stop everything and close the store; each step runs whatever the result of the others.

        Raises ``StopFailed`` at the end if a step failed.
        """
        stopping, each = StopSteps(), self.registry.each
        await stopping.step("drain", self.drain)
        self.journal.end_transfers()  # what is left of a stop waits for no page of a checkpoint
        await stopping.step("backups", self.backups.close)
        if self.checkpoints is not None:
            await stopping.step("checkpoints", self.checkpoints.close)
        await stopping.step("deletions", self.registry.deleted)
        await stopping.step("epochs", self.epochs.close)
        async for buffer in each():
            await stopping.step(f"sink {buffer.name}", buffer.close)
        await stopping.step("background work", self.supervisor.close)
        if self.committer.fenced is None:
            async for buffer in each():
                await stopping.step(f"emptying of {buffer.name}", partial(empty_at_stop, buffer, self.pages))
        async for buffer in each():  # records in memory are written, or dropped and counted
            await stopping.step(f"memory of {buffer.name}", buffer.close_memory)
        if self.committer.fenced is None:
            await stopping.step("age", self.housekeeping.store_age)
        if self.committer.fenced is None and not stopping.failures:
            await stopping.step("deliveries", self._store_deliveries)
        await stopping.step("reclaimer", self.reclaimer.close)
        await stopping.step("committer", self.committer.close)
        await stopping.step("store", self._close_store)
        stopping.finish()

    async def _store_deliveries(self) -> None:
        """Write the cursors at the end of all deliveries, with a mark that they are up to date."""
        writes: list[Write] = [
            write
            for buffer in self.sinks.values()
            for subscription in buffer.subscriptions.values()
            for write in subscription.accounts.delivered_cursors()
        ]
        self.committer.write([*writes, PutStopped(self.start_count)])

    async def _close_store(self) -> None:
        with ExitStack() as closing:  # from the last to the first, each whatever became of the others
            closing.callback(self.journal.close)
            closing.callback(self.accepted.close)
            closing.callback(self.marks.close)
            closing.callback(self.pages.close)
