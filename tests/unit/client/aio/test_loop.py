from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator, AsyncIterator

import pytest
from grpc import aio

from forebay.client.aio.loop import EventLoop
from forebay.client.settings import ClientSettings

pytestmark = pytest.mark.anyio


class EndedCall:
    """A call that ends during its first write."""

    def __init__(self) -> None:
        self.written = asyncio.Event()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        raise StopAsyncIteration

    async def write(self, request: bytes) -> None:
        """Fail as the library does."""
        self.written.set()
        raise aio.InternalError('Failed "execute_batch"')

    def cancel(self) -> None:
        """Do nothing: it has ended."""


async def test_a_call_that_ends_during_a_write_ends_its_sender_without_an_error_in_the_log() -> None:
    unread: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unread.append(context))
    call = EndedCall()

    async def requests() -> AsyncGenerator[bytes, None]:
        yield b"open"

    responses = EventLoop(ClientSettings()).exchange(lambda metadata: call, requests())
    await responses.join()
    del responses
    gc.collect()

    assert call.written.is_set()
    assert unread == []
