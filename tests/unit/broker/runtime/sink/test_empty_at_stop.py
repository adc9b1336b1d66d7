from __future__ import annotations

import asyncio

import pytest

from forebay.broker.core.partition.pages import DropReason
from forebay.broker.core.settings import SinkSettings
from forebay.broker.runtime.broker import Broker
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.runtime.sink.retention.purge import empty
from forebay.broker.storage.store.memory import MemoryStore
from tests.support.brokers.one_sink import fill
from tests.support.brokers.running import begin, running
from tests.support.brokers.taker import Taker
from tests.support.pages.samples import page

pytestmark = pytest.mark.anyio
CLEANED = DropReason.CLEANED_AT_STOP


async def cleaned(broker: Broker, name: str = "orders", *, partitions: int = 1) -> None:
    await broker.create(name, SinkSettings(buffer_page_size=1, clean_cache_at_stop=True, partitions=partitions))


async def test_a_clean_stop_empties_the_sink_counted_and_with_a_gap() -> None:
    """`clean_cache_at_stop`: stop, start: pending 0, the drop counted."""
    store = MemoryStore()
    async with running(store) as broker:
        await cleaned(broker, partitions=2)
        await broker.create("kept", SinkSettings(buffer_page_size=1))
        await fill(broker.sink("orders"), 5)
        await fill(broker.sink("orders"), 1, partition=1)
        await fill(broker.sink("kept"), 2)

    async with running(store.crash()) as broker:
        buffer = broker.sink("orders")
        first, second = buffer.logs
        assert (buffer.state.pending, broker.sink("kept").state.pending) == (0, 2)
        assert (first.head.dropped, second.head.dropped) == (((CLEANED, 5),), ((CLEANED, 1),))
        assert [(gap.first, gap.end, gap.reason) for gap in first.gaps] == [(0, 5, CLEANED)]
        assert buffer.subscription("").lanes[0].cursor.dropped == 5
        await fill(buffer, 1)
        taker = Taker(buffer.subscription(""))
        assert await taker.all_offsets() == [5]
        assert taker.told_gaps() == [(0, 5)]


async def test_records_in_flight_at_a_stop_are_counted_as_dropped_and_acked_records_are_not() -> None:
    store = MemoryStore()
    async with running(store) as broker:
        await cleaned(broker)
        buffer = broker.sink("orders")
        await fill(buffer, 4)
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()
        await taker.ack(0, 2)

    async with running(store.reopen()) as broker:
        [log] = broker.sink("orders").logs
        cursor = broker.sink("orders").subscription("").lanes[0].cursor
        assert log.head.dropped == ((CLEANED, 2),)
        assert (cursor.acked, cursor.dropped, cursor.pending(4), cursor.balances(4)) == (2, 2, 0, True)


async def test_a_sink_of_many_pages_is_emptied_in_slices() -> None:
    store = MemoryStore()
    async with running(store) as broker:
        await cleaned(broker)
        buffer = broker.sink("orders")
        await asyncio.gather(*[append.done for append in [await buffer.append(page(b"x")) for _ in range(1_500)]])

        dropped = await empty(buffer, broker.pages, CLEANED)

        assert (dropped, buffer.logs[0].pages, buffer.state.pending) == (1_500, 0, 0)
        assert buffer.logs[0].gaps[0].first == 0
        assert buffer.logs[0].gaps[-1].end == 1_500


async def test_a_kill_empties_nothing() -> None:
    store = MemoryStore()
    async with running(store) as broker:
        await cleaned(broker)
        await fill(broker.sink("orders"), 5)
        killed = store.reopen()

    async with running(killed) as broker:
        assert broker.sink("orders").state.pending == 5


async def test_a_fenced_broker_stops_without_emptying() -> None:
    store = MemoryStore()
    broker = begin(store, FakeClock())
    await cleaned(broker)
    await fill(broker.sink("orders"), 2)
    store.fail_next("sync")
    broker.sink("orders").stop("fences it")
    await broker.ended()

    await broker.close()

    async with running(store.reopen()) as again:
        assert again.sink("orders").state.pending == 2
