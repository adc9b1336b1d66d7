from __future__ import annotations

import asyncio

import pytest

from forebay.broker.core.errors import StoreFenced
from forebay.broker.runtime.commit.durable import Durable

pytestmark = pytest.mark.anyio


async def wait(done: Durable) -> None:
    await done


async def test_a_waiter_that_is_cancelled_leaves_the_batch_to_the_others() -> None:
    done = Durable()
    leaves, stays = (asyncio.ensure_future(wait(done)) for _ in range(2))
    await asyncio.sleep(0)

    leaves.cancel()
    await asyncio.wait([leaves])

    assert leaves.cancelled()
    assert not done.done()
    done.set_result(None)
    await stays


async def test_a_failed_batch_raises_for_every_caller_that_waits_early_or_late() -> None:
    done = Durable()
    early = asyncio.ensure_future(wait(done))
    await asyncio.sleep(0)

    done.set_exception(StoreFenced("the disk failed"))

    for waiter in (early, wait(done)):
        with pytest.raises(StoreFenced):
            await waiter
