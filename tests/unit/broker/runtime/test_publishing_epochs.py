from __future__ import annotations

import asyncio

import pytest

from forebay.broker.core.errors import (
    Draining,
    WriterFenced,
)
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.runtime.publish import writers as publishing
from forebay.broker.runtime.publish.result import PublishResult
from forebay.broker.storage.store.memory import MemoryStore
from tests.support.brokers.held_store import HeldStore
from tests.support.brokers.writing import publish, writers
from tests.support.pages.samples import page

pytestmark = pytest.mark.anyio


# -- epochs


async def test_a_new_epoch_fences_the_one_before() -> None:
    async with writers() as at:
        old = await at.open("w", None)
        await publish(old, 0, b"a")

        new = await at.open("w", None)

        assert new.epoch > old.epoch
        assert old.on_fenced.is_set()
        with pytest.raises(WriterFenced):
            await publish(old, 1, b"b")
        with pytest.raises(WriterFenced):
            await at.open("w", old.epoch)
        assert new.next_sequences() == {}


async def test_a_page_that_waits_for_room_while_its_writer_is_fenced_is_not_stored() -> None:
    store = HeldStore()
    async with writers(store, max_disk_cache=1, overflow=1) as at:
        old = await at.open("w", None)
        store.hold()
        first = await old.publish(page(b"a"), 0)
        waiting = asyncio.ensure_future(old.publish(page(b"b"), 1))
        await store.reached()
        opening = asyncio.ensure_future(at.open("w", None))
        await asyncio.sleep(0)
        store.let_go()
        await opening
        await first

        with pytest.raises(WriterFenced):
            await waiting
        assert at.buffer.logs[0].next_offset == 1


async def test_resuming_an_epoch_takes_the_stream_over_with_its_window() -> None:
    async with writers() as at:
        old = await at.open("w", None)
        await publish(old, 0, b"a")

        resumed = await at.open("w", old.epoch)

        assert old.fenced is not None
        assert resumed.next_sequences() == {0: 1}


async def test_an_epoch_that_was_never_issued_cannot_be_resumed() -> None:
    async with writers() as at:
        with pytest.raises(WriterFenced):
            await at.open("w", 1)


async def test_epochs_are_never_reused_not_even_of_a_removed_writer() -> None:
    store = MemoryStore()
    epochs: list[int] = []
    for _ in range(3):
        async with writers(store) as at:
            for _ in range(2):
                session = await at.open("w", None)
                epochs.append(session.epoch)
                await session.remove()
        store = store.reopen()

    assert epochs == sorted(set(epochs))


async def test_a_new_epoch_knows_nothing_of_the_pages_of_the_one_before() -> None:
    store = MemoryStore()
    async with writers(store) as at:
        await publish(await at.open("w", None), 0, b"a")
        epoch = (await at.open("w", None)).epoch

    async with writers(store.reopen()) as at:
        resumed = await at.open("w", epoch)
        stored = await publish(resumed, 0, b"a")

    assert stored == PublishResult(1, 1, duplicate=False)


# -- how long writers are remembered


async def test_a_writer_that_closed_is_forgotten_when_its_pages_are_durable() -> None:
    store = HeldStore()
    async with writers(store) as at:
        session = await at.open("w", None)
        store.hold()
        result = await session.publish(page(b"a"), 0)
        closing = asyncio.ensure_future(session.remove())
        await store.reached()
        store.let_go()
        await closing

        assert result.done()
        with pytest.raises(WriterFenced):
            await at.open("w", session.epoch)


async def test_an_idle_writer_is_forgotten_after_its_time_and_a_connected_one_is_not() -> None:
    clock = FakeClock()
    async with writers(clock=clock, writer_ttl_us=60_000_000) as at:
        idle, connected = await at.open("idle", None), await at.open("connected", None)
        idle.end()

        clock.advance(60.0)
        at.sweep()
        assert (await at.open("idle", idle.epoch)).epoch == idle.epoch
        (await at.open("idle", idle.epoch)).end()
        clock.advance(61.0)
        at.sweep()

        with pytest.raises(WriterFenced):
            await at.open("idle", idle.epoch)
        assert (await at.open("connected", connected.epoch)).epoch == connected.epoch


async def test_no_more_writers_are_remembered_than_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "WRITERS_MAX", 3)
    clock = FakeClock()
    async with writers(clock=clock) as at:
        epochs = {}
        for name in ("busy", "idle", "later", "new"):
            clock.advance(1.0)
            session = await at.open(name, None)
            epochs[name] = session.epoch
            if name != "busy":
                session.end()

        with pytest.raises(WriterFenced):
            await at.open("idle", epochs["idle"])
        for name in ("busy", "later", "new"):
            assert (await at.open(name, epochs[name])).epoch == epochs[name]


async def test_a_window_without_use_is_read_again_when_it_is_needed() -> None:
    async with writers() as at:
        session = await at.open("w", None)
        await publish(session, 0, b"a")
        session.end()
        at.sweep()

        resumed = await at.open("w", session.epoch)

        assert await publish(resumed, 0, b"a") == PublishResult(0, 1, duplicate=True)


async def test_a_draining_broker_answers_duplicates_and_takes_nothing_new() -> None:
    async with writers() as at:
        session = await at.open("w", None)
        await publish(session, 0, b"a")
        at.buffer.state.draining = True

        assert (await publish(session, 0, b"a")).duplicate
        with pytest.raises(Draining):
            await publish(session, 1, b"b")
        with pytest.raises(Draining):
            await at.open("w", None)
