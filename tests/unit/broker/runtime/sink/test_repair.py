"""Repair of a partition's index beside pages that are only in memory."""

from __future__ import annotations

from typing import Any

import pytest

from forebay.broker.core.settings import BufferMode
from forebay.broker.storage.records.pages.entry import ENTRY
from forebay.broker.storage.store.contract import Delete, Family
from forebay.broker.storage.store.memory import MemoryStore
from tests.support.brokers.one_sink import fill, sink
from tests.support.brokers.taker import Taker

pytestmark = pytest.mark.anyio
HELD = 600
"""More pages than the log keeps as recent."""


async def test_pages_in_memory_are_not_lost_and_get_no_entry() -> None:
    store = MemoryStore()
    settings: dict[str, Any] = {
        "buffer_mode": BufferMode.SPILL,
        "memory_cache_threshold": 2 * HELD,
        "retain_acked_bytes": 1 << 20,
    }
    async with sink(store, **settings) as buffer:
        log, number = buffer.logs[0], buffer.record.id
        await fill(buffer, 3)
        await buffer.tier.write_out()
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()
        await taker.ack(0, 3)
        await fill(buffer, HELD)
        assert len(log.held) == HELD
        store.write([Delete(Family.INDEX, ENTRY.key(number, 0, 1))])
        log.oldest.clear()
        log.recent.clear()

        await buffer.removal.repair(log)

        assert log.gaps == ()
        assert len(log.held) == HELD
        keys = [ENTRY.key(number, 0, offset) for offset in (0, 1, 2, 3)]
        assert [found is not None for found in store.get_many(Family.INDEX, keys)] == [True, True, True, False]
        assert await taker.all_offsets() == list(range(3, 3 + HELD))
