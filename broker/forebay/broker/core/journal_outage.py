"""Outage of the journal of a shard, as its owner knows it: nothing that waits for the journal is lost."""

from __future__ import annotations

from dataclasses import dataclass

from forebay.errors.reasons import Reason


@dataclass(frozen=True, slots=True)
class JournalOutage:
    """Journal that does not answer, or has no room."""

    is_full: bool
    """True if it answers that it has no room, or has only its reserve."""

    seconds: float
    """Time since it has confirmed nothing; 0 while it confirms acks out of its reserve."""

    cause: str
    """Answer, or error, of the last request."""

    @property
    def reason(self) -> Reason:
        """Reason of appends that are rejected during the outage."""
        return Reason.JOURNAL_FULL if self.is_full else Reason.JOURNAL_AWAY
