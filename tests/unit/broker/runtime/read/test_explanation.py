"""Facts of the runtime about a record: its page, its owner, the clock; nothing is reported too early."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from forebay.broker.core.errors import InvalidPartition
from forebay.broker.core.partition.explanation import RecordPlace, RecordState, Wait
from forebay.broker.core.settings import SinkSettings
from forebay.broker.rpc.sinks.explanation_text import text
from forebay.broker.runtime.broker import Bounds, Broker
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.runtime.delivery.consumer import Credit
from forebay.broker.runtime.read.explanation import Explained, explained
from forebay.broker.storage.records.pages.entry import ENTRY
from forebay.broker.storage.store.contract import Delete, Family
from forebay.broker.storage.store.memory import MemoryStore
from tests.support.brokers.held_store import HeldStore
from tests.support.brokers.one_sink import fill
from tests.support.brokers.running import running
from tests.support.brokers.taker import Taker
from tests.support.pages.samples import page

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def orders(
    store: MemoryStore | None = None,
    clock: FakeClock | None = None,
    *,
    pages: int = 4,
    tail_bytes: int = 64 << 20,
    **settings: Any,
) -> AsyncIterator[Broker]:
    async with running(store, clock, bounds=Bounds(tail_bytes=tail_bytes)) as broker:
        buffer, _ = await broker.create("orders", SinkSettings(buffer_page_size=1, **settings))
        await fill(buffer, pages)
        yield broker


async def ask(broker: Broker, offset: int, partition: int = 0) -> Explained:
    buffer = broker.sink("orders")
    return await explained(buffer, buffer.subscription(""), partition, offset)


async def place(broker: Broker, offset: int) -> RecordPlace:
    return (await ask(broker, offset)).explanation.place


async def wait(broker: Broker, offset: int) -> Wait:
    return (await ask(broker, offset)).explanation.waiting.reason


async def test_a_page_is_found_in_memory_and_on_disk_also_after_a_restart() -> None:
    store = MemoryStore()
    async with orders(store) as broker:
        assert await place(broker, 1) is RecordPlace.RECENT
    async with running(store.reopen()) as broker:
        assert [await place(broker, offset) for offset in (0, 3, 4)] == [
            RecordPlace.DISK,
            RecordPlace.DISK,
            RecordPlace.NOT_ASSIGNED,
        ]
    async with orders(tail_bytes=0) as broker:
        assert await place(broker, 1) is RecordPlace.DISK


async def test_a_reader_that_may_not_read_from_memory_finds_it_on_disk() -> None:
    async with orders(realtime=False) as broker:
        assert await place(broker, 1) is RecordPlace.DISK


async def test_a_partition_that_does_not_exist_is_refused() -> None:
    async with orders() as broker:
        with pytest.raises(InvalidPartition):
            await ask(broker, 0, partition=1)


async def test_a_record_that_waits_for_its_commit_is_explained_at_once_as_awaiting_it() -> None:
    store = HeldStore()
    async with orders(store, pages=1) as broker:
        store.hold()
        append = await broker.sink("orders").append(page(b"waits"))
        await store.reached()

        found = (await ask(broker, 1)).explanation
        store.let_go()
        await append.done

        assert (found.place, found.waiting.reason) == (RecordPlace.AWAITING_COMMIT, Wait.COMMIT)
        assert await place(broker, 1) is RecordPlace.RECENT


async def test_nothing_is_reported_before_it_is_durable() -> None:
    store = HeldStore()
    async with orders(store, pages=1) as broker:
        taker = Taker(broker.sink("orders").subscription(""))
        await taker.all_offsets()
        store.hold()
        acking = asyncio.ensure_future(taker.ack(0, 1))
        await store.reached()
        asking = asyncio.ensure_future(ask(broker, 0))
        for _ in range(5):
            await asyncio.sleep(0)
        early = asking.done()
        store.let_go()

        assert not early
        assert (await asking).explanation.state is RecordState.ACKED
        await acking


async def test_a_trimmed_record_and_one_whose_index_entry_is_gone_are_distinguished() -> None:
    store = MemoryStore()
    async with orders(store, pages=3) as broker:
        taker = Taker(broker.sink("orders").subscription(""))
        await taker.all_offsets()
        await taker.ack(0, 1)
        while broker.sink("orders").logs[0].records == 3:
            await broker.committer.committed.next().wait()
        sink = broker.sink("orders").record.id
    after = store.reopen()
    after.write([Delete(Family.INDEX, ENTRY.key(sink, 0, 1))])
    after.sync()

    async with running(after) as broker:
        assert [await place(broker, offset) for offset in range(3)] == [
            RecordPlace.TRIMMED,
            RecordPlace.MISSING,
            RecordPlace.DISK,
        ]


async def test_monotonic_times_are_reported_on_the_wall_clock() -> None:
    clock = FakeClock()
    async with orders(clock=clock, ack_deadline_us=30_000_000) as broker:
        taker = Taker(broker.sink("orders").subscription(""))
        await taker.all_offsets()
        sent = clock.wall
        clock.advance(10.0)

        found = await ask(broker, 0)

        assert found.explanation.sent_at is not None
        assert found.explanation.waiting.until is not None
        assert found.wall_us(found.explanation.sent_at) == sent
        assert found.wall_us(found.explanation.waiting.until) == sent + 30_000_000


async def test_credit_is_the_owner_s() -> None:
    async with orders() as broker:
        subscription = broker.sink("orders").subscription("")
        nobody = await wait(broker, 0)
        taker = Taker(subscription, credit=Credit(1, 1 << 20))
        ready = await wait(broker, 0)
        await taker.all_offsets()

        assert (nobody, ready) == (Wait.NO_CONSUMER, Wait.NOTHING)
        assert [await wait(broker, offset) for offset in (0, 1, 2)] == [Wait.ANSWER, Wait.NO_CREDIT, Wait.NO_CREDIT]


async def test_a_consumer_that_pulls_asks_only_during_its_call() -> None:
    async with orders() as broker:
        puller = broker.sink("orders").subscription("").pullers.get("p")
        await puller.pull(2, 0.0)
        between = await wait(broker, 2)
        await puller.pull(2, 0.0)
        waiting = asyncio.ensure_future(puller.pull(1, 60.0))
        await asyncio.sleep(0)
        append = await broker.sink("orders").append(page(b"next"))
        during = broker.sink("orders").subscription("").pullers.accepts("p")
        await append.done
        await waiting

        assert (between, during) == (Wait.PULL, True)


async def test_a_partition_that_is_handed_over_says_so() -> None:
    async with orders(partitions=2, pages=0) as broker:
        buffer = broker.sink("orders")
        for partition in (0, 1):
            await fill(buffer, 2, partition=partition)
        first = Taker(buffer.subscription(""), "a")
        await first.one(0)
        await first.one(1)
        Taker(buffer.subscription(""), "b")
        moving = [p for p in (0, 1) if buffer.subscription("").lanes.handovers.get(p)]

        found = await ask(broker, 1, partition=moving[0])

        assert found.explanation.waiting.reason is Wait.MOVING
        assert found.explanation.waiting.until is not None


async def test_a_record_that_cannot_be_read_now_is_reported_with_the_reason_and_not_taken_for_missing() -> None:
    store = MemoryStore()
    async with orders(store, tail_bytes=0):
        pass
    store = store.reopen()
    async with running(store, bounds=Bounds(tail_bytes=0)) as broker:
        store.fail_reads(Family.INDEX)
        Taker(broker.sink("orders").subscription(""))

        found = await ask(broker, 2)

        assert (found.explanation.place, found.explanation.waiting.reason) == (RecordPlace.DISK, Wait.READ_FAILED)
        assert "I/O error" in found.explanation.waiting.detail
        assert "cannot be read" in text(found, "default")
        assert "I/O error" in text(found, "default")
