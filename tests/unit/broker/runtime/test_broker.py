from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from holdfast.broker.core.errors import (
    Draining,
    InvalidName,
    InvalidSetting,
    SinkExists,
    SinkNotEmpty,
    SinkNotFound,
    StoreFenced,
    TooManySinks,
    TooManyStreams,
)
from holdfast.broker.core.settings import DEFAULTS, SinkSettings
from holdfast.broker.core.writes import PutSink
from holdfast.broker.runtime import broker as broker_module
from holdfast.broker.runtime.broker import Bounds, Broker
from holdfast.broker.runtime.clock import FakeClock
from holdfast.broker.runtime.instruments import Instruments
from holdfast.broker.runtime.stats import LaneState
from holdfast.broker.storage import keys
from holdfast.broker.storage.contract import Family
from holdfast.broker.storage.memory import MemoryStore
from tests.unit.broker.running import begin, running
from tests.unit.broker.runtime.held_store import HeldStore
from tests.unit.broker.runtime.taker import Taker
from tests.unit.broker.samples import page

pytestmark = pytest.mark.anyio


async def fill(broker: Broker, records: int, sink: str = "orders") -> None:
    for _ in range(records):
        append = await broker.sink(sink).append(page(b"x"))
        await append.done


# -- making


async def test_a_sink_is_made_once_and_the_same_wish_finds_it() -> None:
    async with running() as broker:
        first, created = await broker.create("orders", SinkSettings(partitions=2))
        second, again = await broker.create("orders", SinkSettings(partitions=2))

        assert (created, again) == (True, False)
        assert second is first


async def test_a_sink_with_other_settings_is_told_what_differs() -> None:
    async with running() as broker:
        await broker.create("orders", SinkSettings())

        with pytest.raises(SinkExists, match="partitions is 1, asked is 2"):
            await broker.create("orders", SinkSettings(partitions=2))


async def test_two_wishes_at_once_are_both_answered_when_the_sink_is_durable() -> None:
    store = HeldStore()
    async with running(store) as broker:
        store.hold()
        wishes = [asyncio.ensure_future(broker.create("orders", SinkSettings())) for _ in range(2)]
        await store.reached()
        waiting = [wish.done() for wish in wishes]
        store.let_go()
        answers = await asyncio.gather(*wishes)

        assert waiting == [False, False]
        assert [created for _, created in answers] == [True, False]


async def test_a_wish_that_nobody_waits_for_any_more_is_fulfilled_all_the_same() -> None:
    store = HeldStore()
    async with running(store) as broker:
        store.hold()
        wish = asyncio.ensure_future(broker.create("orders", SinkSettings()))
        await store.reached()
        wish.cancel()
        await asyncio.gather(wish, return_exceptions=True)
        store.let_go()
        _, created = await broker.create("orders", SinkSettings())

        assert not created
    async with running(store.reopen()) as broker:
        assert set(broker.sinks) == {"orders"}


@pytest.mark.parametrize("name", ["", "Orders", "-x", "a" * 124, "a/b", "orders.dlq", "ordérs", "a\n"])
async def test_a_wrong_name_is_refused(name: str) -> None:
    async with running() as broker:
        with pytest.raises(InvalidName):
            await broker.create(name, SinkSettings())


async def test_wrong_settings_are_refused() -> None:
    async with running() as broker:
        with pytest.raises(InvalidSetting):
            await broker.create("orders", SinkSettings(partitions=0))

        assert not broker.sinks


async def test_there_are_no_more_sinks_and_partitions_than_the_bounds() -> None:
    async with running(bounds=Bounds(sinks=3, partitions=5)) as broker:
        await broker.create("a", SinkSettings(partitions=3))
        with pytest.raises(TooManySinks) as partitions:
            await broker.create("b", SinkSettings(partitions=3))
        await broker.create("b", SinkSettings(partitions=1))
        await broker.create("c", SinkSettings(partitions=1))
        with pytest.raises(TooManySinks) as sinks:
            await broker.create("d", SinkSettings())

        assert partitions.value.facts == {"what": "partitions", "bound": "5"}
        assert sinks.value.facts == {"what": "sinks", "bound": "3"}


# -- deleting


async def test_a_sink_that_holds_unsettled_records_is_deleted_by_force_only() -> None:
    async with running() as broker:
        await broker.create("orders", SinkSettings())
        await fill(broker, 3)

        with pytest.raises(SinkNotEmpty) as refused:
            await broker.delete("orders", force=False)
        await broker.delete("orders", force=True)

        assert refused.value.facts == {"sink": "orders", "pending": "3"}
        with pytest.raises(SinkNotFound):
            broker.sink("orders")


