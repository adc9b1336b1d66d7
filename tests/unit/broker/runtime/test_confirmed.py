"""Statistics, instruments and the log tell of a drop when no crash can undo it any more."""

from __future__ import annotations

import asyncio
import logging

import pytest

from forebay.broker.core.errors import StoreFenced
from forebay.broker.core.partition.pages import DropReason
from forebay.broker.core.settings import SinkSettings
from forebay.broker.rpc.sinks.service import SinkServicer
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.storage.store.memory import MemoryStore
from forebay.v1 import sink_service_pb2 as pb
from tests.support.brokers.held_store import HeldStore
from tests.support.brokers.one_sink import fill
from tests.support.brokers.running import begin, running
from tests.support.brokers.taker import Taker
from tests.unit.broker.runtime.test_instruments import Notes

pytestmark = pytest.mark.anyio
STATS = pb.GetSinkStatsRequest(name="orders")


async def turns() -> None:
    """Let everything happen that waits for nothing."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_drop_is_reported_when_it_is_durable(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    store, notes = HeldStore(), Notes()
    async with running(store, instruments=notes) as broker:
        buffer, _ = await broker.create("orders", SinkSettings(buffer_page_size=1))
        await fill(buffer, 3)
        store.hold()
        buffer.removal.drop(0, buffer.logs[0].first_entries()[:2], DropReason.OVERFLOW)
        await store.reached()
        asked = asyncio.ensure_future(SinkServicer(broker).GetSinkStats(STATS, None))
        await turns()
        early = (asked.done(), notes.of("dropped"), list(caplog.records))
        store.let_go()
        stats = (await asked).stats

        assert early == (False, [], [])
        assert notes.of("dropped") == [("dropped", "orders", 0, DropReason.OVERFLOW, 2)]
        assert [record.getMessage() for record in caplog.records] == [
            "records were dropped sink=orders partition=0 reason=OVERFLOW records=2 drops=1 first=0 end=2"
        ]
        assert (stats.partitions[0].dropped[0].records, stats.subscriptions[0].partitions[0].dropped) == (2, 2)
        assert stats.identity_ok


async def test_an_ack_is_counted_when_it_is_durable() -> None:
    store = HeldStore()
    async with running(store) as broker:
        buffer, _ = await broker.create("orders", SinkSettings(buffer_page_size=1))
        await fill(buffer, 1)
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()
        store.hold()
        acking = asyncio.ensure_future(taker.ack(0, 1))
        await store.reached()
        asked = asyncio.ensure_future(SinkServicer(broker).GetSinkStats(STATS, None))
        await turns()
        early = asked.done()
        store.let_go()

        assert not early
        assert (await asked).stats.subscriptions[0].partitions[0].acked == 1
        await acking


async def test_an_ack_whose_consumer_has_gone_is_counted_when_it_is_durable_too() -> None:
    store = HeldStore()
    async with running(store) as broker:
        buffer, _ = await broker.create("orders", SinkSettings(buffer_page_size=1))
        await fill(buffer, 1)
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()
        store.hold()
        acking = asyncio.ensure_future(taker.ack(0, 1))
        await store.reached()
        acking.cancel()
        await asyncio.wait([acking])
        asked = asyncio.ensure_future(SinkServicer(broker).GetSinkStats(STATS, None))
        await turns()
        early = asked.done()
        store.let_go()

        assert not early
        assert (await asked).stats.subscriptions[0].partitions[0].acked == 1


async def test_statistics_do_not_wait_for_a_drop_after_their_request() -> None:
    store = HeldStore()
    async with running(store) as broker:
        buffer, _ = await broker.create("orders", SinkSettings(buffer_page_size=1))
        await fill(buffer, 2)
        store.hold()
        first = buffer.subscription("").accounts.save(0)
        await store.reached()
        asked = asyncio.ensure_future(SinkServicer(broker).GetSinkStats(STATS, None))
        await turns()
        buffer.removal.drop(0, buffer.logs[0].first_entries()[:1], DropReason.OVERFLOW)
        store.let_go()
        await first

        assert not (await asked).stats.partitions[0].dropped
        await buffer.removal.confirmed()


async def test_a_drop_that_never_becomes_durable_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    store, notes = MemoryStore(), Notes()
    broker = begin(store, FakeClock(), instruments=notes)
    buffer, _ = await broker.create("orders", SinkSettings(buffer_page_size=1))
    await fill(buffer, 2)
    store.fail_next("sync")

    buffer.removal.drop(0, buffer.logs[0].first_entries()[:1], DropReason.OVERFLOW)
    with pytest.raises(StoreFenced):
        await SinkServicer(broker).GetSinkStats(STATS, None)

    await broker.close()
    assert notes.of("dropped") == []
    assert not [record for record in caplog.records if "were dropped" in record.getMessage()]
