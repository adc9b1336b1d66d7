from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable

import pytest
from grpc import aio

from forebay.client import BrokerUnavailable
from forebay.client.aio.loop import EventLoop, LoopResponses
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

    responses = EventLoop(ClientSettings()).exchange(lambda metadata: call, requests(), 30.0)
    await call.written.wait()
    await responses.join()
    del responses
    gc.collect()

    assert unread == []


async def test_a_write_that_would_wait_without_end_does_not_hold_up_the_end_of_its_call() -> None:
    call = EndedCall()
    ended = asyncio.Event()

    async def endless(request: bytes) -> None:
        call.written.set()
        await asyncio.Event().wait()

    async def requests() -> AsyncGenerator[bytes, None]:
        try:
            yield b"open"
        finally:
            ended.set()

    call.write = endless  # type: ignore[method-assign]  # as of a call that was cancelled before it was connected
    responses = EventLoop(ClientSettings()).exchange(lambda metadata: call, requests(), 30.0)
    await call.written.wait()
    async with asyncio.timeout(10):
        await responses.join()

    assert ended.is_set()


async def test_a_notification_wakes_every_task_and_a_timeout_wakes_one() -> None:
    lock = threading.Lock()
    condition = EventLoop(ClientSettings()).condition(lock)
    woken: list[int] = []

    async def wait(number: int, timeout_s: float | None) -> None:
        with lock:
            await condition.wait_for_notify(timeout_s)
            woken.append(number)

    late = asyncio.create_task(wait(0, 0.01))
    await late
    tasks = [asyncio.create_task(wait(number, None)) for number in (1, 2, 3)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    with lock:
        condition.notify()
    await asyncio.gather(*tasks, return_exceptions=True)

    assert woken == [0, 2, 3]
    assert not lock.locked()


class SilentCall:
    """A call that gRPC has lost: it is answered only by its end."""

    def __init__(self) -> None:
        self._cancelled = asyncio.get_running_loop().create_future()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def initial_metadata(self) -> None:
        await self._cancelled

    async def __anext__(self) -> bytes:
        await self._cancelled
        raise asyncio.CancelledError

    async def done_writing(self) -> None:
        """Nothing more is written."""

    def cancel(self) -> None:
        self._cancelled.set_result(None)


async def no_requests() -> AsyncGenerator[bytes, None]:
    for request in list[bytes]():
        yield request


def read(loop: EventLoop) -> LoopResponses:
    return loop.read(lambda request, timeout, metadata: SilentCall(), b"", opening_s=0.01)


def exchange(loop: EventLoop) -> LoopResponses:
    return loop.exchange(lambda metadata: SilentCall(), no_requests(), 0.01)


@pytest.mark.parametrize("start", [read, exchange])
async def test_a_stream_that_is_not_answered_in_time_is_cancelled_and_may_be_tried_again(
    start: Callable[[EventLoop], LoopResponses],
) -> None:
    responses = start(EventLoop(ClientSettings()))

    with pytest.raises(BrokerUnavailable, match=r"did not answer the start of a stream within 0\.01 s"):
        await anext(responses)
    await responses.join()
