"""Takes deliveries from a sink and settles them; comes back by itself when the connection breaks.

    for delivery in client.subscriber("orders"):
        for record in delivery:
            ...
        delivery.ack()

What was taken and not acked stays in flight and counts against the credit. After a broken connection the deliveries
of the old one are stale: their records come again, in new deliveries.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Callable
from typing import Final

from forebay.client.consume.delivery import Delivery
from forebay.client.consume.state import SubscriptionState
from forebay.client.consume.stream import SubscribeStream
from forebay.client.errors import SubscriberClosed, UsedAfterFork
from forebay.client.replay.reader import Reading
from forebay.client.settings import SubscriberSettings
from forebay.client.telemetry import Telemetry
from forebay.client.transport.channel import Channels
from forebay.v1 import buffer_service_pb2 as pb

GOODBYE_S: Final = 5.0
"""Bound for ``close``: results of what was answered, and the orderly end of the stream."""


class Subscriber(Reading[Delivery]):
    """One consumer of a subscription: an iterator of deliveries.

    It connects when the first delivery is asked for. Usable from several threads; not across ``fork``.
    """

    def __init__(
        self,
        channels: Channels,
        sink: str,
        *,
        subscription: str = "default",
        consumer_id: str | None = None,
        settings: SubscriberSettings,
        incarnation: str = "",
        clock: Callable[[], float] = time.monotonic,
        on_close: Callable[[Subscriber], None] = lambda subscriber: None,
    ) -> None:
        self.sink: Final = sink
        self.subscription: Final = subscription
        self.consumer_id: Final = consumer_id or uuid.uuid4().hex
        self._pid = os.getpid()
        self._on_close = on_close
        self._credit = pb.Credit(records=settings.credit_records, bytes=settings.credit_bytes)
        self._incarnation = incarnation
        self._clock = clock
        self._state = SubscriptionState(
            Telemetry(sink, subscription), clock, settle_timeout_s=channels.settings.call_timeout_s
        )
        self._stream = SubscribeStream(channels, self._opening, settings, self._state)
        self._start = threading.Lock()
        """Protects the start of the thread against two first users."""
        self._started = False

    def _opening(self) -> pb.DeliverOpen:
        return pb.DeliverOpen(
            sink=self.sink,
            subscription=self.subscription,
            consumer_id=self.consumer_id,
            credit=self._credit,
            incarnation=self._state.incarnation or self._incarnation,
            subscription_incarnation=self._state.subscription_incarnation,
            answers_pings=True,
        )

    def take(self, timeout_s: float | None = None) -> Delivery | None:
        """Return the next delivery; ``None`` when the subscriber was closed, or none came within ``timeout_s``.

        Raises what ended the subscriber for good: ``SinkNotFound``, ``SubscriptionNotFound``, ``ConsumerReplaced``,
        ``InvalidOpen``, ``SinkReplaced`` and ``SubscriptionReplaced`` (the sink, or the subscription, was deleted and
        made anew while the connection was broken), ...; any broken connection with ``reconnect=False``.
        """
        self._check()
        with self._start:
            if not self._started and not self._state.is_closed():
                self._stream.start()
                self._started = True
        return self._state.take(timeout_s)

    def __next__(self) -> Delivery:
        """Return the next delivery, waiting for it; ends when the subscriber is closed. Raises as ``take`` does."""
        delivery = self.take()
        if delivery is None:
            raise StopIteration
        return delivery

    def set_credit(self, *, records: int, bytes_: int) -> None:
        """Change how much may be in flight; 0 stops deliveries. Takes effect at once, also after a reconnect."""
        self._check()
        if self._state.is_closed():
            raise SubscriberClosed("the subscriber was closed")
        self._credit = pb.Credit(records=records, bytes=bytes_)
        self._state.set_credit(self._credit)

    def close(self) -> None:
        """End the iteration, from any thread; what was acked is confirmed first, what was not comes again.

        The broker is told that this is the end, so that it is no failed try of what comes again. Takes up to 5 s where
        the broker does not answer.
        """
        if self._pid != os.getpid():
            return
        until = self._clock() + GOODBYE_S
        self._state.close(GOODBYE_S)
        with self._start:
            if self._started:
                self._stream.stop(max(0.0, until - self._clock()))
        self._on_close(self)

    def _check(self) -> None:
        if self._pid != os.getpid():
            raise UsedAfterFork("this subscriber was opened before fork; open one in this process")
