"""Samples of the run's state, for the progress display and the chart."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from forebay.cli.demo.plan import Action

SAMPLES_MAX: Final = 20_000
"""Maximum number of samples; more than an hour at four per second."""


@dataclass(frozen=True, slots=True)
class Sample:
    """State at one time. Counts are records since the start of the run."""

    at_s: float
    """Seconds since the first record was produced; 0 before it."""

    produced: int
    """Records produced by the source."""

    published: int
    """Records accepted by the broker."""

    delivered: int
    """Rows in the target's table."""

    age_s: float
    """Age of the oldest undelivered record."""

    broker_up: bool
    """The broker answered. Otherwise ``published`` and ``age_s`` are the last known values."""

    target_up: bool
    """The target's process is running."""

    @property
    def buffered(self) -> int:
        """Number of undelivered records in the broker."""
        return max(0, self.published - self.delivered)


@dataclass(frozen=True, slots=True)
class Event:
    """Event of the run."""

    at_s: float
    """Seconds since the first record was produced; 0 before it."""

    text: str
    """Description of the event."""

    action: Action | None = None
    """Action of the plan, if it is one."""


@dataclass(slots=True)
class History:
    """All samples and events of a run."""

    samples: list[Sample] = field(default_factory=list)
    """Samples by time; at most `SAMPLES_MAX`."""

    events: list[Event] = field(default_factory=list)
    """Events by time."""

    def add(self, sample: Sample) -> None:
        """Add ``sample``; removes every second sample when there are too many."""
        if len(self.samples) >= SAMPLES_MAX:
            del self.samples[::2]
        self.samples.append(sample)
