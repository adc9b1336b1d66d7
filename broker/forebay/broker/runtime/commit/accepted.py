"""Counts of accepted records that survive a kill of the process, and their slots."""

from __future__ import annotations

from typing import Protocol


class Accepted(Protocol):
    """Counts of accepted records that are only in memory. They survive a kill, not a power loss."""

    found: tuple[int, ...] | None
    """Counts that the last process left by slot, if it was killed."""

    def begin(self) -> None:
        """Reset the counts after the found ones are stored."""

    def has_room(self, slot: int) -> bool:
        """Return whether a slot can be used."""

    def note(self, slot: int, count: int) -> None:
        """Store a count, before the records are reported as accepted."""

    def close(self) -> None:
        """Close the counts, after an orderly stop or not."""


class AcceptedUnknown:
    """No counts: after a crash a partition continues at the end of its reservation."""

    found: tuple[int, ...] | None = None

    def begin(self) -> None:
        """Do nothing."""

    def has_room(self, slot: int) -> bool:
        return False

    def note(self, slot: int, count: int) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class Slots:
    """Allocation of the slots of the accepted counts, over all sinks."""

    def __init__(self, accepted: Accepted, used: set[int]) -> None:
        self.accepted = accepted
        self._used = used
        self._lowest = 0

    def allocate(self) -> int | None:
        """Return a free slot, or None if there is no room for one."""
        while self._lowest in self._used:
            self._lowest += 1
        if not self.accepted.has_room(self._lowest):
            return None
        self._used.add(self._lowest)
        self.accepted.note(self._lowest, 0)
        return self._lowest

    def free(self, slot: int) -> None:
        """Free the slot of a deleted partition."""
        self._used.discard(slot)
        self._lowest = min(self._lowest, slot)
