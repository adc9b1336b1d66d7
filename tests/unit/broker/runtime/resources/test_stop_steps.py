from __future__ import annotations

import asyncio

import pytest

from forebay.broker.runtime.resources.stop_steps import StopFailed, StopSteps

pytestmark = pytest.mark.anyio


async def failing() -> None:
    raise OSError("disk")


async def test_every_step_is_done_and_what_failed_is_raised_at_the_end() -> None:
    stopping, done = StopSteps(), []

    async def last() -> None:
        done.append("last")

    await stopping.step("first", failing)
    await stopping.step("last", last)

    with pytest.raises(StopFailed, match="first: disk") as failure:
        stopping.finish()
    assert (done, failure.value.failures) == (["last"], ["first: disk"])


async def test_a_stop_within_a_stop_reports_its_own_failures() -> None:
    stopping = StopSteps()

    async def inner() -> None:
        nested = StopSteps()
        await nested.step("memory of a", failing)
        await nested.step("memory of b", failing)
        nested.finish()

    await stopping.step("broker", inner)

    assert stopping.failures == ["memory of a: disk", "memory of b: disk"]


async def test_a_stop_without_failures_raises_nothing() -> None:
    stopping = StopSteps()

    await stopping.step("all", lambda: asyncio.sleep(0))

    stopping.finish()
