"""Server of the console: HTTP on the loop of the broker."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Final

import uvicorn
from starlette.applications import Starlette

REQUESTS_MAX: Final = 128
"""Connections and requests at a time; more are answered with 503."""

STOP_S: Final = 2


class _Server(uvicorn.Server):
    """Server that leaves the signals to the broker."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


class ConsoleServer:
    """Console of one broker, bound to its address. Used on the loop."""

    def __init__(
        self, application: Starlette, host: str, port: int, *, cert_file: str = "", key_file: str = ""
    ) -> None:
        """Bind the address. Raises ``OSError``."""
        self._socket = _bound(host, port)
        self._host = host
        self.port: int = self._socket.getsockname()[1]
        self._ended = asyncio.Event()
        self.scheme = "https" if cert_file else "http"
        config = uvicorn.Config(
            application,
            http="h11",
            ws="none",
            lifespan="off",
            loop="none",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            limit_concurrency=REQUESTS_MAX,
            timeout_graceful_shutdown=STOP_S,
            ssl_certfile=cert_file or None,
            ssl_keyfile=key_file or None,
        )
        self._config = config
        self._server = _Server(config)

    async def run(self) -> None:
        """Serve until ``stop``; then wait until it is cancelled. May be called again after a failure."""
        if self._socket.fileno() < 0:  # closed by the run before
            self._socket, self._server = _bound(self._host, self.port), _Server(self._config)
        await self._server.serve(sockets=[self._socket])
        self._ended.set()
        await asyncio.Event().wait()

    async def stop(self) -> None:
        """Accept no more requests, and return when the last one has ended."""
        self._server.should_exit = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2 * STOP_S):
                await self._ended.wait()


def _bound(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, place = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)[0]
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(place)
        bound.listen(128)
        bound.setblocking(False)
    except OSError as error:
        bound.close()
        raise OSError(f"cannot listen on {host}:{port}: {error.strerror}") from error
    return bound
