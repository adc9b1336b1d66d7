"""Rate of recent events, counted by the second."""

from __future__ import annotations

from typing import Final

WINDOW_S: Final = 10
"""Seconds that are counted, the current one included."""


class RecentRate:
    """Events per second over the last `WINDOW_S` seconds; times are seconds on a monotonic clock."""

    __slots__ = ("_begun", "_counts", "_second")

    def __init__(self) -> None:
        self._counts: list[int] | None = None
        """Count of each second, by its remainder; None before the first event: most sinks of many are empty."""
        self._second = 0
        self._begun = 0.0

    def add(self, count: int, now: float) -> None:
        """Count events."""
        second = int(now)
        if self._counts is None or second != self._second:
            self._roll(second, now)
        assert self._counts is not None, "rolling begins a window"
        self._counts[second % WINDOW_S] += count

    def per_s(self, now: float) -> float:
        """Return the rate; 0 once the last event is `WINDOW_S` seconds old."""
        if self._counts is None:
            return 0.0
        second = int(now)
        if second != self._second:
            self._roll(second, now)
        counted_s = min(now - self._begun, WINDOW_S - 1 + now - second)
        return sum(self._counts) / max(1.0, counted_s)

    def _roll(self, second: int, now: float) -> None:
        """Empty the seconds since the last call; an empty window begins again."""
        counts, elapsed = self._counts, second - self._second
        if counts is not None and elapsed < WINDOW_S:
            for passed in range(self._second + 1, second + 1):
                counts[passed % WINDOW_S] = 0
        if counts is None or elapsed >= WINDOW_S or not any(counts):
            self._counts, self._begun = [0] * WINDOW_S, now
        self._second = second
