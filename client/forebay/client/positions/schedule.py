"""Schedule of saves: by frequency, number of finished records, and age.

A position is checked every ``frequency_s``. It is saved then if ``count_threshold`` records were finished since the
last save, or if the first of them waits for ``time_threshold_s``: so the last records before a pause are saved too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from forebay.client.settings import check

RANGES: Final[Mapping[str, tuple[float, float]]] = {
    "frequency_s": (0, 86_400),
    "count_threshold": (1, 1_000_000_000),
    "time_threshold_s": (0, 86_400),
}
"""Lowest and highest value by setting."""


@dataclass(frozen=True, slots=True)
class SaveSchedule:
    """Settings of the schedule."""

    frequency_s: float = 5.0
    """Seconds between two saves of a partition; 0 saves as soon as a threshold is reached."""

    count_threshold: int = 1
    """Finished records that make a save due."""

    time_threshold_s: float = 30.0
    """Seconds after which a save is due for fewer records."""

    def __post_init__(self) -> None:
        """Reject values that are out of bounds."""
        for name, (lowest, highest) in RANGES.items():
            check(name, getattr(self, name), lowest, highest)


@dataclass(slots=True)
class Due:
    """Progress of one partition since its last save."""

    saved_at: float
    """Time of the last save, or of the start, in monotonic seconds."""

    saved: int
    """Position at the last save."""

    moved_at: float | None = None
    """Time of the first progress since the last save."""

    def moved(self, now: float) -> None:
        """Note that the position moved."""
        if self.moved_at is None:
            self.moved_at = now

    def at(self, schedule: SaveSchedule, position: int) -> float | None:
        """Return the time at which the next save is due; None if nothing is to be saved."""
        if self.moved_at is None or position <= self.saved:
            return None
        earliest = self.saved_at + schedule.frequency_s
        if position - self.saved >= schedule.count_threshold:
            return earliest
        return max(earliest, self.moved_at + schedule.time_threshold_s)

    def save(self, saved: int, position: int, now: float) -> None:
        """Note a save of ``saved``, while the position is ``position`` already."""
        self.saved, self.saved_at = max(self.saved, saved), now
        self.moved_at = now if position > self.saved else None
