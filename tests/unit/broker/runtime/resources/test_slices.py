from __future__ import annotations

import asyncio
import gc
import weakref
from itertools import pairwise

import pytest

from forebay.broker.runtime.resources import slices
from forebay.broker.runtime.resources.slices import Slices

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(("slice_s", "turns"), [(0.0, 10), (60.0, 0)], ids=["used up", "not used up"])
async def test_others_have_a_turn_when_a_slice_is_used_up_and_not_before(
    monkeypatch: pytest.MonkeyPatch, slice_s: float, turns: int
) -> None:
    monkeypatch.setattr(slices, "SLICE_S", slice_s)
    others = 0

    async def other() -> None:
        nonlocal others
        while True:
            others += 1
            await asyncio.sleep(0)

    task = asyncio.ensure_future(other())
    work = Slices()
    for _ in range(10):
        await work.turn()
    task.cancel()

    assert others >= turns
    assert turns or not others


async def test_all_long_work_together_has_one_slice_per_turn_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE_S", 0.0)
    turn, done = 0, list[tuple[int, int]]()

    async def count() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    async def work(number: int) -> None:
        mine = Slices()
        for _ in range(3):
            await mine.turn()
            done.append((turn, number))

    counting = asyncio.ensure_future(count())
    await asyncio.gather(*map(work, range(4)))
    counting.cancel()

    turns = [at for at, _ in done]
    assert [number for _, number in done] == [0, 1, 2, 3] * 3
    assert all(later > earlier for earlier, later in pairwise(turns))


async def test_work_that_is_cancelled_while_it_waits_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE_S", 0.0)
    waiting = [asyncio.ensure_future(Slices().turn()) for _ in range(5)]
    await asyncio.sleep(0)
    for task in waiting[:4]:
        task.cancel()

    async with asyncio.timeout(30):
        await waiting[4]


def test_slices_end_with_their_loop() -> None:
    async def work() -> weakref.ref[asyncio.AbstractEventLoop]:
        await Slices().turn()
        return weakref.ref(asyncio.get_running_loop())

    loops = [asyncio.run(work()) for _ in range(3)]
    gc.collect()

    assert [loop() for loop in loops] == [None] * 3
