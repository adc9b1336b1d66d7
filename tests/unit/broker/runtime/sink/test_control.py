from __future__ import annotations

import asyncio

import pytest

from forebay.broker.core.errors import SinkFull
from forebay.broker.core.partition.ranges import Range
from forebay.broker.runtime.commit import group
from forebay.broker.storage.store.memory import MemoryStore
from tests.support.brokers.one_sink import fill, filled_sink, sink
from tests.support.brokers.running import running
from tests.support.brokers.taker import Taker
from tests.support.pages.samples import page

pytestmark = pytest.mark.anyio


async def test_new_settings_hold_from_the_next_append_on() -> None:
    async with sink(max_disk_cache=1) as buffer:
        await fill(buffer, 1)
        await buffer.change(buffer.settings.changed({"max_disk_cache": 2, "ack_deadline_us": 5_000_000}))

        await fill(buffer, 1)

        assert buffer.subscription("").lanes[0].settings.ack_deadline_us == 5_000_000
        with pytest.raises(SinkFull):
            await fill(buffer, 1)


async def test_appends_continue_while_deliveries_are_stopped() -> None:
    async with sink() as buffer:
        await buffer.stop("the target is away")
        await fill(buffer, 2)
        taker = Taker(buffer.subscription(""))

        held_back = await taker.take()
        await buffer.resume()

        assert held_back is None
        assert await taker.take() is not None


async def test_a_power_loss_after_fsync_was_turned_on_loses_nothing_that_waited_at_the_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for bound in ("GROUP_BYTES", "QUANTUM_BYTES"):
        monkeypatch.setattr(group, bound, 1)  # a group per page
    store = MemoryStore()
    async with sink(store, fsync=False, buffer_page_size=1) as buffer:
        appends = [await buffer.append(page(b"%d" % number)) for number in range(4)]
        changed = buffer.change(buffer.settings.changed({"fsync": True}))
        await asyncio.gather(changed, *(append.done for append in appends))
        crashed = store.crash()
    async with running(crashed) as broker:
        after = await broker.sink("orders").append(page(b"after"))

        assert [append.first for append in (*appends, after)] == [0, 1, 2, 3, 4]
        assert broker.sink("orders").logs[0].gaps == ()


async def test_a_pause_and_new_settings_outlive_a_crash() -> None:
    store = MemoryStore()
    async with filled_sink(store) as buffer:
        await buffer.stop("at night")
        await buffer.change(buffer.settings.changed({"max_disk_cache": 7, "partitions": 2}))
        crashed = store.crash()
    async with running(crashed) as broker:
        buffer = broker.sink("orders")

        assert (buffer.record.paused, buffer.settings.max_disk_cache, len(buffer.logs)) == ("at night", 7, 2)
        assert await Taker(buffer.subscription("")).take() is None


async def test_a_partition_that_is_added_to_a_paused_sink_is_paused_too() -> None:
    async with sink() as buffer:
        await buffer.stop("at night")
        await buffer.change(buffer.settings.changed({"partitions": 2}))
        await fill(buffer, 1, partition=1)
        taker = Taker(buffer.subscription(""))

        assert await taker.take(1) is None
        await buffer.resume()
        assert await taker.take(1) is not None


async def test_settled_pages_that_are_no_longer_retained_are_trimmed_at_once() -> None:
    async with filled_sink(retain_acked_time_us=3_600_000_000) as buffer:
        taker = Taker(buffer.subscription(""))
        await taker.take_all()
        await taker.subscription.ack(0, taker.answer(), [Range(0, 10)])
        assert buffer.logs[0].earliest == 0

        await buffer.change(buffer.settings.changed({"retain_acked_time_us": 0}))

        assert buffer.logs[0].earliest == 10
