"""Waits and calls of the thread client: every wait blocks the calling thread.

Background threads report their failures. Other threads wait on conditions that only such a thread signals. Therefore
an unexpected end becomes a :class:`ClientFault`, which is passed to the owner of the condition.
"""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from typing import Any, Final, Self, TypeVar

import grpc

from forebay.client.errors import ClientFault
from forebay.client.settings import ClientSettings
from forebay.client.transport.io import Io, Metadata, unanswered
from forebay.client.transport.operations import blocked, iterated
from forebay.client.transport.security import open_channel

T = TypeVar("T")
log = logging.getLogger(__name__)


class ThreadCondition(threading.Condition):
    """Condition whose waits block."""

    async def wait_for_notify(self, timeout_s: float | None = None) -> None:
        """Wait for a notification or the timeout."""
        self.wait(timeout_s)


class BlockingResponses:
    """Responses of a call that grpc reads on threads of its own."""

    def __init__(self, call: Any, opening_s: float | None = None, *, headers_suffice: bool = False) -> None:
        """``opening_s`` limits the wait for the first response; for the headers, if they suffice."""
        self._call = call
        self._opening_s = opening_s
        self._headers_suffice = headers_suffice
        self._is_late = False
        self._timer: threading.Timer | None = None
        if opening_s is not None:
            self._timer = threading.Timer(opening_s, self._expire)
            self._timer.daemon = True
            self._timer.start()

    def __aiter__(self) -> Self:
        """Return the iterator itself."""
        return self

    async def __anext__(self) -> Any:
        """Return the next response."""
        try:
            if self._headers_suffice and self._timer is not None:
                self._call.initial_metadata()  # or the end of the call
                self._end_timer()
            return next(self._call)
        except StopIteration:
            raise StopAsyncIteration from None
        except grpc.RpcError as failure:
            if self._is_late and self._opening_s is not None:
                raise unanswered(self._opening_s) from failure
            raise
        finally:
            self._end_timer()

    def cancel(self) -> None:
        """Cancel the call."""
        self._end_timer()
        self._call.cancel()

    def _end_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _expire(self) -> None:
        self._is_late = True
        self._call.cancel()

    async def join(self) -> None:
        """Return: grpc's thread ends by itself."""


class GuardedThread(threading.Thread):
    """Daemon thread that reports an unexpected end to ``on_fault``, which runs on this thread."""

    def __init__(self, work: Callable[[], None], *, name: str, on_fault: Callable[[ClientFault], None]) -> None:
        super().__init__(name=name, daemon=True)
        self._work = work
        self._on_fault = on_fault

    def run(self) -> None:
        """Run the work; report any exception."""
        try:
            self._work()
        except Exception as error:  # noqa: BLE001 - reported to the waiting threads
            self._on_fault(fault_of(error))


def fault_of(error: Exception, job: str = "") -> ClientFault:
    """Log an unexpected error of a job, by default this thread, and return its fault.

    The text is omitted, because it may quote a record.
    """
    frames = traceback.extract_tb(error.__traceback__)
    where = f"{frames[-1].filename}:{frames[-1].lineno} in {frames[-1].name}" if frames else "an unknown place"
    thread = job or threading.current_thread().name
    log.error("background thread failed thread=%s error=%s at=%s", thread, type(error).__qualname__, where)
    fault = ClientFault(
        f"a background thread of the client ended unexpectedly: {type(error).__qualname__} at {where}; open another",
        facts={"error": type(error).__qualname__, "thread": thread},
    )
    fault.__cause__ = error
    return fault


class ThreadJob:
    """Background work on a thread of its own."""

    def __init__(self, thread: threading.Thread) -> None:
        self._thread = thread

    def is_current(self) -> bool:
        """Return True if the caller is this thread."""
        return self._thread is threading.current_thread()

    async def join(self, timeout_s: float | None) -> bool:
        """Wait for the end; return False after the timeout."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def cancel(self) -> None:
        """Return: a thread is not interrupted."""


class Threads:
    """Waits and calls that block."""

    blocks = True

    def check(self) -> None:
        """Return: every thread may use the client."""

    def open_channel(self, endpoint: str, settings: ClientSettings, options: list[tuple[str, Any]]) -> grpc.Channel:
        """Return a channel."""
        return open_channel(endpoint, settings, options)

    async def close_channel(self, channel: grpc.Channel) -> None:
        """Close a channel and all calls on it."""
        channel.close()

    async def call(self, method: Any, request: Any, timeout_s: float, metadata: Metadata = ()) -> Any:
        """Return the response of a unary call."""
        return method(request, timeout=timeout_s, metadata=metadata)

    def read(
        self, method: Any, request: Any, *, opening_s: float | None = None, timeout_s: float | None = None
    ) -> BlockingResponses:
        """Start a call with a stream of responses."""
        return BlockingResponses(method(request, timeout=timeout_s), opening_s, headers_suffice=True)

    def exchange(self, method: Any, requests: AsyncGenerator[Any, None], opening_s: float) -> BlockingResponses:
        """Start a call with streams of requests and responses; grpc's own thread takes the requests."""
        taken: Iterator[Any] = iterated(requests)
        return BlockingResponses(method(taken), opening_s)

    def spawn(
        self, work: Callable[[], Coroutine[Any, Any, None]], *, name: str, on_fault: Callable[[ClientFault], None]
    ) -> ThreadJob:
        """Start a thread."""
        thread = GuardedThread(lambda: blocked(work()), name=name, on_fault=on_fault)
        thread.start()
        return ThreadJob(thread)

    def condition(self, lock: threading.Lock) -> ThreadCondition:
        """Return a condition of a lock."""
        return ThreadCondition(lock)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    async def run(self, function: Callable[[], T]) -> T:
        """Return the result of the function."""
        return function()


THREADS: Final[Io] = Threads()
