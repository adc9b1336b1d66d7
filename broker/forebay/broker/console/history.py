"""Rates of the sinks over the last 15 minutes, in rings of a fixed size."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

SAMPLE_S: Final = 5.0
"""Interval between two samples."""

SAMPLES: Final = 180
"""Samples of a ring: 15 minutes."""

HISTORIES_MAX: Final = 2_000
"""Sinks with a history, 4 KiB each; those above it have the current figures only."""


class Ring:
    """The last numbers of one figure. Older ones are overwritten."""

    __slots__ = ("_count", "_values")

    def __init__(self, size: int = SAMPLES) -> None:
        self._values = array("d", bytes(8 * size))
        self._count = 0

    def add(self, value: float) -> None:
        """Add the newest number."""
        self._values[self._count % len(self._values)] = value
        self._count += 1

    def __len__(self) -> int:
        """Return how many numbers there are."""
        return min(self._count, len(self._values))

    def __iter__(self) -> Iterator[float]:
        """Yield the numbers, the oldest first."""
        size = len(self._values)
        for number in range(max(0, self._count - size), self._count):
            yield self._values[number % size]


@dataclass(frozen=True, slots=True)
class Count:
    """Counters of one sink at one time."""

    at: float
    """Monotonic seconds."""

    incarnation: str
    appended: int
    """Records that were ever accepted."""

    waiting: int
    """Unsettled records of the slowest subscription."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Records per second since the sample before."""

    into: float = 0.0
    out: float = 0.0


class History:
    """Rates of one sink, or of all together. Made by the first sample."""

    def __init__(self) -> None:
        self._last: Count | None = None
        self.now = Rates()
        self.into, self.out, self.waiting = Ring(), Ring(), Ring()

    def add(self, count: Count) -> None:
        """Add a sample. The first one of an incarnation has no rates."""
        last = self._last
        self._last = count
        if last is None or last.incarnation != count.incarnation or count.at <= last.at:
            self.now = Rates()
        else:
            seconds = count.at - last.at
            settled = (count.appended - count.waiting) - (last.appended - last.waiting)
            # A seek makes settled records wait again: nothing went out.
            self.now = Rates(max(0, count.appended - last.appended) / seconds, max(0, settled) / seconds)
        self.into.add(self.now.into)
        self.out.add(self.now.out)
        self.waiting.add(count.waiting)
