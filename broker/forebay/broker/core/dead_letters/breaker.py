"""Circuit breaker of dead letters: opens when the rejections indicate a broken target.

It examines the last judged records (acked or dead-lettered), and the number of consecutive dead letters. While it is
open no record goes to the dead-letter sink, until an operator closes it.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from forebay.state.numbers import plural

WINDOW: Final = 1_000
"""Number of last judged records that the ratio is computed over."""
JUDGED_MIN: Final = 100
"""Judged records below which the ratio is not evaluated."""


class Breaker:
    """Recent outcomes of the records of one subscription."""

    __slots__ = ("_dead", "_judged", "_runs", "in_a_row", "opened")

    def __init__(self) -> None:
        self._runs: deque[tuple[bool, int]] = deque()
        """(dead, number) in the order of the answers, at most ``WINDOW`` records."""
        self._judged = 0
        self._dead = 0
        self.in_a_row = 0
        """Dead letters since the last ack."""
        self.opened = ""
        """Reason why it is open, or empty."""

    def acked(self, records: int) -> None:
        """Count records that the target accepted."""
        if records:
            self.in_a_row = 0
            if self._dead:
                self._note(records, dead=False)
            else:
                self._judged = min(WINDOW, self._judged + records)

    def rejected(self, records: int, *, ratio_max: float, consecutive_max: int) -> int:
        """Count rejected records; returns how many may go to the dead-letter sink. The last one may open it."""
        for taken in range(records):
            if self.opened:
                return taken
            self._note(1, dead=True)
            self.in_a_row += 1
            if consecutive_max and self.in_a_row >= consecutive_max:
                self.opened = f"{self.in_a_row} {plural(self.in_a_row, 'record')} in a row went to the dead-letter sink"
            elif self._judged >= JUDGED_MIN and self._dead > ratio_max * self._judged:
                self.opened = f"{self._dead} of the last {self._judged} records went to the dead-letter sink"
        return records

    def close(self) -> None:
        """Close the breaker and reset all counts."""
        self._runs.clear()
        self._judged = self._dead = self.in_a_row = 0
        self.opened = ""

    def _note(self, records: int, *, dead: bool) -> None:
        if not self._runs and self._judged:
            self._runs.append((False, self._judged))  # acks were only counted while there was no dead letter
        if self._runs and self._runs[-1][0] is dead:
            self._runs[-1] = (dead, self._runs[-1][1] + records)
        else:
            self._runs.append((dead, records))
        self._judged += records
        self._dead += records if dead else 0
        while self._judged > WINDOW:
            was_dead, count = self._runs[0]
            gone = min(count, self._judged - WINDOW)
            self._judged -= gone
            self._dead -= gone if was_dead else 0
            if gone == count:
                self._runs.popleft()
            else:
                self._runs[0] = (was_dead, count - gone)
        if not self._dead:
            self._runs.clear()
