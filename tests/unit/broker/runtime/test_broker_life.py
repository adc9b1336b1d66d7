from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from forebay.broker.core.errors import (
    Draining,
    StoreFenced,
)
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.settings import DEFAULTS, SinkSettings
from forebay.broker.core.writes import PutSink
from forebay.broker.runtime import housekeeping
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.runtime.instruments import Instruments, Lag
from forebay.broker.storage.records.pages.entry import ENTRY
from forebay.broker.storage.records.store import AGE
from forebay.broker.storage.store.contract import Family
from forebay.broker.storage.store.memory import MemoryStore
from tests.support.brokers.one_sink import fill
from tests.support.brokers.running import begin, running
from tests.support.brokers.taker import Taker
from tests.support.pages.samples import page

pytestmark = pytest.mark.anyio


# -- after a restart


async def test_a_start_finds_sinks_records_accounts_and_pauses() -> None:
    store = MemoryStore()
    async with running(store) as broker:
        await broker.create("orders", SinkSettings(buffer_page_size=1))
        await broker.create("paused", SinkSettings(partitions=3))
        await broker.sink("paused").stop("at night")
        await fill(broker.sink("orders"), 5)
        taker = Taker(broker.sink("orders").subscription(""))
        await taker.all_offsets()
        await taker.ack(0, 2)

    async with running(store.reopen()) as broker:
        buffer = broker.sink("orders")
        assert set(broker.sinks) == {"orders", "paused"}
        assert (buffer.logs[0].next_offset, buffer.state.pending) == (5, 3)
        assert broker.sink("paused").record.paused == "at night"
        assert len(broker.sink("paused").logs) == 3
        assert await Taker(buffer.subscription("")).all_offsets() == [2, 3, 4]
        await fill(broker.sink("orders"), 1)
        assert buffer.logs[0].next_offset == 6


async def test_a_wrong_stored_setting_is_corrected_and_keeps_no_sink_from_starting() -> None:
    store = MemoryStore()
    async with running(store) as broker:
        buffer, _ = await broker.create("orders", SinkSettings())
        wrong = replace(buffer.record, settings=replace(DEFAULTS, buffer_page_size=0))
        await broker.committer.write([PutSink(wrong)])

    async with running(store.reopen()) as broker:
        assert broker.sink("orders").settings == DEFAULTS


# -- streams, and the end


async def test_a_draining_broker_takes_no_new_work_and_ends_its_streams() -> None:
    async with running() as broker:
        await broker.create("orders", SinkSettings())
        append = await broker.sink("orders").append(page(b"a"))

        await broker.drain()

        assert append.done.done(), "what waited became durable"
        await broker.ended()
        with pytest.raises(Draining):
            broker.check_serving()
        with pytest.raises(Draining):
            await broker.create("more", SinkSettings())


async def test_a_fenced_broker_ends_its_streams_and_can_be_closed() -> None:
    store = MemoryStore()
    broker = begin(store, FakeClock())
    await broker.create("orders", SinkSettings())
    store.fail_next("sync")
    append = await broker.sink("orders").append(page(b"a"))
    with pytest.raises(StoreFenced):
        await append.done

    await broker.ended()
    with pytest.raises(StoreFenced):
        broker.check_serving()
    with pytest.raises(StoreFenced):
        await broker.delete("orders", force=True)
    await broker.close()


class Lags(Instruments):
    """Records the measured lags."""

    wants_lag = True

    def __init__(self) -> None:
        self.seen: list[tuple[str, int]] = []

    def measured(self, sink: str, subscription: str, lanes: Sequence[Lag], state: str) -> None:
        """Note it."""
        self.seen.append((sink, sum(lane.pending for lane in lanes)))


async def test_the_sweeper_measures_and_stores_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "SWEEP_S", 0.01)
    store, lags = MemoryStore(), Lags()
    async with running(store, instruments=lags) as broker:
        await broker.create("orders", SinkSettings())
        await fill(broker.sink("orders"), 2)
        async with asyncio.timeout(10):
            while ("orders", 2) not in lags.seen or store.get_many(Family.META, [AGE.key()]) == [None]:
                await asyncio.sleep(0.001)


async def test_an_empty_sink_is_measured_as_often_as_one_with_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "SWEEP_S", 0.01)
    lags = Lags()
    async with running(instruments=lags) as broker:
        await broker.create("empty", SinkSettings())
        await broker.create("orders", SinkSettings())
        await fill(broker.sink("orders"), 2)
        async with asyncio.timeout(10):
            while lags.seen.count(("orders", 2)) < 6:
                await asyncio.sleep(0.001)

    assert lags.seen.count(("empty", 0)) >= 5


async def test_damage_in_the_index_of_one_sink_does_not_stop_the_sweeper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "SWEEP_S", 0.01)
    store = MemoryStore()
    async with running(store) as broker:
        await broker.create("damaged", SinkSettings())
        await broker.create("orders", SinkSettings())
        await fill(broker.sink("damaged"), 2)
        await fill(broker.sink("orders"), 2)
    store, lags = store.reopen(), Lags()
    for key, _ in store.scan(Family.INDEX, b"", b"\xff", 1):
        store.damage(Family.INDEX, key)
    async with running(store, instruments=lags):
        async with asyncio.timeout(10):
            while lags.seen.count(("orders", 2)) < 3:
                await asyncio.sleep(0.001)


async def test_a_page_that_the_index_lost_is_named_again_and_trimmed_as_the_others_are() -> None:
    store = MemoryStore()
    async with running(store) as broker:
        buffer, _ = await broker.create("orders", SinkSettings(partitions=2))
        for partition in (0, 1):
            await fill(buffer, 2, partition=partition)
    store = store.reopen()
    store.damage(Family.INDEX, ENTRY.key(buffer.record.id, 0, 0))
    async with running(store) as broker:
        buffer = broker.sink("orders")
        taker = Taker(buffer.subscription(""))
        for partition in (0, 1):
            await taker.subscription.ack(partition, taker.answer(partition), [Range(0, 2)], until=True)

        async with asyncio.timeout(10):
            while any(log.pages for log in buffer.logs):
                await asyncio.sleep(0.001)
        assert [log.head.removed_records for log in buffer.logs] == [2, 2]
        assert [log.gaps for log in buffer.logs] == [(), ()]
