"""Latencies of recent events, counted in buckets over two spans of time."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

SPAN_S: Final = 300.0
"""Length of a span: counted are the events of the current one and of the one before."""

BOUNDS_S: Final = (0.001, 0.01, 0.1, 1.0, 10.0, 60.0)
"""Upper bounds of the buckets; the last bucket has no bound."""


class RecentLatency:
    """Counts of latencies by bucket. Times are seconds on a monotonic clock."""

    __slots__ = ("_before", "_begun", "_counts")

    def __init__(self) -> None:
        self._counts: list[int] | None = None
        """Counts of the current span; None before the first event."""
        self._before: list[int] = []
        self._begun = 0.0

    def add(self, latency_s: float, now: float) -> None:
        """Count an event."""
        self._roll(now)
        if self._counts is None:
            self._counts, self._begun = [0] * (len(BOUNDS_S) + 1), now
        self._counts[bisect_left(BOUNDS_S, latency_s)] += 1

    def counts(self, now: float) -> tuple[int, ...]:
        """Return the number of events of each bucket; empty if there were none lately."""
        self._roll(now)
        if self._counts is None:
            return tuple(self._before)
        before = self._before or [0] * len(self._counts)
        return tuple(one + other for one, other in zip(self._counts, before, strict=True))

    def _roll(self, now: float) -> None:
        """Begin a new span if the current one has ended."""
        elapsed = now - self._begun
        if elapsed < SPAN_S:
            return
        self._before = self._counts or [] if elapsed < 2 * SPAN_S else []
        self._counts = None
        self._begun = now
