"""Health of the subscriptions over the last day: state, waiting and settled records of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from forebay.broker.console.history import Rates, Span, Spans
from forebay.broker.runtime.delivery.subscription import Subscription
from forebay.state.flow import Flow

HEALTH_SPAN_S: Final = 900.0
"""Length of a span."""

HEALTH_SPANS: Final = 96
"""Spans of the last day."""

DAYS_MAX: Final = 2_000
"""Subscriptions with a day, 3 KiB each; those above it have the current figures only."""


def is_used(subscription: Subscription, waiting: int) -> bool:
    """Return False for a subscription that has nothing to deliver, and never had."""
    return bool(waiting or subscription.owners.consumers) or any(lane.cursor.acked for lane in subscription.lanes)


class Health:
    """Last day of each subscription that is used. Used on the loop of the broker."""

    def __init__(self, days_max: int = DAYS_MAX) -> None:
        self._days_max = days_max
        self._days: dict[str, dict[str, Spans]] = {}
        self._count = 0

    def add(
        self,
        sink: str,
        subscriptions: Mapping[str, Subscription],
        flows: Mapping[str, Flow],
        waiting: Mapping[str, int],
        into_per_s: float,
        at: float,
    ) -> None:
        """Add a sample of all subscriptions of a sink, taken at a time of the monotonic clock."""
        days = self._days.setdefault(sink, {})
        for name in days.keys() - subscriptions.keys():
            del days[name]
            self._count -= 1
        for name, subscription in subscriptions.items():
            pending = waiting.get(name, 0)
            day = days.get(name)
            if day is None:
                if self._count >= self._days_max or not is_used(subscription, pending):
                    continue
                day = days[name] = Spans(HEALTH_SPANS, HEALTH_SPAN_S)
                self._count += 1
            rates = Rates(into=into_per_s, out=subscription.accounts.settling.per_s(subscription.now()))
            day.add(at, rates, pending, flows[name])

    def forget(self, sink: str) -> None:
        """Forget the subscriptions of a sink that was deleted."""
        self._count -= len(self._days.pop(sink, ()))

    def day(self, sink: str, subscription: str) -> tuple[Span, ...]:
        """Return the last day of a subscription, the oldest span first; empty without one."""
        day = self._days.get(sink, {}).get(subscription)
        return () if day is None else tuple(day)
