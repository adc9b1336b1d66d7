"""The asyncio client for actors that are threads: its event loop runs on a thread of its own.

A bridged object has the methods of the thread client. Each call runs on the event loop, and the calling thread waits.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from typing import Any, Self, cast

from forebay.client import Client, ClientSettings, aio

BRIDGED = (aio.Client, aio.Publisher, aio.Subscriber, aio.Delivery, aio.Sinks)


class Loop:
    """Event loop on a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="bridge", daemon=True)
        self._thread.start()

    def start(self, work: Callable[[], Any]) -> Future[Any]:
        """Run work on the loop, and what it returns if that can be awaited."""

        async def run() -> Any:
            found = work()
            return await found if inspect.iscoroutine(found) or isinstance(found, aio.Settled) else found

        return asyncio.run_coroutine_threadsafe(run(), self._loop)

    def call(self, work: Callable[[], Any]) -> Any:
        """Return the result of work on the loop."""
        return self.start(work).result()

    def client(self, endpoint: str, settings: ClientSettings) -> Client:
        """Return an asyncio client in the shape of a thread client."""
        return cast("Client", _Bridged(self, aio.Client(endpoint, settings=settings)))

    def stop(self) -> None:
        """Stop the loop; its clients must be closed."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class _Bridged:
    """Object of the asyncio client in the shape of the thread client."""

    def __init__(self, loop: Loop, inner: Any) -> None:
        self._loop = loop
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name in {"send", "send_many"}:
            return lambda *args, **kwargs: self._send(found, *args, **kwargs)
        if callable(found):
            return lambda *args, **kwargs: self._shaped(self._loop.call(lambda: found(*args, **kwargs)))
        return self._shaped(found)

    def _send(self, send: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
        pending: Awaitable[Any] = self._loop.call(lambda: send(*args, **kwargs))

        async def receipt() -> Any:
            return await pending

        return self._loop.start(receipt)

    def _shaped(self, found: Any) -> Any:
        return _Bridged(self._loop, found) if isinstance(found, BRIDGED) else found

    def __iter__(self) -> Iterator[Any]:
        return iter(self._loop.call(lambda: list(self._inner)))

    def __len__(self) -> int:
        return len(self._inner)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: Any) -> None:
        self._loop.call(lambda: self._inner.__aexit__(*details))
