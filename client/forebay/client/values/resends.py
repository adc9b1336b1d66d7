"""Leased sets of a subscription's retry queue, as values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ResendRanges:
    """Ranges of one partition in a leased set; pass the value on unchanged to settle the set."""

    partition: int
    account: int
    """Number of the subscription's account when the set was leased.

    A seek, or a new subscription of the same name, opens another account. The set settles nothing there.
    """

    ranges: tuple[tuple[int, int], ...]
    """First and last offset of each range, in ascending order."""

    attempts: tuple[tuple[int, int], ...] = ()
    """Pairs of offset and number of failed attempts; a record that is not listed has 0."""

    incarnation: str = ""
    """Incarnation of the sink; the ranges settle nothing in another incarnation."""

    @property
    def records(self) -> int:
        """Number of records in the ranges."""
        return sum(last - first + 1 for first, last in self.ranges)


@dataclass(frozen=True, slots=True)
class ResendSet:
    """Set of records that a holder has leased."""

    holder: str
    incarnation: str
    """Incarnation of the sink; the offsets are valid only there."""

    partitions: tuple[ResendRanges, ...]
    """Ranges by partition; empty when the retry queue was empty."""

    duration_s: float
    """Duration of the lease, counted from the broker's answer; 0 if the set is empty."""

    @property
    def records(self) -> int:
        """Number of records in the set."""
        return sum(one.records for one in self.partitions)
