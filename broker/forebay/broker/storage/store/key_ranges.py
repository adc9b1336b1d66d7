"""Sets of keys as ranges: the deleted keys of bulk files, which never change.

A set is a value: sorted ranges, half open, not empty, not touching. All functions are pure.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Span: TypeAlias = tuple[bytes, bytes]
"""First key, and the key after the last one."""


@dataclass(frozen=True, slots=True)
class KeyRanges:
    """Set of keys."""

    firsts: tuple[bytes, ...] = ()
    ends: tuple[bytes, ...] = ()

    @classmethod
    def of(cls, spans: Iterable[Span]) -> KeyRanges:
        """Return the set of these ranges, which may be in any order."""
        firsts: list[bytes] = []
        ends: list[bytes] = []
        for first, end in sorted(span for span in spans if span[0] < span[1]):
            if ends and first <= ends[-1]:
                ends[-1] = max(end, ends[-1])
            else:
                firsts.append(first)
                ends.append(end)
        return cls(tuple(firsts), tuple(ends))

    def __iter__(self) -> Iterator[Span]:
        return iter(zip(self.firsts, self.ends, strict=True))

    def __contains__(self, key: bytes) -> bool:
        index = bisect_right(self.firsts, key) - 1
        return index >= 0 and key < self.ends[index]

    def covers(self, first: bytes, last: bytes) -> bool:
        """Return whether every key from ``first`` to ``last``, both included, is in the set."""
        index = bisect_right(self.firsts, first) - 1
        return index >= 0 and last < self.ends[index]

    def meets(self, first: bytes, last: bytes) -> bool:
        """Return whether a key from ``first`` to ``last``, both included, is in the set."""
        index = bisect_right(self.ends, first)
        return index < len(self.firsts) and self.firsts[index] <= last

    def added_all(self, spans: Sequence[Span]) -> KeyRanges:
        """Return the set with more ranges, which may be in any order; touching ranges are joined."""
        if len(spans) > 1:
            return KeyRanges.of([*self, *spans])
        return self.added(*spans[0]) if spans else self

    def added(self, first: bytes, end: bytes) -> KeyRanges:
        """Return the set with one more range; touching ranges are joined."""
        if first >= end:
            return self
        low, high = bisect_left(self.ends, first), bisect_right(self.firsts, end)
        if low < high:
            first, end = min(first, self.firsts[low]), max(end, self.ends[high - 1])
        return KeyRanges((*self.firsts[:low], first, *self.firsts[high:]), (*self.ends[:low], end, *self.ends[high:]))
