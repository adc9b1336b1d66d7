"""Liveness of a consumer that answers pings: silence alone does not mean that its process hangs.

A consumer may work on one record for as long as its deadline and send nothing. So the broker pings it, and its library
answers without its user. While an answer is due, no deadline of its deliveries counts as a failed attempt. If none
arrives within the session time-out, the consumer is hung. A ping counts from the time at which it was written: one that
waits behind deliveries on a slow connection is not unanswered.
"""

from __future__ import annotations

from typing import Final

PINGS_PER_TIMEOUT: Final = 3
"""Number of pings per time-out: the silence before a ping is this part of it."""
BLOCKED_TIMEOUTS: Final = 4
"""Time-outs for which one message may wait until the peer reads."""
WAITED_S: Final = 1.0
"""Wait after which a message that was written proves that the peer reads."""


class StreamLiveness:
    """Liveness of one stream, in seconds on a monotonic clock. Used on the loop only."""

    def __init__(self, timeout_s: float, now: float) -> None:
        self.timeout_s = timeout_s
        self.heard_at = now
        """Time of the last message of the consumer."""
        self._asked = False
        """True if a ping is queued or written, and not answered."""
        self._pinged_at: float | None = None
        """Time at which the unanswered ping was written."""
        self._blocked_since: float | None = None
        """Time at which the current write began."""

    def note_message(self, now: float) -> None:
        """Note a message of the consumer."""
        self.heard_at = now
        self._asked, self._pinged_at = False, None

    def ping_is_due(self, now: float, *, since: float | None = None) -> bool:
        """Return whether to send a ping now: nothing was received ``since`` a time, or for a while."""
        silent = self.heard_at < since if since is not None else now >= self._ping_at
        if self._asked or not silent:
            return False
        self._asked = True
        return True

    @property
    def _ping_at(self) -> float:
        return self.heard_at + self.timeout_s / PINGS_PER_TIMEOUT

    def writes(self, now: float) -> None:
        """Note the start of a write."""
        self._blocked_since = now

    def wrote(self, now: float, *, ping: bool) -> None:
        """Note the end of a write."""
        waited = self._blocked_since is not None and now - self._blocked_since >= WAITED_S
        self._blocked_since = None
        if waited:
            self.heard_at = now
        if ping and self._asked:
            self._pinged_at = now

    @property
    def ends_at(self) -> float | None:
        """Time at which the consumer counts as hung, unless a message arrives before."""
        if self._pinged_at is not None:
            return self._pinged_at + self.timeout_s
        return None if self._blocked_since is None else self._blocked_since + BLOCKED_TIMEOUTS * self.timeout_s

    def next_timer(self) -> float:
        """Return the time of the next check, while records are in flight."""
        ends_at = self.ends_at
        if self._asked:
            return ends_at if ends_at is not None else self.heard_at + BLOCKED_TIMEOUTS * self.timeout_s
        return self._ping_at if ends_at is None else min(self._ping_at, ends_at)
