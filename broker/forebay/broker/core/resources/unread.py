"""Unread bytes: received from a connection and held by gRPC, because their request is incomplete.

gRPC collects a request before it passes it on, and does not report how much it holds. The system reports how much a
connection received, and the broker knows how much of that it read. The rest is held, minus an allowance for the frames
around each request, TLS, and the traffic of answers. Ended calls hold nothing, so the count restarts whenever no call
is open.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from forebay.broker.core.resources.connections import Progress

MESSAGE_BYTES: Final = 64
"""Allowance per message: its prefix, its frame and a TLS record of its own."""

CALL_BYTES: Final = 512
"""Allowance per call: its headers."""

PART: Final = 256
"""Allowance of one byte per so many bytes read and sent: frames, TLS records and flow control."""

SECOND_BYTES: Final = 64
"""Allowance per second: probes."""

ALLOWED_S_MAX: Final = 2.0
"""Most of the time since the last check that counts for this allowance.

A connection that was not checked for longer has received nothing in that time.
"""

STALLED_S: Final = 5.0
"""Time without a byte, or without a complete request, that counts as no progress."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes of a connection so far, as the system counts them."""

    received: int = 0
    """Bytes that gRPC has taken."""

    sent: int = 0
    """Bytes that the peer has taken."""


@dataclass(slots=True)
class Intake:
    """Requests of a connection so far."""

    bytes: int = 0
    """Bytes of messages that are read, and held no longer."""

    messages: int = 0
    """Number of those messages."""

    calls: int = 0
    """Calls that ended."""

    def allowed(self, sent: int) -> int:
        """Return the received bytes that these requests explain, at ``sent`` bytes of answers."""
        more = (self.bytes + sent) // PART
        return self.bytes + more + self.messages * MESSAGE_BYTES + self.calls * CALL_BYTES


@dataclass(slots=True)
class Unread:
    """Held bytes of one connection, from check to check."""

    bytes: int = 0
    """Bytes held as of the last check."""

    received_at: float = 0.0
    """Time of the last check that found more received bytes, in seconds."""

    read_at: float = 0.0
    """Time of the last check that found more complete requests, or the first bytes held, in seconds."""

    _messages: int = 0
    _calls: int = 0
    _received: int = 0
    _allowed: int = 0
    _checked_at: float = 0.0

    def check(self, traffic: Traffic, intake: Intake, now: float, *, is_open: bool) -> int:
        """Return the bytes held now. ``is_open`` states that there is an open call."""
        allowed = intake.allowed(traffic.sent)
        received, self._received = traffic.received - self._received, traffic.received
        explained, self._allowed = allowed - self._allowed, allowed
        explained += int(min(ALLOWED_S_MAX, now - self._checked_at) * SECOND_BYTES) if self._checked_at else 0
        have_ended, self._calls = intake.calls != self._calls and not is_open, intake.calls
        self._checked_at = now
        if received:
            self.received_at = now
        if not self.bytes or intake.messages != self._messages:
            self.read_at, self._messages = now, intake.messages
        self.bytes = 0 if have_ended else max(0, self.bytes + received - explained)
        return self.bytes

    def progress(self, now: float) -> Progress:
        """Return the progress of the held bytes."""
        if now - self.received_at >= STALLED_S:
            return Progress.STALLED
        return Progress.ARRIVING if now - self.read_at >= STALLED_S else Progress.READ
