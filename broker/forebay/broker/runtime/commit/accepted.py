"""Counts of accepted records that survive a kill of the process, and their places."""

from __future__ import annotations

from typing import Protocol


class Accepted(Protocol):
    """How far partitions have accepted what only memory holds: survives a kill, not a power loss."""

    found: tuple[int, ...] | None
    """What the last process left by slot, if it was killed."""

    def begin(self) -> None:
        """Start with no counts, now that what was found is stored."""

    def has_room(self, slot: int) -> bool:
        """Whether a slot can be used."""

    def note(self, slot: int, count: int) -> None:
        """Remember a count: before anybody hears of it."""

    def close(self) -> None:
        """The end, in order or not."""


class AcceptedUnknown:
    """No counts: after a crash a partition goes on at its reservation."""

    found: tuple[int, ...] | None = None

    def begin(self) -> None:
        """Nothing to begin."""

    def has_room(self, slot: int) -> bool:
        return False

    def note(self, slot: int, count: int) -> None:
        """Nothing is kept."""

    def close(self) -> None:
        """Nothing to let go."""


class Slots:
    """Which places of the accepted counts are used, over all sinks."""

    def __init__(self, accepted: Accepted, used: set[int]) -> None:
        self.accepted = accepted
        self._used = used
        self._lowest = 0

    def take(self) -> int | None:
        """A free slot, or None when there is no room for one."""
        while self._lowest in self._used:
            self._lowest += 1
        if not self.accepted.has_room(self._lowest):
            return None
        self._used.add(self._lowest)
        self.accepted.note(self._lowest, 0)
        return self._lowest

    def give(self, slot: int) -> None:
        """The slot's partition is gone."""
        self._used.discard(slot)
        self._lowest = min(self._lowest, slot)
