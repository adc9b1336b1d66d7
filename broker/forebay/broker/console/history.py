"""Rates of the sinks over the last 15 minutes and the last day, in rings of a fixed size."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from forebay.state.flow import Flow

SAMPLE_S: Final = 5.0
"""Interval between two samples."""

SAMPLES: Final = 180
"""Samples of 15 minutes."""

SPAN_S: Final = 300.0
"""Length of a span of the last day."""

SPANS: Final = 288
"""Spans of the last day."""

HISTORIES_MAX: Final = 2_000
"""Sinks with a history, 16 KiB each; those above it have the current figures only."""

STATES: Final = tuple(Flow)
"""States of a sink; later ones need attention before earlier ones."""


class Ring:
    """The last numbers of one figure. Older ones are overwritten."""

    __slots__ = ("_count", "_values")

    def __init__(self, size: int, kind: str = "d") -> None:
        """``kind`` is the type of the numbers, as `array` names it."""
        self._values: array[Any] = array(kind, bytes(size * array(kind).itemsize))
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
        return float(self._values[(self._count - 1) % len(self._values)])

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
class Rates:
    """Records per second since the sample before."""

    into: float = 0.0
    out: float = 0.0
    """Records that consumers settled."""

    cleared: float = 0.0
    """Records that no longer wait: settled by consumers, purged, dropped, expired or skipped."""


@dataclass(frozen=True, slots=True)
class Span:
    """A part of the time of one sink or subscription: one sample, or five minutes."""

    number: int
    """Counts the spans of the monotonic clock."""

    into: float
    """Records per second, on average."""

    out: float
    waiting: float
    """Highest number of waiting records."""

    state: Flow
    """State that needed attention the most."""


class Spans:
    """The last spans of one sink or subscription, in rings."""

    __slots__ = ("_number", "_samples", "_state", "into", "length_s", "out", "waiting")

    def __init__(self, size: int, length_s: float) -> None:
        """``length_s`` is the length of a span in seconds."""
        self.length_s = length_s
        self._number, self._state = Ring(size, "Q"), Ring(size, "B")
        self.into, self.out, self.waiting = Ring(size), Ring(size), Ring(size)
        self._samples = 0
        """Samples of the newest span."""

    def add(self, at: float, rates: Rates, waiting: int, state: Flow) -> None:
        """Add a sample, taken at a time of the monotonic clock."""
        number, rank = int(at // self.length_s), STATES.index(state)
        if not len(self._number) or self._number.last() != number:
            self._samples = 1
            self._number.add(number)
            self.into.add(rates.into)
            self.out.add(rates.out)
            self.waiting.add(waiting)
            self._state.add(rank)
            return
        self._samples += 1
        part = 1 / self._samples
        self.into.replace_last(self.into.last() + (rates.into - self.into.last()) * part)
        self.out.replace_last(self.out.last() + (rates.out - self.out.last()) * part)
        self.waiting.replace_last(max(self.waiting.last(), waiting))
        self._state.replace_last(max(int(self._state.last()), rank))

    def __iter__(self) -> Iterator[Span]:
        """Yield the spans, the oldest first."""
        for number, into, out, waiting, state in zip(
            self._number, self.into, self.out, self.waiting, self._state, strict=True
        ):
            yield Span(int(number), into, out, waiting, STATES[int(state)])


def quarter() -> Spans:
    """Return the spans of 15 minutes, none yet: one for each sample."""
    return Spans(SAMPLES, SAMPLE_S)


def day() -> Spans:
    """Return the spans of a day, none yet."""
    return Spans(SPANS, SPAN_S)


class History:
    """Rates of one sink, or of all together. Made by the first sample."""

    def __init__(self) -> None:
        self._last: Count | None = None
        self.now = Rates()
        self.quarter, self.day = quarter(), day()

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
        self.quarter.add(count.at, self.now, count.waiting, state)
        self.day.add(count.at, self.now, count.waiting, state)
