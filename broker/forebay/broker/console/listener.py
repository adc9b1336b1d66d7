"""Listening socket of the console, which closes connections above a limit as soon as it accepts them.

A server of asyncio has no such limit, and reports a connection only after its TLS handshake.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Coroutine
from typing import Any, Final

_log: Final = logging.getLogger(__name__)

RETRY_S: Final = 1.0
"""Delay after a failed accept, for example because no file descriptor was free."""


class Listener:
    """Acceptor of connections, with the methods of an ``asyncio.Server`` that uvicorn calls.

    Used on the loop.
    """

    def __init__(
        self,
        listening: socket.socket,
        connection: Callable[[Callable[[], None]], asyncio.Protocol],
        *,
        connections_max: int,
        context: ssl.SSLContext | None,
        handshake_s: float,
        retry_s: float = RETRY_S,
    ) -> None:
        """Accept connections until ``close``.

        ``connection`` creates a protocol; the protocol calls the function passed to it when its connection is lost.
        With a TLS ``context``, each handshake must complete within ``handshake_s``.
        """
        self._listening = listening
        self._connection = connection
        self._connections_max = connections_max
        self._context = context
        self._handshake_s = None if context is None else handshake_s
        self._retry_s = retry_s
        self._open: set[socket.socket] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._work = self._run(self._accept())

    def check(self) -> None:
        """Raise the error that stopped the accept loop, if there was one."""
        if self._work.done() and not self._work.cancelled():
            self._work.result()

    def close(self) -> None:
        """Stop accepting connections, and close those that are still in their TLS handshake."""
        for task in self._tasks:
            task.cancel()

    async def wait_closed(self) -> None:
        """Wait until the accept loop and all TLS handshakes have ended."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(0)  # sock_accept does not yield to the loop while connections are waiting
            try:
                accepted, _ = await loop.sock_accept(self._listening)
            except OSError as error:
                _log.warning("console cannot accept connections error=%s retry_s=%g", error, self._retry_s)
                await asyncio.sleep(self._retry_s)  # no event signals that a descriptor is free again
                continue
            if len(self._open) >= self._connections_max:
                accepted.close()
                continue
            accepted.setblocking(False)
            self._open.add(accepted)
            self._run(self._connect(accepted))

    async def _connect(self, accepted: socket.socket) -> None:
        def lost() -> None:
            self._open.discard(accepted)

        is_connected = False
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self._connection(lost),
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=self._handshake_s,
            )
            is_connected = True
        except OSError as error:  # the handshake failed, or took too long
            _log.debug("connection to the console failed error=%s", error)
        finally:
            if not is_connected:
                lost()

    def _run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
