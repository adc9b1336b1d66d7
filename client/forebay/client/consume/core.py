"""Core of a subscriber, for the thread client and for the asyncio client."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from typing import Final

from forebay.client.consume.in_flight import InFlight
from forebay.client.consume.state import SubscriptionState
from forebay.client.consume.stream import SubscribeStream
from forebay.client.errors import Closed
from forebay.client.settings import SubscriberSettings
from forebay.client.telemetry import Telemetry
from forebay.client.transport.channel import Channels
from forebay.client.transport.forks import PROCESS
from forebay.errors.reasons import Reason
from forebay.packaging import own_version
from forebay.v1 import buffer_service_pb2 as pb

PROGRAM_MAX: Final = 128
"""Characters of the program's name that a broker accepts."""
GOODBYE_S: Final = 5.0
"""Time limit of ``close`` for pending results and the orderly end of the stream."""


class SubscriberCore:
    """Consumer of a subscription. Thread-safe; not usable across ``fork``."""

    def __init__(
        self,
        channels: Channels,
        sink: str,
        *,
        subscription: str,
        consumer_id: str | None = None,
        settings: SubscriberSettings,
        incarnation: str = "",
        program: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.sink: Final = sink
        self.subscription: Final = subscription
        self.consumer_id: Final = consumer_id or uuid.uuid4().hex
        self._forks = PROCESS.forks
        self._credit = pb.Credit(records=settings.credit_records, bytes=settings.credit_bytes)
        self._incarnation = incarnation
        self._program = program or f"forebay-python/{own_version()}"
        self._clock = clock
        self._io = channels.io
        self.state: Final = SubscriptionState(
            Telemetry(sink, subscription, server=channels.server_of(sink)),
            clock,
            settle_timeout_s=channels.settings.call_timeout_s,
            io=channels.io,
        )
        self._stream = SubscribeStream(channels, self._opening, settings, self.state)
        self._start = threading.Lock()
        """Protects the start of the stream against concurrent first calls."""

    def _opening(self) -> pb.DeliverOpen:
        return pb.DeliverOpen(
            sink=self.sink,
            subscription=self.subscription,
            consumer_id=self.consumer_id,
            credit=self._credit,
            incarnation=self.state.incarnation or self._incarnation,
            subscription_incarnation=self.state.subscription_incarnation,
            answers_pings=True,
            program=self._program[:PROGRAM_MAX],
        )

    async def take(self, timeout_s: float | None) -> InFlight | None:
        """Return the next delivery; ``None`` if the subscriber was closed, or after ``timeout_s``."""
        self._check()
        with self._start:
            if not self.state.is_closed():
                self._stream.start()
        return await self.state.take(timeout_s)

    def set_credit(self, *, records: int, bytes_: int) -> None:
        """Change the limits of what may be in flight. See ``Subscriber.set_credit``."""
        self._check()
        if self.state.is_closed():
            raise Closed("the subscriber is closed: open a new one", reason=Reason.SUBSCRIBER_CLOSED)
        self._credit = pb.Credit(records=records, bytes=bytes_)
        self.state.set_credit(self._credit)

    async def close(self) -> None:
        """End the subscriber; acks are confirmed first. See ``Subscriber.close``."""
        if self._forks != PROCESS.forks:
            return
        until = self._clock() + GOODBYE_S
        try:
            await self.state.close(GOODBYE_S)
            with self._start:  # a start in progress is over
                stream = self._stream
            await stream.stop(max(0.0, until - self._clock()))
        finally:
            self._stream.cancel()

    def cut(self) -> None:
        """End the subscriber at once; its job ends by itself."""
        self.state.cut()
        self._stream.cancel()

    def _check(self) -> None:
        self._io.check()
        if self._forks != PROCESS.forks:
            raise Closed(
                "this subscriber was opened before fork: open a new one in this process", reason=Reason.USED_AFTER_FORK
            )
