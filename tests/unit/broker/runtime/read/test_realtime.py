"""The switch of the broker: a stored choice above its setting, in effect when it is durable."""

from __future__ import annotations

import pytest

from forebay.broker.core.errors import StoreFenced
from forebay.broker.runtime.read.realtime import Realtime
from forebay.broker.storage.recovery import recover
from forebay.broker.storage.store.memory import MemoryStore
from tests.unit.broker.runtime.bench import Bench, bench

pytestmark = pytest.mark.anyio


def switch_of(one: Bench, *, configured: bool = True, chosen: bool | None = None) -> Realtime:
    return Realtime(one.tail, one.committer, tail_bytes=1_000, configured=configured, chosen=chosen)


async def test_a_choice_is_stored_and_in_effect_at_once() -> None:
    store = MemoryStore()
    async with bench(store) as one:
        realtime = switch_of(one)
        append = one.append(b"x")
        await append.done
        assert one.tail.size > 0

        await realtime.choose(False)

        assert (realtime.enabled, one.tail.size, one.tail.bytes_max) == (False, 0, 0)
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

        assert (realtime.enabled, one.tail.bytes_max) == (True, 1_000)


async def test_the_end_of_an_overload_does_not_switch_on_what_was_switched_off() -> None:
    async with bench() as one:
        realtime = switch_of(one)
        freed: list[int] = []

        realtime.relieve(True, lambda: freed.append(one.tail.size))
        overloaded = one.tail.bytes_max
        await realtime.choose(False)
        realtime.relieve(False, lambda: None)
        off = one.tail.bytes_max
        await realtime.choose(True)

        assert (overloaded, freed, off, one.tail.bytes_max) == (0, [0], 0, 1_000)
