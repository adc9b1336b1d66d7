"""What a lane may send after failures: the resend state machine.

    FLOWING ──failure──▶ BACKING_OFF(until) ──time, or a new page──▶ PROBING
    PROBING (one page in flight) ──settled──▶ RESENDING ──backlog empty──▶ FLOWING
    PROBING ──failure──▶ BACKING_OFF(longer, jittered, bounded)
    any ──pause──▶ PAUSED ──resume──▶ where it was

Driven by the clock that the caller passes in; it never waits for new input. In RELAXED order it governs what has
stepped aside, see `sidelane`.
Times are seconds on a monotonic clock. A random number in [0, 1) comes with each failure.
"""

from __future__ import annotations

from enum import IntEnum

from forebay.broker.core.settings import SECOND_US, SinkSettings


class State(IntEnum):
    """The numbers are those of the wire."""

    FLOWING = 1
    BACKING_OFF = 2
    PROBING = 3
    RESENDING = 4
    PAUSED = 5


class Resend:
    """The state of one subscription on one partition."""

    __slots__ = (
        "_before_pause",
        "_computed",
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
        """When the next try is due, while backing off."""
        self.not_before = 0.0
        """When the next resend is due, while resending with an interval."""
        self.backlog_end = 0
        """Offset at which the backlog ended when the target came back."""
        self.reason = ""
        """Why it is paused, or what the last failure was."""
        self._failures = 0
        self._failed_at = 0.0
        self._computed = False
        self._shortened = False
        self._before_pause = State.FLOWING

    def fail(self, now: float, *, delay_s: float | None, random: float, reason: str) -> None:
        """A delivery failed. ``delay_s`` is what the nack named, or None for the computed back-off."""
        current = self._before_pause if self.state is State.PAUSED else self.state
        again = current is State.BACKING_OFF
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
        """Let time pass."""
        if self.state is State.BACKING_OFF and now >= self.until:
            self.state = State.PROBING

    def new_page(self, now: float) -> None:
        """A new page has come: shorten a computed back-off, once, not below the shortest one."""
        if self.state is State.BACKING_OFF and self._computed and not self._shortened:
            self._shortened = True
            low = self.settings.retry_backoff_min_us / SECOND_US
            self.until = min(self.until, max(now, self._failed_at + low))

    def pages_allowed(self, now: float, in_flight: int) -> int | None:
        """How many pages may be sent now, given those in flight; None is no bound but the credit."""
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
        """The target took (or, for a dead letter, answered) something that was in flight."""
        if self.state is State.PROBING:
            self.backlog_end = next_offset
        self.taken(now)
        if self.state is State.RESENDING and watermark >= self.backlog_end:
            self.state = State.FLOWING

    def taken(self, now: float) -> None:
        """The target took something; whether the backlog is empty is the caller's to see."""
        if self.state is State.PROBING:
            self.state = State.RESENDING
            self._failures = 0
            self.reason = ""
        if self.state is State.RESENDING:
            self.not_before = now + self.settings.resend_interval_us / SECOND_US

    def cleared(self) -> None:
        """Nothing is left that failed: flow, or do so once the pause is over."""
        if self.state is State.PAUSED:
            self._before_pause = State.FLOWING
        elif self.state is not State.FLOWING:
            self.state = State.FLOWING
            self.reason = ""
        self._failures = 0

    @property
    def rests(self) -> bool:
        """Nothing has failed since all was well: ``cleared`` would change nothing."""
        return self.state is State.FLOWING and not self._failures

    @property
    def waits(self) -> bool:
        """What failed has not been settled since, paused or not."""
        current = self._before_pause if self.state is State.PAUSED else self.state
        return current in (State.BACKING_OFF, State.PROBING)

    @property
    def named_until(self) -> float:
        """Until when a nack has asked to wait; 0 when it was our own back-off."""
        return 0.0 if self._computed else self.until

    def pause(self, reason: str) -> None:
        """Stop sending. Pausing again changes the reason."""
        if self.state is not State.PAUSED:
            self._before_pause = self.state
            self.state = State.PAUSED
        self.reason = reason

    def resume(self) -> None:
        """Go on where it was."""
        if self.state is State.PAUSED:
            self.state = self._before_pause
            self.reason = ""

    def next_timer(self, now: float) -> float | None:
        """When, after ``now``, `tick` or an interval will change something, if ever."""
        due = None
        if self.state is State.BACKING_OFF:
            due = self.until
        elif self.state is State.RESENDING and self.settings.resend_interval_us:
            due = self.not_before
        return due if due is not None and due > now else None
