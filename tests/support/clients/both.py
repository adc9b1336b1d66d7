"""One scenario for both clients: a coroutine that uses the asyncio client, or the thread client in its shape.

``ThreadShape`` gives an object of the thread client the methods of its asyncio counterpart: what is a coroutine there
is one here, and blocks. A scenario over it never suspends.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from concurrent.futures import Future
from typing import Any, Final, Self

from forebay import client as threads
from forebay.client import aio
from forebay.client.admin.positions import Positions
from forebay.client.admin.realtime import Realtime
from forebay.client.transport.operations import blocked

WAIT_S: Final = 30.0

COUNTERPARTS: Final[dict[type, type]] = {
    threads.Client: aio.Client,
    threads.Publisher: aio.Publisher,
    threads.Subscriber: aio.Subscriber,
    threads.Delivery: aio.Delivery,
    threads.RecordReplay: aio.RecordReplay,
    threads.PageReplay: aio.PageReplay,
    threads.SinkReplay: aio.PageReplay,
    threads.Sinks: aio.Sinks,
    threads.Schemas: aio.Schemas,
    threads.Subscriptions: aio.Subscriptions,
    threads.Resends: aio.Resends,
    threads.DeadLetters: aio.DeadLetters,
    threads.Epochs: aio.Epochs,
    threads.Backups: aio.Backups,
    Positions: aio.Positions,
    Realtime: aio.Realtime,
}
ANSWERS: Final = {"ack", "ack_until", "nack", "nack_from", "dead_letter", "drop"}
"""Methods of a delivery whose results can be awaited."""

Scenario = Callable[[Any], Awaitable[None]]


class ThreadShape:
    """Object of the thread client in the shape of the asyncio client."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._shape = COUNTERPARTS[type(inner)]

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        shape = getattr(self._shape, name, None)
        if not callable(found):
            return _shaped(found)
        if inspect.iscoroutinefunction(shape):
            return lambda *args, **kwargs: _call(found, *args, **kwargs)
        if name in ANSWERS:
            return lambda *args, **kwargs: _Done(found(*args, **kwargs))
        return lambda *args, **kwargs: _shaped(found(*args, **kwargs))

    def send_nowait(self, *args: Any, **kwargs: Any) -> Any:
        """Send without waiting, which is an option of ``send`` in the thread client."""
        return _shaped(self._inner.send(*args, **kwargs, wait=False))

    def __len__(self) -> int:
        return len(self._inner)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._inner)

    async def __aenter__(self) -> Self:
        self._inner.__enter__()
        return self

    async def __aexit__(self, *details: Any) -> None:
        self._inner.__exit__(*details)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            return _shaped(next(self._inner))
        except StopIteration:
            raise StopAsyncIteration from None


class _Done:
    """Result that can be awaited."""

    def __init__(self, result: Any) -> None:
        self._result = result

    def done(self) -> bool:
        """Return True if the result is known."""
        return not isinstance(self._result, Future) or self._result.done()

    def __await__(self) -> Generator[Any, None, Any]:
        yield from ()
        return self._result.result(WAIT_S) if isinstance(self._result, Future) else self._result


async def _call(method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return _shaped(method(*args, **kwargs))


async def _steps(steps: Iterator[Any]) -> AsyncIterator[Any]:
    for step in steps:
        yield step


def _shaped(found: Any) -> Any:
    if type(found) in COUNTERPARTS:
        return ThreadShape(found)
    if isinstance(found, Future):
        return _Done(found)
    return _steps(found) if inspect.isgenerator(found) else found


def with_threads(endpoint: str, scenario: Scenario, **options: Any) -> None:
    """Run a scenario with the thread client."""

    async def run() -> None:
        async with ThreadShape(threads.Client(endpoint, **options)) as client:
            await scenario(client)

    blocked(run())


def with_asyncio(endpoint: str, scenario: Scenario, **options: Any) -> None:
    """Run a scenario with the asyncio client."""

    async def run() -> None:
        async with aio.Client(endpoint, **options) as client:
            async with asyncio.timeout(120):
                await scenario(client)

    asyncio.run(run())


RUNNERS: Final = {"threads": with_threads, "asyncio": with_asyncio}
"""Runs a scenario, by the client that it uses."""
