"""The parked lane beside the live one, in RELAXED order: when each may send, and which goes first.

The resend machine governs the parked lane. A failed range steps aside and the live lane goes on, until too many
deliveries in a row have failed: then both wait for a probe. That probe is taken in turn from either lane, so that one
record that fails for ever does not hold back all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from forebay.broker.core.delivery.in_flight import Flight, Flights
from forebay.broker.core.delivery.redelivery import Resend, State
from forebay.broker.core.delivery.retry_queue import Parked
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.settings import SECOND_US, Ordering


class Kind(Enum):
    """Which of the two lanes a delivery comes from."""

    LIVE = "live"
    PARKED = "parked"


class Sidelane:
    """What has stepped aside on one lane, and what its failures mean for both. Empty in STRICT order."""

    __slots__ = ("_failed", "_flights", "_last_before", "_probe_live", "_resend", "live_stopped", "parked")

    def __init__(self, resend: Resend, flights: Flights) -> None:
        self.parked = Parked()
        self.live_stopped = False
        """Too many deliveries failed in a row: nothing but probes is sent."""
        self._resend = resend
        self._flights = flights
        self._failed: set[int] = set()
        """Deliveries that failed since something was settled."""
        self._last_before = 0
        """The last delivery that was sent before the machine's last failure: it says nothing of the target's return."""
        self._probe_live = False

    def clear(self) -> None:
        """Nothing waits here any more: an account was closed, or the order is STRICT from now on."""
        self.parked.clear()
        self.live_stopped = self._probe_live = False
        self._failed = set()

    def fail(
        self, failed: Range, sent: Sequence[Flight], now: float, *, delay_s: float | None, random: float, reason: str
    ) -> None:
        """A range of the flights ``sent`` has failed: it steps aside."""
        settings, state = self._resend.settings, self._resend.state
        self._failed |= {flight.number for flight in sent}
        stops = not self.live_stopped and len(self._failed) >= settings.relaxed_failures_max
        self.live_stopped = self.live_stopped or stops
        of_machine = any(flight.resent and flight.number > self._last_before for flight in sent)
        waits = self.live_stopped and state is State.BACKING_OFF
        if of_machine or stops or waits or state is State.FLOWING:
            # While the live lane flows, a delay that a nack named is its own range's and holds back no other.
            wait_s = delay_s if self.live_stopped or delay_s is None else 0.0
            self._resend.fail(now, delay_s=wait_s, random=random, reason=reason)
            self._last_before = self._flights.sent
            if of_machine:
                self._probe_live = self.live_stopped and not self._probe_live
            not_before = now + (delay_s or 0.0)
        else:
            low_s = settings.retry_backoff_min_us / SECOND_US
            not_before = now + (low_s if delay_s is None else delay_s)
        self.parked.park(failed, not_before)

    def settled(self, answered: Sequence[Flight], now: float) -> None:
        """The target took (or, for a dead letter, answered) something of these flights."""
        self._failed = set()
        if any(flight.resent and flight.number > self._last_before for flight in answered):
            self.live_stopped = self._probe_live = False
            self._resend.taken(now)

    def rest(self) -> None:
        """With nothing parked and nothing of it in flight the machine is done."""
        if self._resend.rests:
            return
        if not self.parked and not self.live_stopped and not self._flights.any_resent():
            self._resend.cleared()

    def live_allowed(self, now: float) -> int | None:
        """How many live pages may be sent now; None is no bound but the credit."""
        if self._resend.state is State.PAUSED:
            return 0
        return self.resends_allowed(now) if self.live_stopped else None

    def resends_allowed(self, now: float) -> int | None:
        """How many parked pages may be sent now; None is no bound but the credit."""
        self._resend.tick(now)
        probing = self._resend.state is State.PROBING
        singly = probing or self._resend.settings.resend_interval_us > 0
        in_flight = self._flights.resent_since(self._last_before if probing else 0) if singly else 0
        return self._resend.pages_allowed(now, in_flight)

    def next_due(self, now: float) -> int | None:
        """Where the next parked range that may be sent begins."""
        allowed = self.resends_allowed(now) if self.parked else 0
        if allowed == 0:
            return None
        found = self.parked.next_due(now, singly=allowed is not None)
        return found.first if found is not None else None

    def order(self, now: float, position: int) -> tuple[Kind, ...]:
        """Which lane is to be asked first for something to send, and which then."""
        if self._resend.settings.ordering != Ordering.RELAXED or not self.parked:
            return (Kind.LIVE,)
        if self.live_stopped:
            live_first = self._probe_live
        elif priority := self._resend.settings.resend_priority:
            live_first = priority < 0
        else:
            due = self.next_due(now)
            live_first = due is None or due > position
        return (Kind.LIVE, Kind.PARKED) if live_first else (Kind.PARKED, Kind.LIVE)
