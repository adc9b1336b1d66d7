"""Health service with bounded watches: it needs no credential, and each watch is a long-lived stream."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from grpc_health.v1 import health, health_pb2

from forebay.broker.core.errors import BrokerError
from forebay.errors.reasons import Reason

WATCHES_MAX: Final = 1_024
"""Open watches of a broker. A check needs none."""


class BoundedHealth(health.aio.HealthServicer):  # type: ignore[misc]
    """The health of a broker. Used on one loop."""

    def __init__(self, watches_max: int = WATCHES_MAX) -> None:
        super().__init__()
        self._watches_max = watches_max
        self._ending = asyncio.Event()
        self.watches = 0
        """Number of open watches."""

    async def Watch(self, request: health_pb2.HealthCheckRequest, context: Any) -> None:
        if self.watches >= self._watches_max:
            raise BrokerError(Reason.TOO_MANY_STREAMS, "watches of its health", bound=self._watches_max)
        self.watches += 1
        watching = asyncio.ensure_future(super().Watch(request, context))
        ending = asyncio.ensure_future(self._ending.wait())
        try:
            await asyncio.wait({watching, ending}, return_when=asyncio.FIRST_COMPLETED)
            if watching.done():
                watching.result()
        finally:
            self.watches -= 1
            for task in (watching, ending):
                task.cancel()
            await asyncio.gather(watching, ending, return_exceptions=True)

    def end_watches(self) -> None:
        """End all watches, now and later: a stop does not wait for them."""
        self._ending.set()
