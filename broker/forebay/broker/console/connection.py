"""HTTP connections to the console, with a time limit for receiving a request.

uvicorn limits only the idle time between two requests, so a connection that never sends one would stay open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

REQUEST_S: Final = 10.0
"""Time limit for a TLS handshake, and for receiving a complete request.

It starts with the connection for the first request, and with the first byte for each later one.
"""


class BoundedConnection(H11Protocol):
    """Connection that is closed if no complete request arrives in time."""

    def __init__(self, config: Config, state: ServerState, *, request_s: float, on_lost: Callable[[], None]) -> None:
        super().__init__(config, state, {})
        self._on_lost = on_lost
        self._request_s = request_s
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn types it
        """Start the time limit for the first request."""
        super().connection_made(transport)
        self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the time limit, and report that the connection was lost."""
        self._end_deadline()
        self._on_lost()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Process received data: a complete request cancels the time limit, a partial one starts it."""
        super().handle_events()
        if self._is_awaited():
            self._await_request()
        else:
            self._end_deadline()

    def _is_awaited(self) -> bool:
        """Return True while a request is incomplete; a later one counts only from its first byte."""
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
