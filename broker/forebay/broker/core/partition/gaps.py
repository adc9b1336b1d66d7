"""Bound on the number of gaps, and the gaps of single subscriptions.

Two gaps are merged only if no record is left between them, so a reader gets no false gap notice. Where live records lie
between gaps, the bound is exceeded.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from functools import reduce
from itertools import compress
from operator import attrgetter, eq
from typing import Final

from forebay.broker.core.partition.pages import Gap

REJECTIONS_MAX: Final = 1_000
"""Own gaps kept separately per subscription and partition."""
JOINS_MAX: Final = 1_024
"""Gaps merged per call at most: a bound that was exceeded by many is reached in steps."""
DETAIL_MAX: Final = 200
"""Characters kept of a target's error text."""
_FIRST, _END = attrgetter("first"), attrgetter("end")


def merged(gaps: list[Gap], *, most: int, settled_to: int) -> tuple[list[Gap], list[Gap], list[Gap]]:
    """Merge sorted gaps until ``most`` are left, lowest offsets first, at most ``JOINS_MAX`` per call.

    No record is left below ``settled_to``. Returns all gaps after the merge, the removed ones, and their successors.
    """
    excess = len(gaps) - most
    if excess <= 0:
        return gaps, [], []
    below = bisect_right(gaps, settled_to, key=_END)
    touching = compress(range(1, len(gaps)), map(eq, map(_END, gaps), map(_FIRST, gaps[1:])))
    joins = sorted({*range(1, below), *touching})[: min(excess, JOINS_MAX)]
    kept: list[Gap] = []
    gone: list[Gap] = []
    made: list[Gap] = []
    copied = 0
    for first, end in _runs(joins):
        neighbours = gaps[first - 1 : end]
        gone += neighbours
        made.append(reduce(Gap.joined, neighbours))
        kept += [*gaps[copied : first - 1], made[-1]]
        copied = end
    return [*kept, *gaps[copied:]], gone, made


def _runs(numbers: list[int]) -> list[tuple[int, int]]:
    """Return sorted numbers as half-open runs."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number:
            runs[-1] = (runs[-1][0], number + 1)
        else:
            runs.append((number, number + 1))
    return runs


class Rejections:
    """Own gaps of the subscriptions of one partition. Only the owner of the sink's state changes them."""

    __slots__ = ("_gaps",)

    def __init__(self, gaps: Iterable[Gap] = ()) -> None:
        self._gaps: dict[str, list[Gap]] = {}
        for gap in gaps:
            self._gaps.setdefault(gap.subscription, []).append(gap)

    def of(self, subscription: str) -> tuple[Gap, ...]:
        """Return the own gaps of one subscription, by offset."""
        return tuple(self._gaps.get(subscription, ()))

    def at(self, subscription: str, offset: int) -> Gap | None:
        """Return the own gap of a subscription that holds ``offset``."""
        gaps = self._gaps.get(subscription, [])
        index = bisect_right(gaps, offset, key=lambda gap: gap.end)
        return gaps[index] if index < len(gaps) and gaps[index].first <= offset else None

    def all(self) -> list[Gap]:
        """Return all own gaps, by offset."""
        return sorted((gap for gaps in self._gaps.values() for gap in gaps), key=lambda gap: (gap.first, gap.end))

    def from_(self, offset: int) -> list[list[Gap]]:
        """Return per subscription the own gaps that begin at ``offset`` or above it, in order."""
        return [gaps[bisect_left(gaps, offset, key=lambda gap: gap.first) :] for gaps in self._gaps.values() if gaps]

    def remove_subscription(self, subscription: str) -> tuple[Gap, ...]:
        """Remove and return the own gaps of a subscription that is deleted."""
        return tuple(self._gaps.pop(subscription, ()))

    def take_back(self, subscription: str, offset: int) -> tuple[list[Gap], list[Gap]]:
        """Remove the own gaps from ``offset`` on after a seek: the subscription gets these records again.

        Returns the removed gaps and their replacements.
        """
        known = self._gaps.get(subscription, [])
        gone = [gap for gap in known if gap.end > offset]
        made = [gap.below(offset) for gap in gone if gap.first < offset]
        if gone:
            self._gaps[subscription] = [*(gap for gap in known if gap.end <= offset), *made]
        return gone, made

    def add(self, subscription: str, gaps: list[Gap], *, settled_to: int) -> tuple[list[Gap], list[Gap]]:
        """Add gaps that overlap no other gap; returns the gaps to delete and those to write."""
        known = sorted([*self._gaps.get(subscription, ()), *gaps], key=lambda gap: gap.first)
        kept, gone, made = merged(known, most=REJECTIONS_MAX, settled_to=settled_to)
        self._gaps[subscription] = kept
        standing = {id(gap) for gap in kept}
        return gone, [gap for gap in (*gaps, *made) if id(gap) in standing]
