"""Set of offsets, stored as ranges: compact while offsets are mostly added in order."""

from __future__ import annotations

from bisect import bisect_right


class OffsetSet:
    """Offsets as sorted, disjoint half-open ranges. Not thread-safe."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._ends: list[int] = []

    def __contains__(self, offset: int) -> bool:
        """Return True if ``offset`` was added."""
        index = bisect_right(self._firsts, offset) - 1
        return index >= 0 and offset < self._ends[index]

    def __len__(self) -> int:
        """Return the number of ranges."""
        return len(self._firsts)

    def update(self, other: OffsetSet) -> None:
        """Add all offsets of another set."""
        if not self._firsts:
            self._firsts, self._ends = list(other._firsts), list(other._ends)
            return
        for first, end in zip(other._firsts, other._ends, strict=True):
            for offset in range(first, end):
                self.add(offset)

    def add(self, offset: int) -> None:
        """Add one offset; adding it twice has no effect."""
        index = bisect_right(self._firsts, offset) - 1
        if index >= 0 and offset < self._ends[index]:
            return
        joins_left = index >= 0 and self._ends[index] == offset
        joins_right = index + 1 < len(self._firsts) and self._firsts[index + 1] == offset + 1
        if joins_left and joins_right:
            self._ends[index] = self._ends.pop(index + 1)
            del self._firsts[index + 1]
        elif joins_left:
            self._ends[index] = offset + 1
        elif joins_right:
            self._firsts[index + 1] = offset
        else:
            self._firsts.insert(index + 1, offset)
            self._ends.insert(index + 1, offset + 1)
