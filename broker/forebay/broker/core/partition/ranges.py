"""Half-open ranges of offsets, and sets of them.

A set is a tuple of ranges: sorted, not empty, not touching. All functions are pure.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from operator import itemgetter
from typing import NamedTuple


class Range(NamedTuple):
    """Offsets from ``first`` up to, not including, ``end``."""

    first: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.first


RangeSet = tuple[Range, ...]

_FIRST, _END = itemgetter(0), itemgetter(1)  # in C: these run for every answered range


def add(ranges: RangeSet, new: Range) -> RangeSet:
    """Return the set with ``new`` added; touching ranges are joined."""
    if new.end <= new.first:
        return ranges
    low = bisect_left(ranges, new.first, key=_END)
    high = bisect_right(ranges, new.end, key=_FIRST)
    if low == high:
        return (*ranges[:low], new, *ranges[high:])
    merged = Range(min(new.first, ranges[low].first), max(new.end, ranges[high - 1].end))
    return (*ranges[:low], merged, *ranges[high:])


def add_all(ranges: RangeSet, new: Sequence[Range]) -> tuple[RangeSet, int]:
    """Return the set with all of ``new`` added, and the number of added offsets, in one copy."""
    new = union(new)
    if not new:
        return ranges, 0
    low = bisect_left(ranges, new[0].first, key=_END)
    high = bisect_right(ranges, new[-1].end, key=_FIRST)
    touched = ranges[low:high]
    merged = union(touched, new)
    return (*ranges[:low], *merged, *ranges[high:]), count(merged) - count(touched)


def are_apart(ranges: Sequence[Range]) -> bool:
    """Return whether the ranges are sorted, not empty and disjoint."""
    return all(each.first < each.end for each in ranges) and all(
        one.end <= next_.first for one, next_ in pairwise(ranges)
    )


def missing(ranges: RangeSet, within: Range) -> Iterator[Range]:
    """Yield the parts of ``within`` that are not in the set, in order."""
    at = within.first
    for index in range(bisect_right(ranges, within.first, key=_END), len(ranges)):
        found = ranges[index]
        if found.first >= within.end:
            break
        if found.first > at:
            yield Range(at, found.first)
        at = max(at, found.end)
    if at < within.end:
        yield Range(at, within.end)


def common(ranges: Sequence[Range], within: Range) -> Iterator[Range]:
    """Yield the parts of ``within`` that are in the set, in order."""
    for index in range(bisect_right(ranges, within.first, key=_END), len(ranges)):
        each = ranges[index]
        if each.first >= within.end:
            return
        yield Range(max(each.first, within.first), min(each.end, within.end))


def touches(ranges: RangeSet, within: Range) -> bool:
    """Return whether a part of ``within`` is in the set."""
    return next(common(ranges, within), None) is not None


def without(ranges: RangeSet, gone: Range) -> RangeSet:
    """Return the set without the offsets of ``gone``."""
    if gone.first >= gone.end:
        return ranges
    low = bisect_right(ranges, gone.first, key=_END)
    high = bisect_left(ranges, gone.end, key=_FIRST)
    if low >= high:
        return ranges
    below, above = Range(ranges[low].first, gone.first), Range(gone.end, ranges[high - 1].end)
    left = [part for part in (below, above) if part.first < part.end]
    return (*ranges[:low], *left, *ranges[high:])


def union(*found: Sequence[Range]) -> RangeSet:
    """Return the union of the sets, in one pass over all of them."""
    made: list[Range] = []
    for each in sorted(chain.from_iterable(found)):
        if made and each.first <= made[-1].end:
            if each.end > made[-1].end:
                made[-1] = Range(made[-1].first, each.end)
        elif each.first < each.end:
            made.append(each)
    return tuple(made)


def joined(ranges: Iterable[Range]) -> list[Range]:
    """Return sorted ranges with neighbours joined."""
    found: list[Range] = []
    for each in ranges:
        if found and found[-1].end == each.first:
            found[-1] = Range(found[-1].first, each.end)
        else:
            found.append(each)
    return found


def count(ranges: RangeSet) -> int:
    """Return the number of offsets in the set."""
    return sum(r.end - r.first for r in ranges)


def contains(ranges: RangeSet, offset: int) -> bool:
    """Return whether ``offset`` is in the set."""
    index = bisect_right(ranges, offset, key=_FIRST) - 1
    return index >= 0 and offset < ranges[index].end
