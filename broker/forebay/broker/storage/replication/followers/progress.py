"""Progress of a follower, for metrics."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class FollowerProgress:
    """Position and lag of a follower. The thread that follows writes them, any thread reads them."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """``clock`` is monotonic, in seconds."""
        self._clock = clock
        self._at_end_s = clock()
        self._missing: deque[tuple[int, float]] = deque()
        """Positions ahead that had no record at a time, by rising positions and times."""
        self.position = 0
        """Next position of the journal that it reads."""
        self.remote_bytes: Callable[[], int] = lambda: 0
        """Bytes of pages that it has still to read from a checkpoint."""

    @property
    def lag_s(self) -> float:
        """Age of the latest time of which the whole journal is known to be read, in seconds.

        Exact where reads find the end. Else it is too long by the interval between calls of ``missing``, and by as much
        as their positions are beyond the end. Before the first of both, the time since the process follows.
        """
        return max(0.0, self._clock() - self._at_end_s)

    def reached(self, position: int, *, end_at_s: float | None) -> None:
        """Note the position; ``end_at_s`` is when the read began that has found the end, None for records."""
        self.position = position
        while self._missing and self._missing[0][0] <= position:
            self._at_end_s = self._missing.popleft()[1]
        if end_at_s is not None:
            self._at_end_s = end_at_s
            self._missing.clear()

    def missing(self, position: int, at_s: float) -> None:
        """Note that a position ahead had no record at a time: what was appended before is below it."""
        while self._missing and self._missing[-1][0] >= position:
            self._missing.pop()
        self._missing.append((position, at_s))
