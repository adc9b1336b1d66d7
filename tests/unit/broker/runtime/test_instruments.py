"""Events of the runtime for its instruments, and that none is reported too early."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from forebay.broker.core.errors import SinkFull, StoreFenced
from forebay.broker.core.partition.pages import DropReason, Entry
from forebay.broker.core.partition.position import At, Position
from forebay.broker.core.settings import Overflow, SinkSettings
from forebay.broker.runtime import housekeeping
from forebay.broker.runtime.broker import Broker
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.runtime.commit.committer import Synced
from forebay.broker.runtime.delivery.events import Delivered
from forebay.broker.runtime.instruments import Instruments, Lag, Limit, SinkMeasure
from forebay.broker.runtime.sink.buffer import Buffer
from forebay.broker.storage.store.memory import MemoryStore
from tests.support.brokers.held_store import HeldStore
from tests.support.brokers.running import begin, running
from tests.support.brokers.taker import Taker
from tests.support.pages.samples import page

pytestmark = pytest.mark.anyio


class Notes(Instruments):
    """Instruments that record the values they were called with."""

    def __init__(self, *, wants_lag: bool = False) -> None:
        self.wants_lag = wants_lag
        self.told: list[tuple[Any, ...]] = []
        self.syncs: list[Synced] = []
        self.lags: list[tuple[str, str, Sequence[Lag]]] = []
        self.states: list[tuple[str, str, str]] = []
        self.measures: dict[str, SinkMeasure] = {}
        self.lag_came = asyncio.Event()

    def ingested(
        self,
        sink: str,
        partition: int,
        entries: Sequence[Entry],
        age_now_us: int,
        *,
        beside: tuple[int, int] = (0, 0),
    ) -> None:
        records = sum(entry.count for entry in entries) + beside[0]
        self.told.append(("ingested", sink, partition, records, age_now_us - entries[0].age_us))

    def synced(self, synced: Synced) -> None:
        self.syncs.append(synced)

    def delivered(self, sink: str, subscription: str, event: Delivered, redelivered: int, now_us: int) -> None:
        self.told.append(("delivered", sink, subscription, sum(r.size for r in event.ranges), redelivered))

    def settled(self, sink: str, subscription: str, partition: int, outcome: str, records: int) -> None:
        self.told.append(("settled", sink, subscription, partition, outcome, records))

    def resided(self, sink: str, subscription: str, pages: Sequence[tuple[float, str]]) -> None:
        self.told.append(("resided", sink, subscription, [seconds for seconds, _ in pages]))

    def failed(self, sink: str, subscription: str, why: str) -> None:
        self.told.append(("failed", sink, subscription, why))

    def measured(self, sink: str, subscription: str, lanes: Sequence[Lag], state: str) -> None:
        self.lags.append((sink, subscription, lanes))
        self.states.append((sink, subscription, state))
        self.lag_came.set()

    def sink_measured(self, sink: str, measure: SinkMeasure) -> None:
        self.measures[sink] = measure

    def append_refused(self, sink: str, reason: str) -> None:
        self.told.append(("refused", sink, reason))

    def dropped(self, sink: str, partition: int, reason: DropReason, records: int) -> None:
        self.told.append(("dropped", sink, partition, reason, records))

    def forgotten(self, sink: str, subscription: str | None = None) -> None:
        self.told.append(
            ("forgotten", sink) if subscription is None else ("subscription forgotten", sink, subscription)
        )

    def of(self, *kinds: str) -> list[tuple[Any, ...]]:
        """Reported events of these kinds, in order."""
        return [one for one in self.told if one[0] in kinds]


async def orders(broker: Broker, records: int = 0, **settings: Any) -> Buffer:
    """A sink with pages of one record."""
    buffer, _ = await broker.create("orders", SinkSettings(buffer_page_size=1, **settings))
    for number in range(records):
        await (await buffer.append(page(b"%d" % number))).done
    return buffer


async def test_a_page_is_reported_once_it_is_durable_and_with_the_time_that_took() -> None:
    notes, clock = Notes(), FakeClock()
    async with running(clock=clock, instruments=notes) as broker:
        buffer = await orders(broker)
        append = await buffer.append(page(b"a", b"b"))
        clock.advance(0.25)
        before = list(notes.told)
        await append.done

        assert before == []
        assert notes.of("ingested") == [("ingested", "orders", 0, 2, 250_000)]


async def test_a_page_that_never_became_durable_is_not_reported() -> None:
    notes, store = Notes(), MemoryStore()
    broker = begin(store, FakeClock(), instruments=notes)
    buffer = await orders(broker)
    syncs = len(notes.syncs)
    store.fail_next("sync")
    append = await buffer.append(page(b"a"))

    with pytest.raises(StoreFenced):
        await append.done

    assert notes.of("ingested") == []
    assert len(notes.syncs) == syncs
    await broker.close()


async def test_every_commit_is_reported_with_its_size() -> None:
    notes = Notes()
    async with running(instruments=notes) as broker:
        buffer = await orders(broker, 1)
        size = buffer.logs[0].size

        assert len(notes.syncs) == broker.committer.groups
        assert [(one.pages, one.size) for one in notes.syncs if one.pages] == [(1, size)]


async def test_deliveries_and_acks_are_reported_with_how_long_the_records_stayed() -> None:
    notes, clock = Notes(), FakeClock()
    async with running(clock=clock, instruments=notes) as broker:
        buffer = await orders(broker, 2)
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()
        clock.advance(3)
        await taker.ack(0, 2)
        await taker.ack(0, 2)

        assert notes.of("delivered", "settled", "resided") == [
            ("delivered", "orders", "default", 2, 0),
            ("settled", "orders", "default", 0, "acked", 2),
            ("resided", "orders", "default", [3.0, 3.0]),
        ]


async def test_the_residence_time_of_records_spans_a_restart() -> None:
    clock, store = FakeClock(), MemoryStore()
    async with running(store, clock) as broker:
        await orders(broker, 1)
        clock.advance(10)
    clock.advance(60)
    notes = Notes()
    async with running(store.reopen(), clock, instruments=notes) as broker:
        taker = Taker(broker.sink("orders").subscription(""))
        await taker.all_offsets()
        await taker.ack(0, 1)

        assert notes.of("resided") == [("resided", "orders", "default", [70.0])]


async def test_a_failed_delivery_reports_why_and_what_is_sent_again_is_reported_as_such() -> None:
    notes, clock = Notes(), FakeClock()
    async with running(clock=clock, instruments=notes) as broker:
        buffer = await orders(broker, 2)
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()
        await taker.nack(1, 2, reason="the target said so")
        await taker.all_offsets()
        clock.advance(buffer.settings.ack_deadline_us / 1e6)
        buffer.subscription("").process_timers()
        clock.advance(60)
        await taker.one()
        buffer.subscription("").leave(taker.consumer)

        assert [one[-1] for one in notes.of("failed")] == ["nack", "deadline", "disconnect"]
        assert [one[-2:] for one in notes.of("delivered")] == [(2, 0), (1, 1), (1, 1)]


async def test_an_answer_that_settles_nothing_is_not_reported() -> None:
    notes = Notes()
    async with running(instruments=notes) as broker:
        buffer = await orders(broker, 1)
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()
        await taker.ack(5, 6)

        assert notes.of("settled", "resided", "failed") == []


async def test_a_drop_is_reported_and_settles_only_pending_records() -> None:
    notes = Notes()
    async with running(instruments=notes) as broker:
        buffer = await orders(broker, 2, max_disk_cache=2, overflow=Overflow.DROP_OLDEST)
        await (await buffer.append(page(b"2"))).done

        assert notes.of("dropped", "settled") == [
            ("settled", "orders", "default", 0, "dropped", 1),
            ("dropped", "orders", 0, DropReason.OVERFLOW, 1),
        ]


async def test_lag_is_measured_only_for_who_wants_it() -> None:
    indifferent, curious = Notes(), Notes(wants_lag=True)
    async with running(instruments=indifferent) as quiet, running(instruments=curious) as watched:
        await orders(quiet, 1)
        await orders(watched, 3)
        async with asyncio.timeout(10):
            await curious.lag_came.wait()
            await curious_lag(curious, pending=3)

    assert indifferent.lags == []


async def curious_lag(notes: Notes, *, pending: int) -> None:
    """Return when a lag of so many records was measured."""
    while [lane.pending for lane in notes.lags[-1][2]] != [pending]:
        notes.lag_came.clear()
        await notes.lag_came.wait()


async def test_the_state_of_sinks_and_subscriptions_is_measured_with_their_lag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "SWEEP_S", 0.01)
    notes = Notes(wants_lag=True)
    async with running(instruments=notes) as broker:
        buffer = await orders(broker, 2, max_disk_cache=4)
        async with asyncio.timeout(10):
            await notes.lag_came.wait()
            await curious_lag(notes, pending=2)

        assert notes.states[-1] == ("orders", "default", "no consumer")
        assert notes.measures["orders"] == SinkMeasure(
            *(2, buffer.logs[0].size, "no consumer", 0.5, 0, None),
            replays=0,
            records_limit=Limit("max_disk_cache", 4),
            size_limit=Limit("max_total_bytes", buffer.settings.max_total_bytes),
        )


async def test_an_append_that_finds_no_room_is_reported_with_its_reason() -> None:
    notes = Notes()
    async with running(instruments=notes) as broker:
        buffer = await orders(broker, 1, max_disk_cache=1)

        with pytest.raises(SinkFull):
            await buffer.append(page(b"1"))

        assert notes.of("refused") == [("refused", "orders", "SINK_FULL")]


async def test_a_deleted_sink_is_removed_from_the_metrics() -> None:
    notes = Notes()
    async with running(instruments=notes) as broker:
        await orders(broker, 1)
        await broker.delete("orders", force=True)

        assert notes.told[-1] == ("forgotten", "orders")


async def test_a_sink_recreated_during_its_deletion_removes_the_subscriptions_that_it_lacks_from_the_metrics() -> None:
    notes, store = Notes(), HeldStore()
    async with running(store, instruments=notes) as broker:
        buffer = await orders(broker, 1)
        for name in ("audit", "billing"):
            await buffer.subscribing.create(name, Position(At.LATEST), or_earliest=False)
        store.hold()
        deleting = asyncio.ensure_future(broker.delete("orders", force=True))
        await store.reached()
        creating = asyncio.ensure_future(broker.create("orders", SinkSettings()))
        await asyncio.sleep(0)
        naming = asyncio.ensure_future(
            broker.sink("orders").subscribing.create("audit", Position(At.LATEST), or_earliest=False)
        )
        store.let_go()
        await asyncio.gather(deleting, creating, naming)

        assert notes.of("forgotten", "subscription forgotten") == [("subscription forgotten", "orders", "billing")]


async def test_a_broker_without_exporters_wants_nothing() -> None:
    assert not Instruments().wants_lag
