from __future__ import annotations

import asyncio

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

    assert others == turns
