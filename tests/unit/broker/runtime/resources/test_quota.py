from __future__ import annotations

import asyncio

import pytest

from forebay.broker.core.errors import BrokerFull
from forebay.broker.core.partition.pages import DropReason
from forebay.broker.core.settings import Overflow, SinkSettings
from forebay.broker.runtime.broker import Bounds, Broker
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.runtime.resources.quota import Quota
from forebay.broker.storage.store.memory import MemoryStore
from tests.support.brokers.one_sink import fill
from tests.support.brokers.running import running
from tests.support.brokers.taker import Taker
from tests.support.pages.samples import page

pytestmark = pytest.mark.anyio
TEN = len(page(b"x" * 10).body)
"""Bytes of a page with one record of ten bytes."""


def held(broker: Broker) -> int:
    """Bytes as counting would find them."""
    return sum(log.size + log.queued_bytes for buffer in broker.sinks.values() for log in buffer.logs)


async def test_without_a_bound_everything_fits() -> None:
    quota = Quota()
    quota.add(1 << 60)

    quota.admit(1 << 60)


async def test_the_bound_is_exact_over_all_sinks_and_an_ack_makes_room() -> None:
    async with running(bounds=Bounds(stored_bytes=3 * TEN)) as broker:
        first, _ = await broker.create("first", SinkSettings(buffer_page_size=1))
        second, _ = await broker.create("second", SinkSettings(buffer_page_size=1))
        await fill(first, 2)
        await fill(second, 1)

        with pytest.raises(BrokerFull) as refused:
            await fill(second, 1)
        taker = Taker(first.subscription(""))
        await taker.one()
        await taker.ack(0, 1)
        await first.removal.trim(first.logs[0])
        await fill(second, 1)

        assert refused.value.facts == {"used": str(3 * TEN), "bound": str(3 * TEN)}
        assert refused.value.retry_after_s == 1.0
        assert broker.quota.used == held(broker) == 3 * TEN


async def test_a_sink_that_drops_its_oldest_makes_room_for_itself() -> None:
    settings = SinkSettings(buffer_page_size=1, overflow=Overflow.DROP_OLDEST, max_disk_cache=2)
    async with running(bounds=Bounds(stored_bytes=2 * TEN)) as broker:
        buffer, _ = await broker.create("orders", settings)

        await fill(buffer, 5)

        assert (buffer.logs[0].earliest, broker.quota.used) == (3, 2 * TEN)


async def test_a_sink_that_drops_nothing_of_its_own_limits_is_refused_too() -> None:
    settings = SinkSettings(buffer_page_size=1, overflow=Overflow.DROP_OLDEST)
    async with running(bounds=Bounds(stored_bytes=TEN)) as broker:
        buffer, _ = await broker.create("orders", settings)
        await fill(buffer, 1)

        with pytest.raises(BrokerFull):
            await fill(buffer, 1)

        assert buffer.logs[0].head.dropped == ()


async def test_it_is_right_after_overflow_expiry_damage_deletion_and_a_restart() -> None:
    store, clock = MemoryStore(), FakeClock()
    async with running(store, clock) as broker:
        dropping = SinkSettings(buffer_page_size=1, overflow=Overflow.DROP_OLDEST, max_disk_cache=3)
        overflowing, _ = await broker.create("overflowing", dropping)
        aging, _ = await broker.create("aging", SinkSettings(buffer_page_size=1, max_age_us=1_000_000))
        damaged, _ = await broker.create("damaged", SinkSettings(buffer_page_size=1))
        deleted, _ = await broker.create("deleted", SinkSettings(buffer_page_size=1))
        for buffer in (overflowing, aging, damaged, deleted):
            await fill(buffer, 5)
        damaged.removal.drop(0, damaged.logs[0].first_entries()[:1], DropReason.CORRUPT)
        clock.advance(2.0)
        await broker.expirer.sweep(aging)
        await broker.delete("deleted", force=True)
        await asyncio.gather(
            *[append.done for append in [await aging.append(page(b"a")), await aging.append(page(b""))]]
        )
        assert broker.quota.used == held(broker)
        used = broker.quota.used

    async with running(store.reopen(), clock) as broker:
        assert broker.quota.used == held(broker) == used > 0
