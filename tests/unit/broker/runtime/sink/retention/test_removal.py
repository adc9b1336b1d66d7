from __future__ import annotations

import asyncio
from typing import Any

import pytest

from forebay.broker.core.errors import SinkNotFound
from forebay.broker.core.settings import Overflow, SinkSettings
from forebay.broker.runtime.broker import Bounds
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

        with pytest.raises(SinkNotFound):
            await room
        assert broker.quota.used == other.logs[0].size > 0
