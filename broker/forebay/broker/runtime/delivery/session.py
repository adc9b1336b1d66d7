"""Liveness of a consumer that answers pings: silence alone does not mean that its process hangs.

A consumer may work on one record for as long as its deadline and say nothing. So it is asked, and its library answers
without its user. While an answer is due, no deadline of its deliveries counts as a failed try; when none comes within
the session time-out, the consumer is hung. A ping counts from the moment at which it was written: one that waits behind
deliveries on a slow connection has not been left without an answer.
"""

from __future__ import annotations

from typing import Final

PINGS_PER_TIMEOUT: Final = 3
"""Silence after which a consumer is asked, as a part of the time-out."""
BLOCKED_TIMEOUTS: Final = 4
"""Time-outs for which one message may wait until the peer reads."""
WAITED_S: Final = 1.0
"""A message that waited so long to be written, and was, shows that the peer reads."""


class Session:
    """One stream's life, in seconds on a monotonic clock. Used on the loop only."""

    def __init__(self, timeout_s: float, now: float) -> None:
        self.timeout_s = timeout_s
        self.heard_at = now
        """Last message of the consumer."""
        self._asked = False
        """A ping is queued or written, and was not answered."""
        self._pinged_at: float | None = None
        """When the ping without an answer was written."""
        self._blocked_since: float | None = None
        """When the write that is under way began."""

    def heard(self, now: float) -> None:
        """The consumer has sent something."""
        self.heard_at = now
        self._asked, self._pinged_at = False, None

    def ask(self, now: float, *, since: float | None = None) -> bool:
        """Whether a ping is to be sent now: nothing was heard ``since`` a moment, or for a while."""
        silent = self.heard_at < since if since is not None else now >= self._ping_at
        if self._asked or not silent:
            return False
        self._asked = True
        return True

    @property
    def _ping_at(self) -> float:
        return self.heard_at + self.timeout_s / PINGS_PER_TIMEOUT

    def writes(self, now: float) -> None:
        """A message begins to be written."""
        self._blocked_since = now

    def wrote(self, now: float, *, ping: bool) -> None:
        """It was written."""
        waited = self._blocked_since is not None and now - self._blocked_since >= WAITED_S
        self._blocked_since = None
        if waited:
            self.heard_at = now
        if ping and self._asked:
            self._pinged_at = now

    @property
    def ends_at(self) -> float | None:
        """When the consumer counts as hung, unless something is heard before."""
        if self._pinged_at is not None:
            return self._pinged_at + self.timeout_s
        return None if self._blocked_since is None else self._blocked_since + BLOCKED_TIMEOUTS * self.timeout_s

    def next_timer(self) -> float:
        """When to look again, while something is in flight."""
        ends_at = self.ends_at
        if self._asked:
            return ends_at if ends_at is not None else self.heard_at + BLOCKED_TIMEOUTS * self.timeout_s
        return self._ping_at if ends_at is None else min(self._ping_at, ends_at)
