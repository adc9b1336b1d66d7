"""A reservation of offsets that was damaged: no offset is handed out twice, whatever memory had accepted."""

from __future__ import annotations

import pytest

from forebay.broker.core.settings import BufferMode, SinkSettings
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.storage.records.accepted import AcceptedInMemory
from forebay.broker.storage.records.partitions.reserve import RESERVE
from forebay.broker.storage.store.contract import Family, Put
from forebay.broker.storage.store.memory import MemoryStore
from tests.support.brokers.one_sink import fill
from tests.support.brokers.running import begin
from tests.support.pages.samples import page

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("mode", [BufferMode.SPILL, BufferMode.MEMORY])
@pytest.mark.parametrize("ended", ["by a kill", "by a power loss", "in order"])
async def test_no_offset_is_reused_after_its_reservation_was_damaged(mode: BufferMode, ended: str) -> None:
    store, accepted = MemoryStore(), AcceptedInMemory()
    broker = begin(store, FakeClock(), accepted=accepted)
    buffer, _ = await broker.create("orders", SinkSettings(buffer_mode=mode))
    await fill(buffer, 10)
    if ended == "in order":
        await broker.close()
    found = accepted.killed() if ended == "by a kill" else AcceptedInMemory()
    survivor = store.crash() if ended == "by a power loss" else store.reopen()
    survivor.write([Put(Family.META, RESERVE.key(buffer.record.id, 0), b"noise")])

    again = begin(survivor, FakeClock(), accepted=found)
    log = again.sink("orders").logs[0]
    append = await again.sink("orders").append(page(b"new"))

    assert append.first >= 10
    assert all(
        lane.cursor.balances(log.next_offset - 1)
        for subscription in again.sink("orders").subscriptions.values()
        for lane in subscription.lanes
    )
    await again.close()
    if ended != "in order":
        await broker.supervisor.close()
