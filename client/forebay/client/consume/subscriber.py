"""Subscriber: takes deliveries from a sink and settles them; reconnects automatically.

    for delivery in client.subscriber("orders"):
        for record in delivery:
            ...
        delivery.ack()

Deliveries that were taken and not acked stay in flight and count against the credit. After a broken connection their
records are stale, and are redelivered in new deliveries.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from forebay.client.consume.answers import AnswerKind
from forebay.client.consume.core import SubscriberCore
from forebay.client.consume.delivery import Delivery
from forebay.client.consume.in_flight import InFlight
from forebay.client.consume.state import SubscriptionState
from forebay.client.replay.iterator import ClosableIterator
from forebay.client.transport.channel import Channels
from forebay.client.transport.operations import blocked
from forebay.client.values.ranges import Range
from forebay.client.values.records import SettleResult


class BlockingSettler:
    """Receiver of answers whose caller blocks until the results are known."""

    def __init__(self, state: SubscriptionState) -> None:
        self._state = state
        self.clock = state.clock
        self.touch = state.touch

    def settle(
        self, delivery: InFlight, verb: AnswerKind, ranges: list[Range], *, wait: bool = False, **options: Any
    ) -> list[SettleResult]:
        """Send an answer; with ``wait`` return its results, otherwise nothing."""
        submitted = self._state.submit(delivery, verb, ranges, wait=wait, **options)
        return blocked(self._state.results(submitted)) if wait else []


class Subscriber(ClosableIterator[Delivery]):
    """Consumer of a subscription: an iterator of deliveries.

    It connects when the first delivery is requested. Thread-safe; not usable across ``fork``.
    """

    def __init__(
        self,
        channels: Channels,
        sink: str,
        *,
        on_close: Callable[[Subscriber], None] = lambda subscriber: None,
        **options: Any,
    ) -> None:
        self._core = SubscriberCore(channels, sink, **options)
        self._settler = BlockingSettler(self._core.state)
        self._on_close = on_close

    @property
    def sink(self) -> str:
        """Name of the sink."""
        return self._core.sink

    @property
    def subscription(self) -> str:
        """Name of the subscription."""
        return self._core.subscription

    @property
    def consumer_id(self) -> str:
        """Name of this consumer."""
        return self._core.consumer_id

    def take(self, timeout_s: float | None = None) -> Delivery | None:
        """Return the next delivery; ``None`` if the subscriber was closed, or after ``timeout_s``.

        Raises the error that ended the subscriber: ``SinkNotFound``, ``SubscriptionNotFound``, ``CONSUMER_REPLACED``,
        ``INVALID_OPEN``, ``SinkReplaced`` and ``SubscriptionReplaced`` (the sink or subscription was deleted and
        recreated while the connection was broken), and others. With ``reconnect=False``, every broken
        connection ends it.
        """
        taken = blocked(self._core.take(timeout_s))
        return None if taken is None else Delivery(taken, self._settler)

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
        self._core.set_credit(records=records, bytes_=bytes_)

    def close(self) -> None:
        """End the iteration, from any thread; acks are confirmed first, unsettled records are redelivered.

        The broker is notified of the close, so that it does not count as a failed attempt. Takes up to 5 s if the
        broker does not answer.
        """
        blocked(self._core.close())
        self._on_close(self)
