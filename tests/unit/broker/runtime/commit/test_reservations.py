from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from forebay.broker.core.partition.reservation import BLOCK
from forebay.broker.core.settings import BufferMode, SinkSettings
from forebay.broker.runtime.broker import Broker
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.runtime.commit.accepted import AcceptedUnknown, Slots
from forebay.broker.runtime.sink.buffer import Buffer
from forebay.broker.storage.records.accepted import AcceptedInMemory
from forebay.broker.storage.records.partitions.reserve import RESERVE
from forebay.broker.storage.store.contract import Family
from tests.support.brokers.held_store import HeldStore
from tests.support.brokers.one_sink import fill
from tests.support.brokers.running import begin

pytestmark = pytest.mark.anyio
STUCK_S = 20


@pytest.fixture
def alarm() -> Iterator[None]:
    """Ends a loop that never yields, which no timeout of asyncio can."""

    def stuck(*_: object) -> None:
        raise TimeoutError("the loop was held for too long")

    before = signal.signal(signal.SIGALRM, stuck)
    signal.alarm(STUCK_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@asynccontextmanager
async def spilling(store: HeldStore, accepted: AcceptedInMemory | None = None) -> AsyncIterator[tuple[Broker, Buffer]]:
    """A broker with a sink that has held a page in memory."""
    broker = begin(store, FakeClock(), accepted=accepted)
    try:
        buffer, _ = await broker.create("orders", SinkSettings(buffer_mode=BufferMode.SPILL))
        await fill(buffer, 1)
        yield broker, buffer
    finally:
        store.let_go()
        await broker.close()


@pytest.mark.usefixtures("alarm")
async def test_a_caller_that_reserves_at_the_moment_a_reservation_becomes_durable_continues_with_it() -> None:
    store = HeldStore()
    async with spilling(store) as (broker, buffer):
        store.hold()
        first = asyncio.create_task(buffer.offsets.reserve(0, 2 * BLOCK))
        await store.reached()
        groups = broker.committer.groups

        store.let_go()
        while broker.committer.groups == groups:  # turn by turn: the next one is where the batch was confirmed
            await asyncio.sleep(0)
        await buffer.offsets.reserve(0, 2 * BLOCK)

        await first


async def test_a_sink_that_promises_the_disk_while_it_reserves_keeps_no_reservation() -> None:
    store = HeldStore()
    async with spilling(store) as (_, buffer):
        store.hold()
        waiting = asyncio.create_task(buffer.offsets.reserve(0, 2 * BLOCK))
        await store.reached()

        changed = buffer.change(SinkSettings())
        store.let_go()
        async with asyncio.timeout(STUCK_S):
            await changed
            await waiting

        assert store.get_many(Family.META, [RESERVE.key(buffer.record.id, 0)]) == [None]
        assert list(buffer.offsets.final()) == []


async def test_a_slot_is_used_again_when_its_partition_has_durably_left_it_and_not_before() -> None:
    store = HeldStore()
    async with spilling(store, AcceptedInMemory()) as (_, buffer):
        store.hold()
        changed = buffer.change(SinkSettings())
        await store.reached()
        before = buffer.offsets._slots.allocate()
        store.let_go()
        await changed

        assert (before, buffer.offsets._slots.allocate()) == (1, 0)


def test_slots_are_allocated_from_below_and_freed() -> None:
    slots = Slots(AcceptedInMemory(), {0, 2})

    assert [slots.allocate(), slots.allocate()] == [1, 3]
    slots.free(1)
    assert slots.allocate() == 1


def test_no_slot_is_allocated_while_the_accepted_counts_are_unknown() -> None:
    assert Slots(AcceptedUnknown(), set()).allocate() is None
