"""Samples of a running broker: one every few seconds, however many pages are open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from forebay.broker.console.facts import Facts
from forebay.broker.console.figures import BrokerFigures, ShardFigures, ShardOwner, SinkFigures, Snapshot
from forebay.broker.console.health import Health
from forebay.broker.console.history import HISTORIES_MAX, SAMPLE_S, Count, History, Rates, Settled
from forebay.broker.core.delivery.lane import Lane
from forebay.broker.core.delivery.redelivery import State
from forebay.broker.core.errors import BrokerError
from forebay.broker.runtime.broker import Broker
from forebay.broker.runtime.commit.pulse import Pulse
from forebay.broker.runtime.delivery.flow import flow_of
from forebay.broker.runtime.delivery.lanes import DEFAULT_SUBSCRIPTION
from forebay.broker.runtime.resources.connections import Connections
from forebay.broker.runtime.resources.memory import Reading, measure
from forebay.broker.runtime.resources.slices import Slices
from forebay.broker.runtime.sink.buffer import Buffer
from forebay.broker.runtime.sink.statistics import sink_lags
from forebay.state import flow
from forebay.state.flow import Flow

DEAD_LETTERS: Final = ".dlq"

SINKS_AT_EASE: Final = 1_000
"""Sinks up to which a sample is taken at the shortest interval: each takes 40 µs."""


class Sampler:
    """Snapshots of one broker. Used on its loop."""

    def __init__(
        self,
        broker: Broker,
        connections: Connections,
        facts: Facts,
        measure_memory: Callable[[], Sequence[Reading]] = measure,
    ) -> None:
        self._broker = broker
        self._connections = connections
        self._facts = facts
        self._measure_memory = measure_memory
        self._total = History()
        self._histories: dict[str, History] = {}
        self._health = Health()
        self._settled: dict[str, Settled] = {}
        """Counts of all sinks, also of those without a history."""
        self._settled_in_all = 0
        self._ages: dict[str, float | None] = {}
        """Ages of the oldest unsettled records that were asked for, by sink, as of this snapshot."""
        self.changed = Pulse()
        """Fires after each sample."""
        self.snapshot: Snapshot | None = None

    def period_s(self) -> float:
        """Return the time between two samples: longer with very many sinks, so that they take 1 % of the loop."""
        return SAMPLE_S * max(1.0, len(self._broker.sinks) / SINKS_AT_EASE)

    async def current(self) -> Snapshot:
        """Return the newest snapshot; takes the first one."""
        if self.snapshot is None:
            await self.sample()
        assert self.snapshot is not None, "it was taken"
        return self.snapshot

    async def sample(self) -> None:
        """Take a snapshot."""
        broker, slices, now = self._broker, Slices(), self._broker.clock.monotonic()
        sinks: list[SinkFigures] = []
        appended = waiting = 0
        for name in sorted(broker.sinks):
            await slices.turn()
            buffer = broker.sinks.get(name)
            if buffer is None:
                continue
            pending = _pending(buffer)
            count, slowest = self._count(buffer, pending, now)
            appended, waiting = appended + count.appended, waiting + count.waiting
            flows = {one.name: flow_of(one) for one in buffer.subscriptions.values()}
            figures = self._figures(buffer, count, slowest, flows, now)
            self._health.add(name, buffer.subscriptions, flows, pending, figures.rates.into, now)
            sinks.append(figures)
        for name in self._settled.keys() - broker.sinks.keys():
            del self._settled[name]
            self._histories.pop(name, None)
            self._health.forget(name)
        self._total.add(Count(now, "", appended, waiting, self._settled_in_all))
        self._ages.clear()
        self.snapshot = Snapshot(
            at_us=broker.clock.wall_us(),
            number=self.snapshot.number + 1 if self.snapshot is not None else 1,
            broker=await self._broker_figures(),
            sinks=tuple(sinks),
            total=self._total,
            histories=self._histories,
            health=self._health,
        )
        self.changed.fire()

    async def aged(self, sinks: Sequence[SinkFigures]) -> list[SinkFigures]:
        """Return figures with the ages of the oldest unsettled records, which take index reads."""
        found: list[SinkFigures] = []
        for one in sinks:
            if one.waiting and one.name not in self._ages:
                self._ages[one.name] = await self._age_s(one.name)
            found.append(replace(one, oldest_age_s=self._ages.get(one.name)))
        return found

    async def _age_s(self, name: str) -> float | None:
        buffer = self._broker.sinks.get(name)
        if buffer is None:
            return None
        try:
            lags = await sink_lags(buffer)
        except BrokerError:  # the store is fenced, which the page says
            return None
        ages = [lane.oldest_age_us for _, lanes in lags for lane in lanes if lane.pending]
        return max(ages) / 1e6 if ages else None

    def _count(self, buffer: Buffer, pending: Mapping[str, int], now: float) -> tuple[Count, str]:
        """Return the counters of a sink, and its slowest subscription."""
        slowest = DEFAULT_SUBSCRIPTION if DEFAULT_SUBSCRIPTION in pending else next(iter(pending), "")
        slowest = max(pending, key=lambda name: (pending[name], name == slowest), default="")
        settled = self._settled.setdefault(buffer.name, Settled())
        by_subscription = {one.name: one.accounts.settled_records for one in buffer.subscriptions.values()}
        self._settled_in_all += settled.add(slowest, by_subscription)
        appended = sum(log.tail.next_offset for log in buffer.logs)
        return Count(now, buffer.record.incarnation, appended, pending.get(slowest, 0), settled.count), slowest

    def _figures(
        self, buffer: Buffer, count: Count, slowest: str, flows: Mapping[str, Flow], now: float
    ) -> SinkFigures:
        history = self._histories.get(buffer.name)
        if history is None and len(self._histories) < HISTORIES_MAX:
            history = self._histories[buffer.name] = History()
        sink = buffer.state
        state = flow.of_sink(flows.values(), full=sink.full)
        if history is not None:
            history.add(count, state)
        lanes: Sequence[Lane] = sink.lanes.get(slowest, ())
        held = [lane for lane in lanes if lane.resend.state in {State.BACKING_OFF, State.PAUSED}]
        retries = [lane.resend.until - now for lane in held if lane.resend.state is State.BACKING_OFF]
        letters = self._broker.sinks.get(buffer.name + DEAD_LETTERS)
        return SinkFigures(
            name=buffer.name,
            state=state.value,
            waiting=count.waiting,
            waiting_bytes=sink.live.size,
            records=sink.live.records,
            subscription=slowest,
            consumers=sum(len(one.owners.consumers) for one in buffer.subscriptions.values()),
            share=min(1.0, sink.limit_used),
            rates=history.now if history is not None else Rates(),
            reason=next((lane.resend.reason for lane in held if lane.resend.reason), ""),
            retry_in_s=max(0.0, min(retries)) if retries else None,
            dead_letters=letters.state.live.records if letters is not None else 0,
        )

    async def _broker_figures(self) -> BrokerFigures:
        broker, facts = self._broker, self._facts
        fenced = broker.committer.fenced
        readings = await asyncio.to_thread(self._measure_memory)
        worst = max(readings, key=lambda each: each.used / each.limit, default=Reading("", 0, 0))
        syncs = sorted(broker.committer.recent_s)
        outage = broker.committer.outage()
        return BrokerFigures(
            state="fenced" if fenced is not None else "draining" if broker.draining else "serving",
            state_reason=str(fenced) if fenced is not None else "it is stopping" if broker.draining else "",
            endpoint=facts.endpoint(),
            version=facts.version,
            up_s=max(0.0, (broker.clock.wall_us() - facts.started_at_us) / 1e6),
            sinks=len(broker.sinks),
            sinks_max=broker.bounds.sinks,
            streams=len(broker.streams),
            connections=sum(self._connections.counts.values()),
            disk_free=broker.committer.free_bytes,
            disk_reserve=broker.bounds.disk_reserve,
            memory_used=worst.used,
            memory_limit=worst.limit,
            memory_watermark=broker.bounds.memory_high_watermark,
            sync_p50_s=syncs[len(syncs) // 2] if syncs else None,
            sync_p99_s=syncs[len(syncs) * 99 // 100] if syncs else None,
            quarantined_pages=broker.quarantine.pages,
            warnings=tuple(facts.warnings()),
            journal_outage=outage.reason.name if outage is not None else "",
            journal_outage_cause=outage.cause if outage is not None else "",
            shard=self._shard(),
        )

    def _shard(self) -> ShardFigures | None:
        checkpoints, fleet = self._broker.checkpoints, self._broker.fleet
        if checkpoints is None:
            return None
        return ShardFigures(
            checkpoints.journal,
            checkpoints.owner_epoch,
            checkpoints.journal_position,
            checkpoints.journal_bytes or 0,
            tuple(ShardOwner(one.shard, one.endpoint, one.epoch, one == fleet.own) for one in fleet.known),
        )


def _pending(buffer: Buffer) -> dict[str, int]:
    """Return the unsettled records of each subscription."""
    ends = [log.tail.next_offset for log in buffer.logs]
    return {
        name: sum(lane.cursor.pending(end) for lane, end in zip(lanes, ends, strict=False))
        for name, lanes in buffer.state.lanes.items()
    }
