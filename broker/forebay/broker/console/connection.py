"""HTTP connections to the console, with bounds of their number and of the arrival of a request.

uvicorn has a time limit between two requests only. Without these bounds, connections that send nothing are kept until
the file descriptors of the broker are used up.
"""

from __future__ import annotations

import asyncio
from typing import Final

from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

CONNECTIONS_MAX: Final = 256
"""Connections at a time, each with one request at most; further ones are closed."""

REQUEST_S: Final = 10.0
"""Time limit of a TLS handshake, and of the arrival of a request.

It begins with the connection, for a later request with its first byte.
"""


class BoundedConnection(H11Protocol):
    """Connection that is closed if there are too many, or if no complete request arrives in time."""

    def __init__(self, config: Config, state: ServerState, *, connections_max: int, request_s: float) -> None:
        super().__init__(config, state, {})
        self._connections_max = connections_max
        self._request_s = request_s
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Close a connection above the bound; give others the time for a request."""
        if len(self.connections) >= self._connections_max:
            self.transport = transport
            transport.abort()
            return
        super().connection_made(transport)
        self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the time limit."""
        self._end_deadline()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Process requests; a complete one ends the time limit, part of the next one starts it."""
        super().handle_events()
        if self._is_awaited():
            self._await_request()
        else:
            self._end_deadline()

    def _is_awaited(self) -> bool:
        """Return True if part of a request is missing, of a later one only after its first byte."""
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or cycle.more_body:
            return True
        return cycle.response_complete and bool(self.conn.trailing_data[0])

    def _await_request(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(self._request_s, self.transport.abort)

    def _end_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
