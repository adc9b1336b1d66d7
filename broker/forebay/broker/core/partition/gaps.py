"""Keeping the number of gaps bounded, and the gaps that single subscriptions have for themselves.

Two gaps become one only where nothing is left between them, so a reader is told nothing that is not so. Where live
records stand between gaps the bound on their number yields.
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
"""Own gaps kept apart per subscription and partition."""
JOINS_MAX: Final = 1_024
"""Gaps that one call makes fewer at most: a bound that was passed by many is reached again step by step."""
DETAIL_MAX: Final = 200
"""Characters of what a target said that a gap keeps."""
_FIRST, _END = attrgetter("first"), attrgetter("end")


def merged(gaps: list[Gap], *, most: int, settled_to: int) -> tuple[list[Gap], list[Gap], list[Gap]]:
    """Bring sorted gaps down towards ``most``, the oldest offsets first, ``JOINS_MAX`` fewer at most in one call.

    Nothing is left below ``settled_to``. Returns all gaps as they are then, those that vanish, and their successors.
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
        together = gaps[first - 1 : end]
        gone += together
        made.append(reduce(Gap.joined, together))
        kept += [*gaps[copied : first - 1], made[-1]]
        copied = end
    return [*kept, *gaps[copied:]], gone, made


def _runs(numbers: list[int]) -> list[tuple[int, int]]:
    """Sorted numbers as half open runs."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number:
            runs[-1] = (runs[-1][0], number + 1)
        else:
            runs.append((number, number + 1))
    return runs


class Rejections:
    """The own gaps of the subscriptions of one partition. Changed only by the owner of the sink's state."""

    __slots__ = ("_gaps",)

    def __init__(self, gaps: Iterable[Gap] = ()) -> None:
        self._gaps: dict[str, list[Gap]] = {}
        for gap in gaps:
            self._gaps.setdefault(gap.subscription, []).append(gap)

    def of(self, subscription: str) -> tuple[Gap, ...]:
        """Those of one subscription, by offset."""
        return tuple(self._gaps.get(subscription, ()))

    def at(self, subscription: str, offset: int) -> Gap | None:
        """The own gap of a subscription that ``offset`` lies in."""
        gaps = self._gaps.get(subscription, [])
        index = bisect_right(gaps, offset, key=lambda gap: gap.end)
        return gaps[index] if index < len(gaps) and gaps[index].first <= offset else None

    def all(self) -> list[Gap]:
        """All of them, by offset."""
        return sorted((gap for gaps in self._gaps.values() for gap in gaps), key=lambda gap: (gap.first, gap.end))

    def from_(self, offset: int) -> list[list[Gap]]:
        """Of each subscription that has any, those that begin at an offset or above it, in order."""
        return [gaps[bisect_left(gaps, offset, key=lambda gap: gap.first) :] for gaps in self._gaps.values() if gaps]

    def forget(self, subscription: str) -> tuple[Gap, ...]:
        """Leave out, and return, those of a subscription that is deleted."""
        return tuple(self._gaps.pop(subscription, ()))

    def take_back(self, subscription: str, offset: int) -> tuple[list[Gap], list[Gap]]:
        """The subscription was moved to ``offset``: what is there is before it again, whatever it had dropped.

        Returns the gaps that vanish and those that take their place.
        """
        known = self._gaps.get(subscription, [])
        gone = [gap for gap in known if gap.end > offset]
        made = [gap.below(offset) for gap in gone if gap.first < offset]
        if gone:
            self._gaps[subscription] = [*(gap for gap in known if gap.end <= offset), *made]
        return gone, made

    def add(self, subscription: str, gaps: list[Gap], *, settled_to: int) -> tuple[list[Gap], list[Gap]]:
        """Add gaps that overlap no other one; returns those that vanish and those to be written, in this order."""
        known = sorted([*self._gaps.get(subscription, ()), *gaps], key=lambda gap: gap.first)
        kept, gone, made = merged(known, most=REJECTIONS_MAX, settled_to=settled_to)
        self._gaps[subscription] = kept
        standing = {id(gap) for gap in kept}
        return gone, [gap for gap in (*gaps, *made) if id(gap) in standing]
