"""Progress of a follower, for metrics."""

from __future__ import annotations

from collections.abc import Callable


class FollowerProgress:
    """Position and lag of a follower. The thread that follows writes them, any thread reads them."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """``clock`` is monotonic, in seconds."""
        self._clock = clock
        self._at_end_s = clock()
        self.position = 0
        """Next position of the journal that it reads."""
        self.remote_bytes: Callable[[], int] = lambda: 0
        """Bytes of pages that it has still to read from a checkpoint."""

    @property
    def lag_s(self) -> float:
        """Time since the beginning of the last read that has found the end of the journal, in seconds.

        Before the first one, the time since the process follows.
        """
        return max(0.0, self._clock() - self._at_end_s)

    def reached(self, position: int, *, end_at_s: float | None) -> None:
        """Note the position; ``end_at_s`` is when the read began that has found the end, None for records."""
        self.position = position
        if end_at_s is not None:
            self._at_end_s = end_at_s
