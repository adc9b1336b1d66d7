"""Housekeeping of a broker: periodic sweeps of its sinks and its resources."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from forebay.broker.core.dead_letters.letters import dead_letter_sink_name
from forebay.broker.core.errors import StoreFenced
from forebay.broker.runtime.clock import AgeClock
from forebay.broker.runtime.commit.committer import Committer
from forebay.broker.runtime.delivery.flow import flow_of
from forebay.broker.runtime.epochs.sweep import EpochSweep
from forebay.broker.runtime.instruments import Instruments, Limit, SinkMeasure
from forebay.broker.runtime.read.pages import Pages
from forebay.broker.runtime.resources.ballast import BallastKeeper
from forebay.broker.runtime.resources.memory import MemoryGuard
from forebay.broker.runtime.resources.slices import Slices
from forebay.broker.runtime.resources.stream_memory import StreamMemory
from forebay.broker.runtime.resources.supervision import Supervisor, Work
from forebay.broker.runtime.resources.turns import Turns
from forebay.broker.runtime.sink.buffer import Buffer
from forebay.broker.runtime.sink.flow_log import FlowLog
from forebay.broker.runtime.sink.retention import expiry
from forebay.broker.runtime.sink.retention.expiry import Expirer
from forebay.broker.runtime.sink.statistics import lag_is_due, replay_lags, sink_lags
from forebay.broker.runtime.sinks import Sinks
from forebay.state import flow
from forebay.state.flow import Flow

_log: Final = logging.getLogger(__name__)
PROBE_S: Final = 2.0
"""Interval between retries of failed reads that no reader requests."""
SWEEP_S: Final = 1.0
REALTIME_S: Final = 60.0
"""Interval between restarts of a tail that failed."""


class Housekeeping:
    """Periodic work of one broker. Used on the loop."""

    def __init__(
        self,
        sinks: Sinks,
        expirer: Expirer,
        epoch_sweep: EpochSweep,
        *,
        supervisor: Supervisor,
        committer: Committer,
        pages: Pages,
        age: AgeClock,
        memory: MemoryGuard,
        stream_memory: StreamMemory,
        ballast: BallastKeeper | None,
        instruments: Instruments,
        flow_log: FlowLog,
        on_memory: Callable[[], None],
    ) -> None:
        """``on_memory`` returns freed memory to the system."""
        self._sinks = sinks
        self._expirer = expirer
        self._epoch_sweep = epoch_sweep
        self._supervisor = supervisor
        self._committer = committer
        self._pages = pages
        self._age = age
        self._memory = memory
        self._stream_memory = stream_memory
        self._ballast = ballast
        self._instruments = instruments
        self._flow_log = flow_log
        self._on_memory = on_memory
        self._sweeps = 0
        self._turns = Turns()

    def start(self) -> None:
        """Start the periodic work; the supervisor ends it."""
        jobs: list[tuple[str, Callable[[], float], Work]] = [
            ("sinks", lambda: SWEEP_S, self._sweep_sinks),
            ("epochs", lambda: SWEEP_S, self._epoch_sweep.sweep),
            ("disk", lambda: SWEEP_S, self._check_disk),
            ("memory", lambda: SWEEP_S, self._check_memory),
            ("streams", lambda: SWEEP_S, self._check_streams),
            ("age", lambda: SWEEP_S, self.store_age),
            ("expiry", lambda: expiry.EXPIRE_S, self._expirer.sweep_all),
            ("realtime", lambda: REALTIME_S, self._restart_tail),
            ("reads", lambda: PROBE_S, self._pages.probe),
        ]
        for name, period_s, job in jobs:
            self._supervisor.repeat(name, period_s, job)

    async def store_age(self) -> None:
        """Write the age clock."""
        self._committer.write([self._age.reading()])

    async def _sweep_sinks(self) -> None:
        """Sweep time limits, memory and lag of each sink; a sink that fails does not affect the others."""
        pending = list(self._sinks.running.values())
        self._sweeps += 1
        sinks = {buffer.state.id for buffer in pending}
        self._turns.begin(sinks)
        self._flow_log.begin(sinks)
        while pending:
            await self._supervisor.attempt("sinks", partial(self._sweep_rest, pending))

    async def _sweep_rest(self, pending: list[Buffer]) -> None:
        slices = Slices()
        wants_lag = self._instruments.wants_lag
        lanes = sum(len(each.logs) * len(each.subscriptions) for each in self._sinks.running.values())
        while pending:
            await slices.turn()
            buffer = pending.pop()
            sink = buffer.state
            if self._sinks.running.get(buffer.name) is not buffer:  # deleted meanwhile, and perhaps recreated
                continue
            if self._turns.is_due(sink.id, is_empty=sink.is_empty):
                self._sinks.writers[buffer.name].sweep()
                buffer.sweep()
                await buffer.tier.relieve()
                if lag_is_due(self._sweeps, sink.id, lanes):
                    self._flow_log.observe(sink, buffer.subscriptions)
            if wants_lag and lag_is_due(self._sweeps, sink.id, lanes):
                await self.measure(buffer)

    async def _check_disk(self) -> None:
        self._committer.check_disk()
        if self._ballast is not None:
            await self._ballast.check(self._committer.free_bytes)

    async def _check_memory(self) -> None:
        self._memory.check()

    async def _restart_tail(self) -> None:
        self._pages.read_cache.restart()

    async def _check_streams(self) -> None:
        self._stream_memory.check()
        if self._stream_memory.calmed():
            await asyncio.to_thread(self._on_memory)

    async def measure(self, buffer: Buffer) -> None:
        """Measure a sink and the lag of its subscriptions, and report them to the instruments."""
        try:
            found, replays = await sink_lags(buffer), await replay_lags(buffer)
        except StoreFenced as damage:
            _log.error("lag could not be read sink=%s cause=%s", buffer.name, damage)
            return
        if buffer.state.gone.is_set():  # its gauges are removed for good
            return
        slices = Slices()
        states = {subscription.name: flow_of(subscription) for subscription, _ in found}
        self._instruments.sink_measured(buffer.name, self._measure_of(buffer, states.values()))
        self._instruments.replays_measured(buffer.name, replays)
        for subscription, lanes in found:
            await slices.turn()
            if not buffer.state.deleted and buffer.subscriptions.get(subscription.name) is subscription:
                self._instruments.measured(buffer.name, subscription.name, lanes, states[subscription.name].value)

    def _measure_of(self, buffer: Buffer, states: Iterable[Flow]) -> SinkMeasure:
        sink = buffer.state
        letters = self._sinks.running.get(dead_letter_sink_name(buffer.name))
        setting, records_max = sink.settings.records_max
        return SinkMeasure(
            records=sink.live.records,
            size=sink.live.size,
            state=flow.of_sink(states, full=sink.full).value,
            limit_used=sink.limit_used,
            staged_bytes=sink.staged.size,
            dead_letters=letters.state.live.records if letters is not None else None,
            replays=len(buffer.readers),
            records_limit=Limit(setting, records_max) if records_max else None,
            size_limit=Limit("max_total_bytes", sink.settings.max_total_bytes),
        )
