from __future__ import annotations

import pytest

from forebay.broker.runtime.commit.pulse import Pulse

pytestmark = pytest.mark.anyio


async def test_a_moment_between_the_look_and_the_wait_is_not_missed() -> None:
    pulse = Pulse()
    moment = pulse.next()

    pulse.fire()

    await moment.wait()


async def test_the_next_moment_is_another_one() -> None:
    pulse = Pulse()
    pulse.fire()

    assert not pulse.next().is_set()


async def test_every_waiter_is_woken() -> None:
    pulse = Pulse()
    waiting = [pulse.next() for _ in range(3)]

    pulse.fire()

    assert all(moment.is_set() for moment in waiting)
