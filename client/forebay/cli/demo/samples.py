"""The state of the run from moment to moment, as the progress shows and the chart keeps it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

SAMPLES_MAX: Final = 20_000
"""Samples kept; at four a second that is more than an hour."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One moment. Counts are of records since the start of the run."""

    at_s: float
    """Seconds since the demo began."""

    produced: int
    """Produced by the source."""

    published: int
    """Taken by the broker."""

    delivered: int
    """Rows in the target's table."""

    age_s: float
    """Age of the oldest record that the target has not got."""

    broker_up: bool
    """The broker answered. If not, ``published`` and ``age_s`` are the last known."""

    target_up: bool
    """The target's process is there."""

    @property
    def buffered(self) -> int:
        """Records that the broker holds for the target."""
        return max(0, self.published - self.delivered)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened."""

    at_s: float
    """As in `Sample`."""

    text: str
    """What, for people."""


@dataclass(slots=True)
class History:
    """All samples and events of a run."""

    samples: list[Sample] = field(default_factory=list)
    """By time; at most `SAMPLES_MAX`."""

    events: list[Event] = field(default_factory=list)
    """By time."""

    def add(self, sample: Sample) -> None:
        """Keep ``sample``; every second one goes when there are too many."""
        if len(self.samples) >= SAMPLES_MAX:
            del self.samples[::2]
        self.samples.append(sample)
