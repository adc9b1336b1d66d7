"""Subscription that a consumer reads: where it begins, and what is settled once positions are saved.

The position is saved first, then the records below it are settled. A crash between the two leaves them unsettled; the
consumer that takes over settles them, and reads none of them again.
"""

from __future__ import annotations

from typing import Self

from forebay.client.admin.subscriptions import Subscriptions
from forebay.client.errors import SubscriptionNotFound
from forebay.client.transport.channel import Channels
from forebay.client.values.sinks import SinkStats


class ReadSubscription:
    """One subscription of a sink, as it was when the consumer began. Thread-safe."""

    def __init__(self, subscriptions: Subscriptions, sink: str, name: str, incarnation: str, own: str) -> None:
        self._subscriptions = subscriptions
        self._sink = sink
        self._name = name
        self._incarnation = incarnation
        self._own = own
        """Incarnation of the subscription."""

    @classmethod
    def open(cls, channels: Channels, sink: str, name: str, incarnation: str) -> Self:
        """Return a subscription of a sink. Raises ``SubscriptionNotFound``."""
        subscriptions = Subscriptions(channels)
        own = next((one.incarnation for one in subscriptions.list(sink) if one.name == name), None)
        if own is None:
            raise SubscriptionNotFound(
                f"sink {sink!r} has no subscription {name!r}: create it", facts={"sink": sink, "subscription": name}
            )
        return cls(subscriptions, sink, name, incarnation, own)

    def start(self, found: SinkStats, partition: int) -> int | None:
        """Return the lowest record that is not settled; None for a partition without an account."""
        accounts = next((one.partitions for one in found.subscriptions if one.name == self._name), ())
        return next((one.watermark for one in accounts if one.partition == partition), None)

    def settle(self, partition: int, offset: int) -> None:
        """Settle everything below an offset. Settling twice has no effect.

        Raises ``FailedPrecondition`` if another consumer uses the subscription, and the errors of a call.
        """
        self._subscriptions.settle(
            self._sink,
            self._name,
            offsets={partition: offset},
            incarnation=self._incarnation,
            subscription_incarnation=self._own,
        )
