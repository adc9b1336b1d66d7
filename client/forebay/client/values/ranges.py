"""Arithmetic on ranges of offsets, both ends included as on the wire; lists are sorted and disjoint."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from operator import itemgetter

Range = tuple[int, int]

_FIRST, _LAST = itemgetter(0), itemgetter(1)


def _touched(ranges: Sequence[Range], first: int, last: int) -> tuple[int, int]:
    """Return the index bounds of the ranges that overlap ``first`` to ``last``."""
    low = bisect_left(ranges, first, key=_LAST)
    return low, bisect_right(ranges, last, lo=low, key=_FIRST)


def intersect(ranges: Sequence[Range], first: int, last: int) -> list[Range]:
    """Return the parts of ``ranges`` within ``first`` to ``last``."""
    if first > last:
        return []
    low, high = _touched(ranges, first, last)
    found = list(ranges[low:high])
    if found and found[0][0] < first:
        found[0] = first, found[0][1]
    if found and found[-1][1] > last:
        found[-1] = found[-1][0], last
    return found


def subtract(ranges: Sequence[Range], first: int, last: int) -> list[Range]:
    """Return the parts of ``ranges`` outside ``first`` to ``last``."""
    if first > last:
        return list(ranges)
    low, high = _touched(ranges, first, last)
    below = [(ranges[low][0], first - 1)] if low < high and ranges[low][0] < first else []
    above = [(last + 1, ranges[high - 1][1])] if low < high and ranges[high - 1][1] > last else []
    return [*ranges[:low], *below, *above, *ranges[high:]]


def without(ranges: Sequence[Range], gone: Sequence[Range]) -> list[Range]:
    """Return ``ranges`` without all of ``gone``, in one pass."""
    if len(gone) == 1:
        return subtract(ranges, *gone[0])
    left: list[Range] = []
    at = 0
    for first, last in ranges:
        while at < len(gone) and gone[at][1] < first:
            at += 1
        begin, ahead = first, at
        while ahead < len(gone) and gone[ahead][0] <= last:
            if begin < gone[ahead][0]:
                left.append((begin, gone[ahead][0] - 1))
            begin = gone[ahead][1] + 1
            ahead += 1
        if begin <= last:
            left.append((begin, last))
    return left


def appended(ranges: list[Range], more: Sequence[Range]) -> list[Range]:
    """Return ``ranges`` with ``more`` added; modifies ``ranges`` in place if ``more`` lies after it."""
    if ranges and more and more[0][0] <= ranges[-1][1]:
        return merge([*ranges, *more])
    if ranges and more and more[0][0] == ranges[-1][1] + 1:
        ranges[-1] = ranges[-1][0], more[0][1]
        more = more[1:]
    ranges += more
    return ranges


def count(ranges: Iterable[Range]) -> int:
    """Return the number of offsets in ``ranges``."""
    return sum(end - start + 1 for start, end in ranges)


def merge(ranges: Iterable[Range]) -> list[Range]:
    """Return the same offsets in the fewest ranges."""
    merged: list[Range] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
