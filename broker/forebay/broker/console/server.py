"""Server of the console: HTTP on the loop of the broker."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Final

import uvicorn
from starlette.applications import Starlette

from forebay.broker.console.connection import REQUEST_S, BoundedConnection
from forebay.broker.console.listener import Listener

CONNECTIONS_MAX: Final = 256
"""Connections at a time, each with one request at most; further ones are closed."""

BACKLOG: Final = 128
"""Connections that the system keeps until the loop accepts them."""

STOP_S: Final = 2


class _Server(uvicorn.Server):
    """Server with bounded connections that leaves the signals to the broker."""

    def __init__(self, config: uvicorn.Config, connections_max: int, request_s: float) -> None:
        super().__init__(config)
        self._connections_max = connections_max
        self._request_s = request_s
        self._listeners: list[Listener] = []

    async def on_tick(self, counter: int) -> bool:
        """Raise the error of a listener; the supervisor starts the server again."""
        for one in self._listeners:
            one.check()
        return await super().on_tick(counter)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections."""
        self._listeners = [self._listener(one) for one in sockets or ()]
        self.servers = [*self._listeners]  # type: ignore[list-item]  # they have what uvicorn calls
        self.started = True

    def _listener(self, listening: socket.socket) -> Listener:
        return Listener(
            listening,
            lambda lost: BoundedConnection(self.config, self.server_state, request_s=self._request_s, on_lost=lost),
            connections_max=self._connections_max,
            context=self.config.ssl,
            handshake_s=self._request_s,
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


class ConsoleServer:
    """Console of one broker, bound to its address. Used on the loop."""

    def __init__(
        self,
        application: Starlette,
        host: str,
        port: int,
        *,
        cert_file: str = "",
        key_file: str = "",
        connections_max: int = CONNECTIONS_MAX,
        request_s: float = REQUEST_S,
    ) -> None:
        """Bind the address. ``request_s`` is the time in which a request must arrive. Raises ``OSError``."""
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
            timeout_graceful_shutdown=STOP_S,
            ssl_certfile=cert_file or None,
            ssl_keyfile=key_file or None,
        )
        self._bounds = connections_max, request_s
        self._config = config
        self._server = _Server(config, *self._bounds)

    async def run(self) -> None:
        """Serve until ``stop``; then wait until it is cancelled. May be called again after a failure."""
        if self._socket.fileno() < 0:  # closed by the run before
            self._socket, self._server = _bound(self._host, self.port), _Server(self._config, *self._bounds)
        await self._server.serve(sockets=[self._socket])
        self._ended.set()
        await asyncio.Event().wait()

    def renew(self) -> None:
        """Load certificate and key again, for later connections. Raises ``OSError`` if they cannot be used."""
        if self._config.loaded and self._config.ssl is not None:  # otherwise the start loads them
            self._config.ssl.load_cert_chain(self._config.ssl_certfile or "", self._config.ssl_keyfile)

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
        bound.listen(BACKLOG)
        bound.setblocking(False)
    except OSError as error:
        bound.close()
        raise OSError(f"cannot listen on {host}:{port}: {error.strerror}") from error
    return bound
