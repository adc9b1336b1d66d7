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
"""Samples of 15 minutes."""

SPAN_S: Final = 300.0
"""Length of a span of the last day."""

SPANS: Final = 288
"""Spans of the last day."""

HISTORIES_MAX: Final = 2_000
"""Sinks with a history, 16 KiB each; those above it have the current figures only."""

STATES: Final = tuple(Flow)
"""States of a sink; later ones need attention before earlier ones."""


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
    """The last spans of one sink or subscription, in rings of a fixed size. Older ones are overwritten."""

    __slots__ = ("_count", "_into", "_length_s", "_number", "_out", "_samples", "_state", "_waiting")

    def __init__(self, size: int, length_s: float) -> None:
        """``length_s`` is the length of a span in seconds."""
        self._length_s = length_s
        self._number, self._state = array("q", bytes(8 * size)), array("B", bytes(size))
        self._into, self._out, self._waiting = (array("d", bytes(8 * size)) for _ in range(3))
        self._count = 0
        """Spans that ever began."""
        self._samples = 0
        """Samples of the newest span."""

    def add(self, at: float, rates: Rates, waiting: int, state: Flow) -> None:
        """Add a sample, taken at a time of the monotonic clock."""
        number, rank = int(at // self._length_s), STATES.index(state)
        newest = (self._count - 1) % len(self._number)
        if self._count and self._number[newest] == number:
            self._samples += 1
            self._into[newest] += (rates.into - self._into[newest]) / self._samples
            self._out[newest] += (rates.out - self._out[newest]) / self._samples
            self._waiting[newest] = max(self._waiting[newest], waiting)
            self._state[newest] = max(self._state[newest], rank)
            return
        place = self._count % len(self._number)
        self._number[place], self._state[place] = number, rank
        self._into[place], self._out[place], self._waiting[place] = rates.into, rates.out, waiting
        self._count += 1
        self._samples = 1

    def into(self) -> tuple[float, ...]:
        """Return the records per second that came in, the oldest span first."""
        return tuple(self._into[place] for place in self._places())

    def out(self) -> tuple[float, ...]:
        """Return the records per second that went out, the oldest span first."""
        return tuple(self._out[place] for place in self._places())

    def waiting(self) -> tuple[float, ...]:
        """Return the waiting records, the oldest span first."""
        return tuple(self._waiting[place] for place in self._places())

    def __iter__(self) -> Iterator[Span]:
        """Yield the spans, the oldest first."""
        for at in self._places():
            yield Span(self._number[at], self._into[at], self._out[at], self._waiting[at], STATES[self._state[at]])

    def _places(self) -> Iterator[int]:
        size = len(self._number)
        return (number % size for number in range(max(0, self._count - size), self._count))


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
