"""Waits and calls of the asyncio client: every wait suspends a task of one event loop.

The jobs of publishers and subscribers are tasks. No thread is started, with one exception: an endpoint that cannot be
reached is probed by the default executor of the loop, which the loop itself uses to resolve names.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing, suppress
from threading import Lock
from typing import Any, Self, TypeVar

import grpc
from grpc import aio

from forebay.client.errors import ClientFault, Closed
from forebay.client.settings import ClientSettings
from forebay.client.transport.io import Metadata, unanswered
from forebay.client.transport.security import channel_of, has_token, token_of
from forebay.client.transport.threads import fault_of
from forebay.errors.reasons import Reason

T = TypeVar("T")


class LoopCondition:
    """Condition whose waits suspend the task and release the lock. Another thread may notify."""

    def __init__(self, lock: Lock) -> None:
        self._lock = lock
        self._waiting: dict[asyncio.Future[None], None] = {}
        """In the order of their calls."""

    async def wait_for_notify(self, timeout_s: float | None = None) -> None:
        """Wait for a notification or the timeout."""
        loop = asyncio.get_running_loop()
        notified = loop.create_future()
        timer = None if timeout_s is None else loop.call_later(timeout_s, _complete, notified)
        self._waiting[notified] = None
        self._lock.release()
        try:
            await notified
        finally:
            self._lock.acquire()  # no task holds it while it is suspended, another thread only for a moment
            del self._waiting[notified]
            if timer is not None:
                timer.cancel()

    def notify(self, n: int = 1) -> None:
        """Wake all that wait, the first one first: a single one might be cancelled before it runs."""
        for notified in self._waiting:
            complete(notified)

    def notify_all(self) -> None:
        """Wake all that wait."""
        self.notify()


def complete(future: asyncio.Future[None]) -> None:
    """End the wait for a future, from any thread."""
    loop = future.get_loop()
    if _running_loop() is loop:
        _complete(future)
    elif not loop.is_closed():
        loop.call_soon_threadsafe(_complete, future)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _complete(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class LoopResponses:
    """Responses of a call of ``grpc.aio``."""

    def __init__(self, call: Any, sender: asyncio.Task[None] | None = None, opening_s: float | None = None) -> None:
        """``opening_s`` limits the wait for the first response; without ``sender``, for the headers."""
        self._call = call
        self._sender = sender
        self._opening_s = opening_s
        self._is_late = False
        self._timer = None if opening_s is None else asyncio.get_running_loop().call_later(opening_s, self._expire)
        self._responses = aiter(call)
        self._is_cancelled = False

    def __aiter__(self) -> Self:
        """Return the iterator itself."""
        return self

    async def __anext__(self) -> Any:
        """Return the next response."""
        try:
            if self._sender is None and self._timer is not None:
                await self._call.initial_metadata()  # or the end of the call
                self._end_timer()
            return await anext(self._responses)
        except asyncio.CancelledError:
            if _is_cancelling():
                raise
            if self._is_late and self._opening_s is not None:
                raise unanswered(self._opening_s) from None
            if self._is_cancelled:
                raise StopAsyncIteration from None
            raise _closed() from None
        except grpc.RpcError as failure:
            if self._is_late and self._opening_s is not None:
                raise unanswered(self._opening_s) from failure
            raise
        finally:
            self._end_timer()

    def cancel(self) -> None:
        """Cancel the call."""
        self._is_cancelled = True
        self._end_timer()
        self._call.cancel()

    def _end_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        self._is_late = True
        self._call.cancel()

    async def join(self) -> None:
        """End the sender, and wait for it.

        In a call that was cancelled before it was connected, ``write`` would wait without end.
        """
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.wait([self._sender])


class LoopJob:
    """Background work in a task."""

    def __init__(self, task: asyncio.Task[None]) -> None:
        self._task = task

    def is_current(self) -> bool:
        """Return True if the caller is this task."""
        return self._task is asyncio.current_task()

    async def join(self, timeout_s: float | None) -> bool:
        """Wait for the end; return False after the timeout."""
        await asyncio.wait([self._task], timeout=timeout_s)
        return self._task.done()

    def cancel(self) -> None:
        """Cancel the task."""
        self._task.cancel()


class EventLoop:
    """Waits and calls on the event loop that uses them first."""

    blocks = False

    def __init__(self, settings: ClientSettings) -> None:
        self._token: Callable[[], str] | None = (lambda: token_of(settings)) if has_token(settings) else None
        self._loop: asyncio.AbstractEventLoop | None = None

    def check(self) -> None:
        """Raise ``FOREIGN_LOOP`` outside of the event loop that used the client first."""
        running = _running_loop()
        if self._loop is None:
            self._loop = running
        if running is None or running is not self._loop:
            where = "outside of an event loop" if running is None else "in another event loop"
            raise Closed(
                f"an asyncio client was used {where}: use it in the event loop that used it first, or open one there",
                reason=Reason.FOREIGN_LOOP,
            )

    def open_channel(self, endpoint: str, settings: ClientSettings, options: list[tuple[str, Any]]) -> aio.Channel:
        """Return a channel. The token is added by the calls, not by the channel."""
        channel: aio.Channel = channel_of(aio, endpoint, settings, options)
        return channel

    async def close_channel(self, channel: aio.Channel) -> None:
        """Close a channel and all calls on it."""
        await channel.close()

    async def call(self, method: Any, request: Any, timeout_s: float, metadata: Metadata = ()) -> Any:
        """Return the response of a unary call."""
        try:
            return await method(request, timeout=timeout_s, metadata=self._metadata(metadata))
        except aio.UsageError as failure:
            raise ValueError(str(failure)) from failure
        except asyncio.CancelledError:
            if _is_cancelling():
                raise
            raise _closed() from None

    def read(
        self, method: Any, request: Any, *, opening_s: float | None = None, timeout_s: float | None = None
    ) -> LoopResponses:
        """Start a call with a stream of responses."""
        try:
            call = method(request, timeout=timeout_s, metadata=self._metadata())
            return LoopResponses(call, opening_s=opening_s)
        except aio.UsageError as failure:
            raise ValueError(str(failure)) from failure

    def exchange(self, method: Any, requests: AsyncGenerator[Any, None], opening_s: float) -> LoopResponses:
        """Start a call with streams of requests and responses; a task takes the requests."""
        try:
            call = method(metadata=self._metadata())
        except aio.UsageError as failure:
            raise ValueError(str(failure)) from failure
        return LoopResponses(call, asyncio.create_task(_send(call, requests), name="forebay-requests"), opening_s)

    def spawn(
        self, work: Callable[[], Coroutine[Any, Any, None]], *, name: str, on_fault: Callable[[ClientFault], None]
    ) -> LoopJob:
        """Start a task."""
        return LoopJob(asyncio.create_task(_guarded(work, on_fault, name), name=name))

    def condition(self, lock: Lock) -> LoopCondition:
        """Return a condition of a lock."""
        return LoopCondition(lock)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)

    async def run(self, function: Callable[[], T]) -> T:
        """Return the result of a function that blocks for a short time."""
        return await asyncio.to_thread(function)

    def _metadata(self, metadata: Metadata = ()) -> aio.Metadata:
        bearer = () if self._token is None else (("authorization", f"Bearer {self._token()}"),)
        return aio.Metadata(*metadata, *bearer)


async def _send(call: Any, requests: AsyncGenerator[Any, None]) -> None:
    """Send the requests of a call. The reader of its responses learns why the call ended.

    A call that ends during a write fails it with an ``InternalError`` of the library.
    """
    with suppress(grpc.RpcError, aio.UsageError, aio.InternalError, asyncio.InvalidStateError):
        async with aclosing(requests):
            async for request in requests:
                await call.write(request)
        await call.done_writing()


async def _guarded(
    work: Callable[[], Coroutine[Any, Any, None]], on_fault: Callable[[ClientFault], None], name: str
) -> None:
    try:
        await work()
    except asyncio.CancelledError:
        on_fault(
            ClientFault("a task of the client was cancelled, as at the end of its event loop: open another client")
        )
        raise
    except Exception as error:  # noqa: BLE001 - reported to the waiting tasks
        on_fault(fault_of(error, name))


def _is_cancelling() -> bool:
    """Return True if the current task is cancelled, and not only a call in which it waits."""
    task = asyncio.current_task()
    return task is not None and bool(task.cancelling())


def _closed() -> Closed:
    return Closed("the client was closed during a call", reason=Reason.CLIENT_CLOSED)
