"""Ranges of offsets, half open, and sets of them.

A set is a tuple of ranges: sorted, not empty, not touching. All functions are pure.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
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

_FIRST, _END = itemgetter(0), itemgetter(1)  # in C: these run for every range that is answered


def add(ranges: RangeSet, new: Range) -> RangeSet:
    """Return the set with ``new`` in it; touching ranges become one."""
    if new.end <= new.first:
        return ranges
    low = bisect_left(ranges, new.first, key=_END)
    high = bisect_right(ranges, new.end, key=_FIRST)
    if low == high:
        return (*ranges[:low], new, *ranges[high:])
    merged = Range(min(new.first, ranges[low].first), max(new.end, ranges[high - 1].end))
    return (*ranges[:low], merged, *ranges[high:])


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


def common(ranges: Iterable[Range], within: Range) -> Iterator[Range]:
    """Yield the parts of ``within`` that are in the set, in order."""
    for each in ranges:
        first, end = max(each.first, within.first), min(each.end, within.end)
        if first < end:
            yield Range(first, end)


def without(ranges: RangeSet, gone: Range) -> RangeSet:
    """Return the set with nothing of ``gone`` in it."""
    if gone.first >= gone.end:
        return ranges
    return tuple(part for each in ranges for part in missing((gone,), each))


def union(one: RangeSet, other: RangeSet) -> RangeSet:
    """Return what is in either set."""
    for each in other:
        one = add(one, each)
    return one


def joined(ranges: Iterable[Range]) -> list[Range]:
    """Return sorted ranges with neighbours as one."""
    found: list[Range] = []
    for each in ranges:
        if found and found[-1].end == each.first:
            found[-1] = Range(found[-1].first, each.end)
        else:
            found.append(each)
    return found


def count(ranges: RangeSet) -> int:
    """Number of offsets in the set."""
    return sum(r.end - r.first for r in ranges)


def contains(ranges: RangeSet, offset: int) -> bool:
    """Whether ``offset`` is in the set."""
    index = bisect_right(ranges, offset, key=_FIRST) - 1
    return index >= 0 and offset < ranges[index].end
