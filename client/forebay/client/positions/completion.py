"""Completion of records of one partition, in any order.

The position is the lowest record that is not finished.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from operator import itemgetter

from forebay.client.errors import InvalidArgument
from forebay.client.values import ranges
from forebay.client.values.ranges import Range
from forebay.errors.reasons import Reason

_FIRST, _LAST = itemgetter(0), itemgetter(1)


class Completion:
    """Records that were handed out, and the finished ones among them. Not thread-safe."""

    __slots__ = ("_finished_above", "end", "position")

    def __init__(self, start: int) -> None:
        self.position = start
        """Every record below is finished."""
        self.end = start
        """Every record below was handed out."""
        self._finished_above: list[Range] = []
        """Finished ranges above the position: sorted and disjoint, both ends included."""

    @property
    def unfinished(self) -> int:
        """Number of records that were handed out and are not finished."""
        return self.end - self.position - ranges.count(self._finished_above)

    def hand_out(self, first: int, last: int) -> None:
        """Note records that are handed out. Offsets between them and the earlier ones do not exist."""
        if first > self.end:
            self._settle(self.end, first - 1)
        self.end = max(self.end, last + 1)

    def finish(self, first: int, last: int) -> bool:
        """Note finished records; returns True if the position moved. Finishing a record twice has no effect.

        Raises ``InvalidArgument`` for records that were not handed out.
        """
        if not 0 <= first <= last < self.end:
            raise InvalidArgument(
                f"records {first} to {last} were not handed out: the last one that was is {self.end - 1}",
                reason=Reason.INVALID_RANGE,
                facts={"first_offset": str(first), "last_offset": str(last), "end_offset": str(self.end)},
            )
        before = self.position
        self._settle(first, last)
        return self.position > before

    def _settle(self, first: int, last: int) -> None:
        first, above = max(first, self.position), self._finished_above
        if first > last:
            return
        low = bisect_left(above, first - 1, key=_LAST)
        high = bisect_right(above, last + 1, lo=low, key=_FIRST)
        if low < high:
            first, last = min(first, above[low][0]), max(last, above[high - 1][1])
        if first > self.position:
            above[low:high] = [(first, last)]
        else:
            del above[low:high]
            self.position = last + 1
