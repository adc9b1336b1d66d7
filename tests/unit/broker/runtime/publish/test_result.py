from __future__ import annotations

import asyncio

import pytest

from forebay.broker.core.errors import Draining
from forebay.broker.runtime.publish.result import PublishResult, done_with, pass_on

pytestmark = pytest.mark.anyio
STORED = PublishResult(3, 2, duplicate=False)


async def test_a_known_result_is_answered_at_once() -> None:
    assert await done_with(asyncio.get_running_loop(), STORED) == STORED


async def test_a_page_or_what_became_of_it_is_passed_on() -> None:
    loop = asyncio.get_running_loop()
    stored, failed = loop.create_future(), loop.create_future()

    pass_on(stored, None, STORED)
    pass_on(failed, Draining(), STORED)

    assert await stored == STORED
    with pytest.raises(Draining):
        await failed


async def test_a_caller_that_has_left_gets_no_answer() -> None:
    gone: asyncio.Future[PublishResult] = asyncio.get_running_loop().create_future()
    gone.cancel()

    pass_on(gone, None, STORED)

    assert gone.cancelled()
