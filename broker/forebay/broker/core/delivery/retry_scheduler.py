"""Scheduler of retries beside new records, in RELAXED order: when each may be sent, and which first.

The resend state machine governs the retry queue. A failed range goes to that queue and new records continue, until too
many deliveries in a row have failed: then both wait for a probe. Probes are taken from both in turn, so that a record
that always fails does not hold back all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from forebay.broker.core.delivery.in_flight import Flight, Flights
from forebay.broker.core.delivery.redelivery import Resend, State
from forebay.broker.core.delivery.retry_queue import RetryQueue
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.settings import SECOND_US, Ordering


class DeliverySource(Enum):
    """Source of a delivery: new records of the log, or the retry queue."""

    LIVE = "live"
    RETRY = "retry"


class RetryScheduler:
    """Retry queue of one lane, and the effect of its failures on new records. Empty in STRICT order."""

    __slots__ = ("_failed", "_flights", "_last_before", "_probe_live", "_resend", "live_stopped", "queue")

    def __init__(self, resend: Resend, flights: Flights) -> None:
        self.queue = RetryQueue()
        self.live_stopped = False
        """True after too many failures in a row: only probes are sent."""
        self._resend = resend
        self._flights = flights
        self._failed: set[int] = set()
        """Numbers of the deliveries that failed since the last success."""
        self._last_before = 0
        """Number of the last delivery before the last failure of the resend state machine.

        A success of it or of an earlier one does not prove that the target has recovered.
        """
        self._probe_live = False

    def clear(self) -> None:
        """Clear the queue: the account was closed, or the order is STRICT from now on."""
        self.queue.clear()
        self.live_stopped = self._probe_live = False
        self._failed = set()

    def fail(
        self, failed: Range, sent: Sequence[Flight], now: float, *, delay_s: float | None, random: float, reason: str
    ) -> None:
        """Record the failure of a range of the flights ``sent``: it goes to the retry queue."""
        settings, state = self._resend.settings, self._resend.state
        self._failed |= {flight.number for flight in sent}
        stops = not self.live_stopped and len(self._failed) >= settings.relaxed_failures_max
        self.live_stopped = self.live_stopped or stops
        of_machine = any(flight.resent and flight.number > self._last_before for flight in sent)
        waits = self.live_stopped and state is State.BACKING_OFF
        if of_machine or stops or waits or state is State.FLOWING:
            # While new records flow, the delay of a nack applies to its own range only.
            wait_s = delay_s if self.live_stopped or delay_s is None else 0.0
            self._resend.fail(now, delay_s=wait_s, random=random, reason=reason)
            self._last_before = self._flights.sent
            if of_machine:
                self._probe_live = self.live_stopped and not self._probe_live
            not_before = now + (delay_s or 0.0)
        else:
            low_s = settings.retry_backoff_min_us / SECOND_US
            not_before = now + (low_s if delay_s is None else delay_s)
        self.queue.add(failed, not_before)

    def settled(self, answered: Sequence[Flight], now: float) -> None:
        """Record that the target accepted a record of these flights (or, for a dead letter, answered)."""
        self._failed = set()
        if any(flight.resent and flight.number > self._last_before for flight in answered):
            self.live_stopped = self._probe_live = False
            self._resend.succeeded(now)

    def reset_if_idle(self) -> None:
        """Clear the machine if nothing is queued for retry and no redelivery is in flight."""
        if self._resend.is_idle:
            return
        if not self.queue and not self.live_stopped and not self._flights.any_resent():
            self._resend.cleared()

    def live_allowed(self, now: float) -> int | None:
        """Return the number of live pages that may be sent now; None is unlimited but for the credit."""
        if self._resend.state is State.PAUSED:
            return 0
        return self.resends_allowed(now) if self.live_stopped else None

    def resends_allowed(self, now: float) -> int | None:
        """Return the number of queued pages that may be redelivered now; None is unlimited but for the credit."""
        self._resend.tick(now)
        probing = self._resend.state is State.PROBING
        singly = probing or self._resend.settings.resend_interval_us > 0
        in_flight = self._flights.resent_since(self._last_before if probing else 0) if singly else 0
        return self._resend.pages_allowed(now, in_flight)

    def next_due(self, now: float) -> int | None:
        """Return the first offset of the next queued range that may be redelivered."""
        allowed = self.resends_allowed(now) if self.queue else 0
        if allowed == 0:
            return None
        found = self.queue.next_due(now, singly=allowed is not None)
        return found.first if found is not None else None

    def order(self, now: float, position: int) -> tuple[DeliverySource, ...]:
        """Return the sources in the order in which they may send."""
        if self._resend.settings.ordering != Ordering.RELAXED or not self.queue:
            return (DeliverySource.LIVE,)
        if self.live_stopped:
            live_first = self._probe_live
        elif priority := self._resend.settings.resend_priority:
            live_first = priority < 0
        else:
            due = self.next_due(now)
            live_first = due is None or due > position
        return (
            (DeliverySource.LIVE, DeliverySource.RETRY) if live_first else (DeliverySource.RETRY, DeliverySource.LIVE)
        )
