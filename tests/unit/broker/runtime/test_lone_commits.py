from __future__ import annotations

import asyncio
import threading

import pytest

from forebay.broker.core.errors import StoreFenced
from forebay.broker.core.writes import PutAge
from forebay.broker.runtime.commit.lone import STREAK
from forebay.broker.storage.errors import StoreFailed
from forebay.broker.storage.store.memory import MemoryStore
from tests.support.brokers.held_store import Door
from tests.unit.broker.runtime.bench import Bench, bench

pytestmark = pytest.mark.anyio


class Watched(MemoryStore):
    """A memory store that is ready, and keeps the threads of its syncs."""

    def __init__(self) -> None:
        super().__init__()
        self.ready = True
        self.fails = False
        self.threads: list[threading.Thread] = []

    def sync(self) -> None:
        """Note the thread, then sync or fail."""
        self.threads.append(threading.current_thread())
        if self.fails:
            raise StoreFailed("sync", "injected")
        super().sync()

    @property
    def on_loop(self) -> bool:
        """True if the last sync was made by the thread of the test's loop."""
        return self.threads[-1] is threading.current_thread()


async def settle_in(at: Bench) -> None:
    """Commit lone groups until the next one is committed on the loop."""
    for _ in range(STREAK):
        await at.append(b"a").done


async def test_after_a_streak_a_lone_group_is_committed_on_the_loop() -> None:
    store = Watched()
    async with bench(store) as at:
        for _ in range(STREAK):
            await at.append(b"a").done
            assert not store.on_loop
        await at.append(b"b").done

        assert store.on_loop
        assert (at.log.tail.next_offset, at.log.synced) == (STREAK + 1, STREAK + 1)


async def test_writes_without_an_append_are_committed_in_the_thread_and_do_not_end_the_streak() -> None:
    store = Watched()
    async with bench(store) as at:
        await settle_in(at)
        await at.committer.write([PutAge(1, 2)])
        assert not store.on_loop
        await at.append(b"a").done

        assert store.on_loop


async def test_appends_that_wait_together_are_committed_in_the_thread_again() -> None:
    store = Watched()
    async with bench(store) as at:
        await settle_in(at)
        await asyncio.gather(at.append(b"a").done, at.append(b"b").done)
        assert not store.on_loop
        await at.append(b"c").done

        assert not store.on_loop


async def test_a_store_that_may_have_to_wait_commits_in_the_thread() -> None:
    store = Watched()
    async with bench(store) as at:
        await settle_in(at)
        store.ready = False
        await at.append(b"a").done

        assert not store.on_loop


async def test_nothing_is_committed_on_the_loop_beside_a_function_in_the_thread() -> None:
    store, door = Watched(), Door()
    async with bench(store) as at:
        await settle_in(at)
        door.close()
        calling = asyncio.ensure_future(at.committer.call(door.go_through))
        await door.reached()
        calling.cancel()  # the function continues
        await asyncio.gather(calling, return_exceptions=True)
        append = at.append(b"a")
        for _ in range(20):
            await asyncio.sleep(0)
        assert not append.done.done()
        door.open()
        await append.done

        assert not store.on_loop


async def test_tasks_run_between_groups_on_the_loop() -> None:
    store, turns = Watched(), 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with bench(store) as at:
        await settle_in(at)
        running = asyncio.ensure_future(others())
        for _ in range(10):
            before = turns
            await at.append(b"a").done
            assert store.on_loop
            assert turns > before
        running.cancel()


async def test_a_failed_commit_on_the_loop_fences() -> None:
    store = Watched()
    async with bench(store) as at:
        await settle_in(at)
        store.fails = True
        append, written = at.append(b"a"), at.committer.write([PutAge(1, 2)])
        with pytest.raises(StoreFenced):
            await append.done
        with pytest.raises(StoreFenced):
            await written

        assert store.on_loop
        assert len(at.fenced) == 1
        assert at.log.tail.next_offset == STREAK


async def test_the_bytes_of_groups_on_the_loop_count_as_used_until_the_device_is_asked_again() -> None:
    store = Watched()
    async with bench(store) as at:
        await settle_in(at)
        before = at.committer.free_bytes
        append = at.append(b"a")
        await append.done

        assert store.on_loop
        assert at.committer.free_bytes == before - len(append.page.body)
        await asyncio.gather(at.append(b"b").done, at.append(b"c").done)
        assert at.committer.free_bytes == store.room
