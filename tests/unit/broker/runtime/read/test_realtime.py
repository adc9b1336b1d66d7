"""The switch of the broker: a stored choice above its setting, in effect when it is durable."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from forebay.broker.composition import build
from forebay.broker.core.errors import StoreFenced
from forebay.broker.core.settings import SinkSettings
from forebay.broker.rpc.pages.codec import PageCodec
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.runtime.read.page_cache import FailingPageCache
from forebay.broker.runtime.read.realtime import Realtime
from forebay.broker.storage.recovery import recover
from forebay.broker.storage.store.memory import MemoryStore
from tests.support.brokers.taker import Taker
from tests.support.pages.samples import page
from tests.unit.broker.runtime.bench import Bench, bench

pytestmark = pytest.mark.anyio


def switch_of(one: Bench, *, configured: bool = True, chosen: bool | None = None) -> Realtime:
    return Realtime(one.read_cache, one.committer, tail_bytes=1_000, configured=configured, chosen=chosen)


async def test_a_choice_is_stored_and_in_effect_at_once() -> None:
    store = MemoryStore()
    async with bench(store) as one:
        realtime = switch_of(one)
        append = one.append(b"x")
        await append.done
        assert one.read_cache.size > 0

        await realtime.choose(False)

        assert (realtime.enabled, one.read_cache.size, one.read_cache.bytes_max) == (False, 0, 0)
    assert recover(store.crash()).realtime is False


async def test_a_withdrawn_choice_leaves_the_setting() -> None:
    store = MemoryStore()
    async with bench(store) as one:
        realtime = switch_of(one, configured=False, chosen=True)
        assert realtime.enabled

        await realtime.choose(None)

        assert (realtime.enabled, realtime.chosen) == (False, None)
    assert recover(store.reopen()).realtime is None


async def test_a_choice_that_could_not_be_stored_has_no_effect() -> None:
    store = MemoryStore()
    async with bench(store) as one:
        realtime = switch_of(one)
        store.fail_next("sync")

        with pytest.raises(StoreFenced):
            await realtime.choose(False)

        assert (realtime.enabled, one.read_cache.bytes_max) == (True, 1_000)


async def test_the_end_of_an_overload_does_not_switch_on_what_was_switched_off() -> None:
    async with bench() as one:
        realtime = switch_of(one)
        freed: list[int] = []

        realtime.relieve(True, lambda: freed.append(one.read_cache.size))
        overloaded = one.read_cache.bytes_max
        await realtime.choose(False)
        realtime.relieve(False, lambda: None)
        off = one.read_cache.bytes_max
        await realtime.choose(True)

        assert (overloaded, freed, off, one.read_cache.bytes_max) == (0, [0], 0, 1_000)


async def test_publishing_and_reads_of_the_store_continue_while_the_memory_fails_and_a_choice_ends_it() -> None:
    made: list[FailingPageCache] = []

    def make(bytes_max: int, limits: Mapping[int, int]) -> FailingPageCache:
        made.append(FailingPageCache(bytes_max, limits))
        return made[-1]

    store = MemoryStore()
    broker = build(recover(store), FakeClock(), codec=PageCodec(), page_cache=make)
    broker.start()
    try:
        buffer, _ = await broker.create("orders", SinkSettings(buffer_page_size=1))
        made[0].fail("add", MemoryError())
        appends = [await buffer.append(page(b"x")) for _ in range(5)]
        await asyncio.gather(*(append.done for append in appends))
        taker = Taker(buffer.subscription(""))
        read = await taker.all_offsets()
        failed = (
            broker.read_cache.failure,
            broker.read_cache.failures,
            broker.committer.fenced,
            buffer.serves_from_memory,
        )

        await broker.realtime.choose(True)
        append = await buffer.append(page(b"x"))
        await append.done
        again = await taker.offsets()

        assert failed == ("MemoryError: ", 1, None, False)
        assert (read, again) == ([0, 1, 2, 3, 4], [5])
        assert (broker.read_cache.failure, buffer.serves_from_memory) == ("", True)
        mode = buffer.subscription("").source.mode_of(0)
        assert mode is not None
        assert (mode.realtime, mode.switches) == (True, 1)
    finally:
        await broker.close()
    assert [sink.tails[0].next_offset for sink in recover(store.reopen()).sinks] == [6]
