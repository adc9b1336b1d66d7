"""Rates of the sinks over the last 15 minutes and the last day, in rings of a fixed size."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from forebay.state.flow import Flow

SAMPLE_S: Final = 5.0
"""Interval between two samples."""

SAMPLES: Final = 180
"""Samples of a ring: 15 minutes."""

SPAN_S: Final = 300.0
"""Length of a span of the last day."""

SPANS: Final = 288
"""Spans of the last day."""

HISTORIES_MAX: Final = 2_000
"""Sinks with a history, 10 KiB each; those above it have the current figures only."""

STATES: Final = tuple(Flow)
"""States of a sink; later ones need attention before earlier ones."""


class Ring:
    """The last numbers of one figure. Older ones are overwritten."""

    __slots__ = ("_count", "_values")

    def __init__(self, size: int = SAMPLES) -> None:
        self._values = array("d", bytes(8 * size))
        self._count = 0

    def replace_last(self, value: float) -> None:
        """Overwrite the newest number."""
        self._values[(self._count - 1) % len(self._values)] = value

    def add(self, value: float) -> None:
        """Add the newest number."""
        self._values[self._count % len(self._values)] = value
        self._count += 1

    def last(self) -> float:
        """Return the newest number, of at least one."""
        return self._values[(self._count - 1) % len(self._values)]

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

    settled: int
    """Records that its consumers ever acked or dead-lettered, as ``Settled`` counts them."""


class Settled:
    """Count of the records that consumers settled, always those of the slowest subscription at the time."""

    __slots__ = ("_before", "count")

    def __init__(self) -> None:
        self._before: Mapping[str, int] | None = None
        self.count = 0

    def add(self, slowest: str, by_subscription: Mapping[str, int]) -> int:
        """Add a sample, and return the records that were settled since the last one.

        ``by_subscription`` has the counts of all subscriptions since each was loaded.
        """
        before, self._before = self._before, by_subscription
        if before is None:
            return 0
        settled = max(0, by_subscription.get(slowest, 0) - before.get(slowest, 0))  # negative: it was recreated
        self.count += settled
        return settled


@dataclass(frozen=True, slots=True)
class DaySpan:
    """Five minutes of one sink."""

    number: int
    """Counts the spans of the monotonic clock."""

    into: float
    """Records per second, on average."""

    out: float
    waiting: float
    """Highest number of waiting records."""

    state: Flow
    """State that needed attention the most."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Records per second since the sample before."""

    into: float = 0.0
    out: float = 0.0
    """Records that consumers settled."""

    cleared: float = 0.0
    """Records that no longer wait: settled by consumers, purged, dropped, expired or skipped."""


class Day:
    """The last day of one sink, in spans."""

    __slots__ = ("_into", "_number", "_out", "_samples", "_state", "_waiting")

    def __init__(self) -> None:
        self._number, self._into, self._out, self._waiting, self._state = (Ring(SPANS) for _ in range(5))
        self._samples = 0
        """Samples of the newest span."""

    def add(self, at: float, rates: Rates, waiting: int, state: Flow) -> None:
        """Add a sample, taken at a time of the monotonic clock."""
        number, newest = int(at // SPAN_S), self._newest()
        if newest is None or newest.number != number:
            self._samples = 1
            values = number, rates.into, rates.out, waiting, STATES.index(state)
            for ring, value in zip(self._rings, values, strict=True):
                ring.add(value)
            return
        self._samples += 1
        part = 1 / self._samples
        self._into.replace_last(newest.into + (rates.into - newest.into) * part)
        self._out.replace_last(newest.out + (rates.out - newest.out) * part)
        self._waiting.replace_last(max(newest.waiting, waiting))
        self._state.replace_last(max(STATES.index(newest.state), STATES.index(state)))

    def spans(self) -> tuple[DaySpan, ...]:
        """Return the spans, the oldest first."""
        return tuple(_span(*values) for values in zip(*self._rings, strict=True))

    @property
    def _rings(self) -> tuple[Ring, ...]:
        return self._number, self._into, self._out, self._waiting, self._state

    def _newest(self) -> DaySpan | None:
        return _span(*(ring.last() for ring in self._rings)) if len(self._number) else None


def _span(number: float, into: float, out: float, waiting: float, state: float) -> DaySpan:
    return DaySpan(int(number), into, out, waiting, STATES[int(state)])


class History:
    """Rates of one sink, or of all together. Made by the first sample."""

    def __init__(self) -> None:
        self._last: Count | None = None
        self.now = Rates()
        self.into, self.out, self.waiting = Ring(), Ring(), Ring()
        self.day = Day()

    def add(self, count: Count, state: Flow = Flow.IDLE) -> None:
        """Add a sample. The first one of an incarnation has no rates."""
        last = self._last
        self._last = count
        if last is None or last.incarnation != count.incarnation or count.at <= last.at:
            self.now = Rates()
        else:
            seconds = count.at - last.at
            cleared = (count.appended - count.waiting) - (last.appended - last.waiting)
            # A seek makes settled records wait again: none was cleared.
            self.now = Rates(
                into=max(0, count.appended - last.appended) / seconds,
                out=(count.settled - last.settled) / seconds,
                cleared=max(0, cleared) / seconds,
            )
        self.into.add(self.now.into)
        self.out.add(self.now.out)
        self.waiting.add(count.waiting)
        self.day.add(count.at, self.now, count.waiting, state)
