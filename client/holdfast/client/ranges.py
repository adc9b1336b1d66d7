"""Ranges of offsets as they stand on the wire: both ends included, sorted and apart."""

from __future__ import annotations

from collections.abc import Iterable

Range = tuple[int, int]


def intersect(ranges: Iterable[Range], first: int, last: int) -> list[Range]:
    """Return what of ``ranges`` lies within ``first`` to ``last``."""
    cut = ((max(start, first), min(end, last)) for start, end in ranges)
    return [(start, end) for start, end in cut if start <= end]


def subtract(ranges: Iterable[Range], first: int, last: int) -> list[Range]:
    """Return what of ``ranges`` lies outside of ``first`` to ``last``."""
    left: list[Range] = []
    for start, end in ranges:
        if end < first or start > last:
            left.append((start, end))
            continue
        if start < first:
            left.append((start, first - 1))
        if end > last:
            left.append((last + 1, end))
    return left


def count(ranges: Iterable[Range]) -> int:
    """Return how many offsets there are."""
    return sum(end - start + 1 for start, end in ranges)


def merge(ranges: Iterable[Range]) -> list[Range]:
    """Return the same offsets in as few ranges as possible."""
    merged: list[Range] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
