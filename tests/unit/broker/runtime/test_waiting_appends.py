"""Changes while an append waits for room: admission is decided by the state after the wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from forebay.broker.core.errors import SinkNotFound
from forebay.broker.core.partition.pages import Durability
from forebay.broker.core.publish.limits import Demand
from forebay.broker.core.settings import Overflow
from forebay.broker.runtime.sink.admission import Request
from forebay.broker.storage.records.pages.entry import ENTRY
from forebay.broker.storage.records.partitions.reserve import RESERVE
from forebay.broker.storage.store.contract import Family
from tests.support.brokers.held_store import HeldStore
from tests.support.brokers.one_sink import sink
from tests.support.pages.samples import page

pytestmark = pytest.mark.anyio


async def test_an_append_that_waited_while_fsync_was_turned_off_has_its_offsets_reserved() -> None:
    store = HeldStore()
    async with sink(store, overflow=Overflow.DROP_OLDEST, max_disk_cache=1) as buffer:
        store.hold()
        first = await buffer.append(page(b"first"))
        await store.reached()
        waiting = asyncio.ensure_future(buffer.append(page(b"second")))
        await asyncio.sleep(0)
        changed = buffer.change(replace(buffer.settings, fsync=False))
        store.let_go()

        second = await waiting
        reserved = store.scan(Family.META, *RESERVE.under(), 10)
        await asyncio.gather(first.done, second.done, changed)

        assert len(reserved) == 1
        assert buffer.tier.level(0, first.first, first.first + 1) is Durability.DISK
        assert not second.fsync


@pytest.mark.parametrize(
    "append", [lambda buffer, one: buffer.append(one), lambda buffer, one: buffer.append_all([one])]
)
async def test_an_append_that_waited_while_its_sink_was_deleted_is_refused(
    append: Callable[..., Awaitable[object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = HeldStore()
    async with sink(store, overflow=Overflow.DROP_OLDEST, max_disk_cache=1) as buffer:
        await (await buffer.append(page(b"first"))).done
        deleting: list[asyncio.Future[None]] = []

        async def freed(request: Request, _: Demand) -> None:
            deleting.append(asyncio.ensure_future(buffer.delete()))
            await asyncio.sleep(0)
            request.at_the_limit = True  # it may come in as things are now

        monkeypatch.setattr(buffer.admission, "_free", freed)

        with pytest.raises(SinkNotFound):
            await append(buffer, page(b"second"))

        await asyncio.gather(*deleting)
        assert store.scan(Family.INDEX, *ENTRY.under(buffer.record.id), 10) == []
