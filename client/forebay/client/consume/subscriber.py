"""Subscriber: takes deliveries from a sink and settles them; reconnects automatically.

    for delivery in client.subscriber("orders"):
        for record in delivery:
            ...
        delivery.ack()

Deliveries that were taken and not acked stay in flight and count against the credit. After a broken connection their
records are stale, and are redelivered in new deliveries.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from typing import Final

from forebay.client.consume.delivery import Delivery
from forebay.client.consume.state import SubscriptionState
from forebay.client.consume.stream import SubscribeStream
from forebay.client.errors import Closed
from forebay.client.replay.iterator import ClosableIterator
from forebay.client.settings import SubscriberSettings
from forebay.client.telemetry import Telemetry
from forebay.client.transport.channel import Channels
from forebay.client.transport.forks import PROCESS
from forebay.errors.reasons import Reason
from forebay.v1 import buffer_service_pb2 as pb

GOODBYE_S: Final = 5.0
"""Time limit of ``close`` for pending results and the orderly end of the stream."""


class Subscriber(ClosableIterator[Delivery]):
    """Consumer of a subscription: an iterator of deliveries.

    It connects when the first delivery is requested. Thread-safe; not usable across ``fork``.
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
        self._forks = PROCESS.forks
        self._on_close = on_close
        self._credit = pb.Credit(records=settings.credit_records, bytes=settings.credit_bytes)
        self._incarnation = incarnation
        self._clock = clock
        self._state = SubscriptionState(
            Telemetry(sink, subscription), clock, settle_timeout_s=channels.settings.call_timeout_s
        )
        self._stream = SubscribeStream(channels, self._opening, settings, self._state)
        self._start = threading.Lock()
        """Protects the start of the thread against concurrent first calls."""
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
        """Return the next delivery; ``None`` if the subscriber was closed, or after ``timeout_s``.

        Raises the error that ended the subscriber: ``SinkNotFound``, ``SubscriptionNotFound``, ``CONSUMER_REPLACED``,
        ``INVALID_OPEN``, ``SinkReplaced`` and ``SubscriptionReplaced`` (the sink or subscription was deleted and
        recreated while the connection was broken), and others. With ``reconnect=False``, every broken
        connection ends it.
        """
        self._check()
        with self._start:
            if not self._started and not self._state.is_closed():
                self._stream.start()
                self._started = True
        return self._state.take(timeout_s)

    def __next__(self) -> Delivery:
        """Return the next delivery, waiting for it; stops when closed. Raises as ``take``."""
        delivery = self.take()
        if delivery is None:
            raise StopIteration
        return delivery

    def set_credit(self, *, records: int, bytes_: int) -> None:
        """Change the limits of what may be in flight; 0 stops deliveries. Takes effect immediately.

        The limits also apply after a reconnect.
        """
        self._check()
        if self._state.is_closed():
            raise Closed("the subscriber is closed: open a new one", reason=Reason.SUBSCRIBER_CLOSED)
        self._credit = pb.Credit(records=records, bytes=bytes_)
        self._state.set_credit(self._credit)

    def close(self) -> None:
        """End the iteration, from any thread; acks are confirmed first, unsettled records are redelivered.

        The broker is notified of the close, so that it does not count as a failed attempt. Takes up to 5 s if the
        broker does not answer.
        """
        if self._forks != PROCESS.forks:
            return
        until = self._clock() + GOODBYE_S
        self._state.close(GOODBYE_S)
        with self._start:
            if self._started:
                self._stream.stop(max(0.0, until - self._clock()))
        self._on_close(self)

    def _check(self) -> None:
        if self._forks != PROCESS.forks:
            raise Closed(
                "this subscriber was opened before fork: open a new one in this process", reason=Reason.USED_AFTER_FORK
            )