async def test_a_sink_whose_records_are_all_settled_needs_no_force() -> None:
    async with running() as broker:
        await broker.create("orders", SinkSettings())
        await fill(broker, 3)
        taker = Taker(broker.sink("orders").subscription(""))
        await taker.all_offsets()
        await taker.ack(0, 3)

        await broker.delete("orders", force=False)


async def test_a_sink_made_again_is_another_one() -> None:
    store = MemoryStore()
    async with running(store) as broker:
        first, _ = await broker.create("orders", SinkSettings())
        await fill(broker, 3)
        await broker.delete("orders", force=True)
        second, _ = await broker.create("orders", SinkSettings(partitions=2))

        assert second.record.incarnation != first.record.incarnation
        assert second.record.id != first.record.id
        assert second.logs[0].next_offset == 0
    async with running(store.reopen()) as broker:
        assert broker.sink("orders").record.incarnation == second.record.incarnation
        assert broker.sink("orders").pending == 0


async def test_a_deletion_that_nobody_waits_for_any_more_is_done_all_the_same() -> None:
    store = HeldStore()
    async with running(store) as broker:
        buffer, _ = await broker.create("orders", SinkSettings())
        store.hold()
        append = await buffer.append(page(b"a"))
        await store.reached()
        deleting = asyncio.ensure_future(broker.delete("orders", force=True))
        await asyncio.sleep(0)
        deleting.cancel()
        await asyncio.gather(deleting, return_exceptions=True)
        store.let_go()
        await append.done
    async with running(store.reopen()) as broker:
        assert not broker.sinks


# -- after a restart


async def test_a_start_finds_sinks_records_accounts_and_pauses() -> None:
    store = MemoryStore()
    async with running(store) as broker:
        await broker.create("orders", SinkSettings(buffer_page_size=1))
        await broker.create("paused", SinkSettings(partitions=3))
        await broker.sink("paused").stop("at night")
        await fill(broker, 5)
        taker = Taker(broker.sink("orders").subscription(""))
        await taker.all_offsets()
        await taker.ack(0, 2)

    async with running(store.reopen()) as broker:
        buffer = broker.sink("orders")
        assert set(broker.sinks) == {"orders", "paused"}
        assert (buffer.logs[0].next_offset, buffer.pending) == (5, 3)
        assert broker.sink("paused").record.paused == "at night"
        assert len(broker.sink("paused").logs) == 3
        assert await Taker(buffer.subscription("")).all_offsets() == [2, 3, 4]
        await fill(broker, 1)
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


async def test_streams_are_counted_and_bounded() -> None:
    async with running(bounds=Bounds(streams=2)) as broker:
        broker.enter_stream()
        broker.enter_stream()
        with pytest.raises(TooManyStreams):
            broker.enter_stream()
        broker.leave_stream()

        broker.enter_stream()

        assert broker.streams == 2


async def test_a_draining_broker_takes_no_new_work_and_ends_its_streams() -> None:
    async with running() as broker:
        await broker.create("orders", SinkSettings())
        append = await broker.sink("orders").append(page(b"a"))

        await broker.drain()

        assert append.done.done(), "what waited became durable"
        await broker.ended()
        with pytest.raises(Draining):
            broker.enter_stream()
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
        broker.enter_stream()
    with pytest.raises(StoreFenced):
        await broker.delete("orders", force=True)
    await broker.close()


class Lags(Instruments):
    """Notes what it is told about the lag."""

    wants_lag = True

    def __init__(self) -> None:
        self.seen: list[tuple[str, int]] = []

    def measured(self, sink: str, subscription: str, lanes: list[LaneState]) -> None:
        """Note it."""
        self.seen.append((sink, sum(lane.pending for lane in lanes)))


async def test_the_sweeper_measures_and_stores_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_module, "SWEEP_S", 0.01)
    store, lags = MemoryStore(), Lags()
    async with running(store, instruments=lags) as broker:
        await broker.create("orders", SinkSettings())
        await fill(broker, 2)
        async with asyncio.timeout(10):
            while ("orders", 2) not in lags.seen:
                await asyncio.sleep(0.001)
        await broker.committer.drained()

        assert store.get_many(Family.META, [keys.AGE]) != [None]


async def test_damage_in_the_index_of_one_sink_does_not_stop_the_sweeper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_module, "SWEEP_S", 0.01)
    store = MemoryStore()
    async with running(store) as broker:
        await broker.create("damaged", SinkSettings())
        await broker.create("orders", SinkSettings())
        await fill(broker, 2, "damaged")
        await fill(broker, 2)
    store, lags = store.reopen(), Lags()
    for key, _ in store.scan(Family.INDEX, b"", b"\xff", 1):
        store.damage(Family.INDEX, key)
    async with running(store, instruments=lags):
        async with asyncio.timeout(10):
            while lags.seen.count(("orders", 2)) < 3:
                await asyncio.sleep(0.001)
