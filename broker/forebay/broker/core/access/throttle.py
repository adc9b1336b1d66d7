"""Token bucket of one principal: a rate with a burst of one second, whose balance may be negative.

A message is charged after it was received: its size is not known before. The debt delays the next message, so the delay
is bounded by the largest message divided by the rate.
"""

from __future__ import annotations


class Throttle:
    """One rate limit. Times are monotonic seconds."""

    def __init__(self, rate_per_s: int, now_s: float) -> None:
        """``rate_per_s`` is above 0."""
        self._rate = rate_per_s
        self._balance = float(rate_per_s)
        self._at_s = now_s

    def charge(self, amount: int, now_s: float) -> None:
        """Take ``amount`` from the balance."""
        self._refill(now_s)
        self._balance -= amount

    def delay_s(self, now_s: float) -> float:
        """Return the seconds until the debt is paid back; 0 without debt."""
        self._refill(now_s)
        return max(0.0, -self._balance / self._rate)

    def _refill(self, now_s: float) -> None:
        passed = max(0.0, now_s - self._at_s)
        self._balance = min(float(self._rate), self._balance + passed * self._rate)
        self._at_s = max(self._at_s, now_s)
