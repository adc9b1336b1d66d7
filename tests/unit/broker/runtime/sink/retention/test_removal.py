from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from forebay.broker.core.errors import SinkNotFound
from forebay.broker.core.partition.pages import DropReason
from forebay.broker.core.partition.position import At, Position
from forebay.broker.core.settings import Overflow, SinkSettings
from forebay.broker.runtime.broker import Bounds
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.runtime.instruments import Instruments
from forebay.broker.storage.store.memory import MemoryStore
from tests.support.brokers.one_sink import fill
from tests.support.brokers.running import running
from tests.support.brokers.taker import Taker
from tests.support.pages.samples import page

pytestmark = pytest.mark.anyio
PAGES = 1_500
"""Several slices of a trim: their entries are read from the store."""


@pytest.mark.parametrize("retained", [{}, {"retain_acked_time_us": 3_600_000_000}])
async def test_the_bytes_of_a_sink_that_is_deleted_during_a_trim_leave_the_quota_once(retained: dict[str, Any]) -> None:
    settings = SinkSettings(overflow=Overflow.REJECT, buffer_page_size=1, max_disk_cache=PAGES, **retained)
    async with running(bounds=Bounds(stored_bytes=1 << 30)) as broker:
        buffer, _ = await broker.create("orders", settings)
        appends = [await buffer.append(page(b"x")) for _ in range(PAGES)]
        await asyncio.gather(*(append.done for append in appends))
        other, _ = await broker.create("other", SinkSettings())
        await fill(other, 1)
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()
        await taker.ack(0, PAGES)

        room = asyncio.ensure_future(buffer.append(page(*[b"x"] * (PAGES - 1))))
        async with asyncio.timeout(10.0):
            while buffer.logs[0].pages == PAGES:
                await asyncio.sleep(0)
        await broker.delete("orders", force=True)

        with suppress(SinkNotFound):  # on a machine that stalls the trim may be over before
            await room
        assert broker.quota.used == other.logs[0].size > 0


class DropCounts(Instruments):
    """Dropped records that were reported, by reason."""

    def __init__(self) -> None:
        self.found: list[tuple[DropReason, int]] = []

    def dropped(self, sink: str, partition: int, reason: DropReason, records: int) -> None:
        self.found.append((reason, records))


async def test_settled_pages_after_one_in_flight_are_not_counted_when_they_overflow() -> None:
    counts, store = DropCounts(), MemoryStore()
    settings = SinkSettings(overflow=Overflow.DROP_OLDEST, buffer_page_size=1, max_disk_cache=3)
    async with running(store, instruments=counts) as broker:
        buffer, _ = await broker.create("orders", settings)
        await fill(buffer, 3)
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()
        await taker.ack(1, 3)
        await fill(buffer, 2)
        afterwards = [(gap.first, gap.end, gap.records) for gap in buffer.logs[0].gaps], buffer.logs[0].head.dropped
        await fill(buffer, 1)

        assert afterwards == ([(1, 2, 0), (2, 3, 0)], ())
        assert buffer.logs[0].head.dropped == ((DropReason.OVERFLOW, 1),)
        assert counts.found == [(DropReason.OVERFLOW, 1)]
        assert (taker.lane().cursor.acked, taker.lane().cursor.dropped) == (2, 1)
        crashed = store.crash()
    async with running(crashed) as broker:
        log = broker.sink("orders").logs[0]
        assert [(gap.first, gap.end, gap.records) for gap in log.gaps] == [(1, 2, 0), (2, 3, 0), (3, 4, 1)]
        assert await Taker(broker.sink("orders").subscription("")).all_offsets() == [0, 4, 5]


async def test_a_record_that_one_subscription_has_settled_is_lost_for_the_other() -> None:
    settings = SinkSettings(overflow=Overflow.DROP_OLDEST, buffer_page_size=1, max_disk_cache=3)
    async with running() as broker:
        buffer, _ = await broker.create("orders", settings)
        await buffer.subscribing.create("audit", Position(At.EARLIEST), or_earliest=False)
        await fill(buffer, 3)
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()
        await taker.ack(1, 3)

        await fill(buffer, 1)

        assert buffer.logs[0].head.dropped == ((DropReason.OVERFLOW, 1),)


async def test_settled_records_of_an_expired_page_are_not_counted() -> None:
    clock = FakeClock()
    async with running(clock=clock) as broker:
        buffer, _ = await broker.create("orders", SinkSettings(buffer_page_size=1, max_age_us=60_000_000))
        await fill(buffer, 2, records=2)
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()
        await taker.ack(1, 4)
        taker.subscription.leave(taker.consumer)
        clock.advance(61.0)

        await broker.expirer.sweep(buffer)

        assert buffer.logs[0].head.dropped == ((DropReason.EXPIRED, 1),)
        assert [(gap.first, gap.end, gap.records) for gap in buffer.logs[0].gaps] == [(0, 4, 1)]
