"""Resend state machine: governs what a lane may send after failures.

    FLOWING ──failure──▶ BACKING_OFF(until) ──time, or a new page──▶ PROBING
    PROBING (one page in flight) ──settled──▶ RESENDING ──backlog empty──▶ FLOWING
    PROBING ──failure──▶ BACKING_OFF(longer, jittered, bounded)
    any ──pause──▶ PAUSED ──resume──▶ the state before

The caller passes in the clock; the machine never waits for new input. In RELAXED order it governs the retry queue, see
`retry_scheduler`. Times are seconds on a monotonic clock. A random number in [0, 1) comes with each failure.
"""

from __future__ import annotations

from enum import IntEnum
from functools import reduce

from forebay.broker.core.partition import ranges as sets
from forebay.broker.core.partition.cursor import Cursor
from forebay.broker.core.partition.ranges import RangeSet
from forebay.broker.core.settings import SECOND_US, SinkSettings


class State(IntEnum):
    """State of the machine; the numbers are those of the wire."""

    FLOWING = 1
    BACKING_OFF = 2
    PROBING = 3
    RESENDING = 4
    PAUSED = 5


class Resend:
    """Resend state of one subscription on one partition."""

    __slots__ = (
        "_before_pause",
        "_computed",
        "_delayed",
        "_failed_at",
        "_failures",
        "_shortened",
        "backlog_end",
        "not_before",
        "reason",
        "settings",
        "state",
        "until",
    )

    def __init__(self, settings: SinkSettings) -> None:
        self.settings = settings
        self.state = State.FLOWING
        self.until = 0.0
        """Time of the next attempt, while backing off."""
        self.not_before = 0.0
        """Time of the next resend, while resending with an interval."""
        self.backlog_end = 0
        """End offset of the backlog when the target recovered."""
        self.reason = ""
        """Reason of the pause, or the last failure."""
        self._failures = 0
        self._failed_at = 0.0
        self._computed = False
        self._delayed: RangeSet = ()  # what the delay of a nack is for
        self._shortened = False
        self._before_pause = State.FLOWING

    def fail(self, now: float, *, delay_s: float | None, random: float, reason: str, failed: RangeSet = ()) -> None:
        """Record a failed delivery. ``delay_s`` is the delay of the nack of ``failed``; None: a back-off."""
        current = self._before_pause if self.state is State.PAUSED else self.state
        again = current is State.BACKING_OFF
        self._delayed = reduce(sets.add, failed, self._delayed if again else ())
        if not again:
            self._failures += 1
            self._shortened = False
            self._failed_at = now
        self._computed = delay_s is None and (self._computed or not again)
        wait = self._backoff_s(random) if delay_s is None else delay_s
        self.until = max(self.until, now + wait) if again else now + wait
        if self.state is State.PAUSED:
            self._before_pause = State.BACKING_OFF
        else:
            self.state = State.BACKING_OFF
            self.reason = reason

    def _backoff_s(self, random: float) -> float:
        low = self.settings.retry_backoff_min_us / SECOND_US
        high = self.settings.retry_backoff_max_us / SECOND_US
        exponent = min(self._failures - 1, 64)
        ceiling = min(high, low * self.settings.retry_backoff_factor**exponent)
        return float(low + (ceiling - low) * random) if ceiling > low else low

    def tick(self, now: float) -> None:
        """Move from back-off to probing when the back-off is over."""
        if self.state is State.BACKING_OFF and now >= self.until:
            self.state = State.PROBING

    def new_page(self, now: float) -> None:
        """Shorten a computed back-off when a new page arrives: once, and not below the shortest back-off."""
        if self.state is State.BACKING_OFF and self._computed and not self._shortened:
            self._shortened = True
            low = self.settings.retry_backoff_min_us / SECOND_US
            self.until = min(self.until, max(now, self._failed_at + low))

    def pages_allowed(self, now: float, in_flight: int) -> int | None:
        """Return the number of pages that may be sent now; None is unlimited but for the credit.

        ``in_flight`` is the number of pages in flight.
        """
        self.tick(now)
        if self.state is State.FLOWING:
            return None
        if self.state is State.PROBING:
            return max(0, 1 - in_flight)
        if self.state is State.RESENDING:
            if self.settings.resend_interval_us == 0:
                return None
            return max(0, 1 - in_flight) if now >= self.not_before else 0
        return 0

    def settled(self, now: float, *, watermark: int, next_offset: int) -> None:
        """Record that the target accepted a record in flight (or, for a dead letter, answered)."""
        if self.state is State.PROBING:
            self.backlog_end = next_offset
        self.succeeded(now)
        if self.state is State.RESENDING and watermark >= self.backlog_end:
            self.state = State.FLOWING

    def succeeded(self, now: float) -> None:
        """Record a success of the target; the caller checks if the backlog is empty."""
        if self.state is State.PROBING:
            self.state = State.RESENDING
            self._failures = 0
            self.reason = ""
        if self.state is State.RESENDING:
            self.not_before = now + self.settings.resend_interval_us / SECOND_US

    def settled_otherwise(self, view: Cursor) -> None:
        """End the delay of a nack if all that it was for has been settled without an answer."""
        current = self._before_pause if self.state is State.PAUSED else self.state
        if current is not State.BACKING_OFF or self._computed or not self._delayed:
            return
        if not any(True for part in self._delayed for _ in view.unsettled(part)):
            self.cleared()

    def cleared(self) -> None:
        """Record that no failed record is left: flow, now or after the pause."""
        if self.state is State.PAUSED:
            self._before_pause = State.FLOWING
        elif self.state is not State.FLOWING:
            self.state = State.FLOWING
            self.reason = ""
        self._failures = 0

    @property
    def is_idle(self) -> bool:
        """True if nothing has failed since the last success: ``cleared`` would change nothing."""
        return self.state is State.FLOWING and not self._failures

    @property
    def is_waiting(self) -> bool:
        """True if the failed record has not been settled since, paused or not."""
        current = self._before_pause if self.state is State.PAUSED else self.state
        return current in (State.BACKING_OFF, State.PROBING)

    @property
    def nack_delay_until(self) -> float:
        """End of the delay that a nack named; 0 for a computed back-off."""
        return 0.0 if self._computed else self.until

    def pause(self, reason: str) -> None:
        """Stop sending. A second pause only changes the reason."""
        if self.state is not State.PAUSED:
            self._before_pause = self.state
            self.state = State.PAUSED
        self.reason = reason

    def resume(self) -> None:
        """Return to the state before the pause."""
        if self.state is State.PAUSED:
            self.state = self._before_pause
            self.reason = ""

    def next_timer(self, now: float) -> float | None:
        """Return the next time after ``now`` at which `tick` or an interval changes the state, if any."""
        due = None
        if self.state is State.BACKING_OFF:
            due = self.until
        elif self.state is State.RESENDING and self.settings.resend_interval_us:
            due = self.not_before
        return due if due is not None and due > now else None
