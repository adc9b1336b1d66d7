from __future__ import annotations

import asyncio
import logging

import pytest

from forebay.broker.core.settings import BufferMode, SinkSettings
from forebay.broker.runtime.sink.retention import drop_log
from forebay.broker.storage.recovery import recover
from forebay.broker.storage.store.memory import MemoryStore
from tests.support.brokers.held_store import HeldStore
from tests.support.brokers.one_sink import fill, filled_sink, sink
from tests.support.brokers.running import running
from tests.support.brokers.taker import Taker
from tests.support.pages.samples import page

pytestmark = pytest.mark.anyio


async def test_a_deleted_sink_leaves_nothing_and_its_name_is_free() -> None:
    store = MemoryStore()
    async with running(store) as broker:
        buffer, _ = await broker.create("orders", SinkSettings())
        await fill(buffer, 3)
        await broker.delete("orders", force=True)
        again, _ = await broker.create("orders", SinkSettings())

        assert again.logs[0].next_offset == 0
        assert again.record.incarnation != buffer.record.incarnation
    sinks = {recovered.record.incarnation for recovered in recover(store.reopen()).sinks}
    assert sinks == {again.record.incarnation}


async def test_a_deletion_waits_for_the_pages_that_wait_for_their_batch() -> None:
    store = HeldStore()
    async with sink(store) as buffer:
        store.hold()
        queued = await buffer.append(page(b"a"))
        await store.reached()
        deleting = asyncio.ensure_future(buffer.delete())
        await asyncio.sleep(0)

        assert not deleting.done()
        store.let_go()
        await deleting
        assert queued.done.done()
        assert queued.done.exception() is None


@pytest.mark.parametrize(("mode", "kept"), [(BufferMode.MEMORY, 0), (BufferMode.SPILL, 10)])
async def test_at_a_clean_stop_memory_is_spilled_or_dropped_and_counted(mode: BufferMode, kept: int) -> None:
    store = MemoryStore()
    async with filled_sink(store, buffer_mode=mode) as buffer:
        assert buffer.logs[0].held
    async with running(store.reopen()) as broker:
        buffer = broker.sink("orders")
        log = buffer.logs[0]

        assert len(await Taker(buffer.subscription("")).all_offsets()) == kept
        assert log.next_offset == 10
        assert sum(gap.end - gap.first for gap in log.gaps) == 10 - kept


async def test_records_lost_from_memory_at_a_clean_stop_are_logged_for_each_partition(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, drop_log.__name__)
    async with filled_sink(records=2, partitions=4, buffer_mode=BufferMode.MEMORY):
        pass

    dropped = [record.getMessage() for record in caplog.records if record.name == drop_log.__name__]
    assert [message.split()[4:7] for message in sorted(dropped)] == [
        [f"partition={number}", "reason=CLEANED_AT_STOP", "records=2"] for number in range(4)
    ]
