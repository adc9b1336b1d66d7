"""A set of what a subscription has set aside, as values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ResendRanges:
    """What of one partition is in a set. A holder keeps it as it is, to name it again and to settle it."""

    partition: int
    account: int
    """Number of the subscription's account when it was leased: after a seek, or in another one of that name, it settles
    nothing."""

    ranges: tuple[tuple[int, int], ...]
    """First and last offsets, by offset."""

    attempts: tuple[tuple[int, int], ...] = ()
    """(offset, tries that failed) of the records that failed; all others have 0."""

    incarnation: str = ""
    """Of the sink: the offsets are those of no other, and settle nothing in another."""

    @property
    def records(self) -> int:
        """How many records are in it."""
        return sum(last - first + 1 for first, last in self.ranges)


@dataclass(frozen=True, slots=True)
class ResendSet:
    """What a holder has."""

    holder: str
    incarnation: str
    """Of the sink: the offsets are those of no other."""

    partitions: tuple[ResendRanges, ...]
    """By partition; empty when nothing was set aside."""

    duration_s: float
    """How long the lease lasts from its answer on; 0 without records."""

    @property
    def records(self) -> int:
        """How many records are in it."""
        return sum(one.records for one in self.partitions)
