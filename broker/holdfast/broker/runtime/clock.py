"""Time, for everything that runs: a monotonic clock, the wall clock, and an age clock of our own.

The age clock goes on over restarts, but follows the wall clock's difference only where that is believable: a device
without a battery boots in 1970, and nothing may expire because of it.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import Final, Protocol

MAX_CLOCK_STEP_US: Final = 7 * 24 * 3_600 * 1_000_000


class Clock(Protocol):
    """What the broker knows of time and chance."""

    def monotonic(self) -> float:
        """Seconds; never goes back."""
        ...

    def wall_us(self) -> int:
        """Microseconds since 1970-01-01 UTC, as the machine believes."""
        ...

    def random(self) -> float:
        """A number in [0, 1)."""
        ...


class SystemClock:
    """The machine's own."""

    def monotonic(self) -> float:
        return time.monotonic()

    def wall_us(self) -> int:
        return time.time_ns() // 1_000

    def random(self) -> float:
        return random.random()


@dataclass(slots=True)
class FakeClock:
    """A clock that a test moves."""

    now: float = 1_000.0
    wall: int = 1_700_000_000_000_000
    chance: float = 0.5

    def monotonic(self) -> float:
        return self.now

    def wall_us(self) -> int:
        return self.wall

    def random(self) -> float:
        return self.chance

    def advance(self, seconds: float) -> None:
        """Let time pass on both clocks."""
        self.now += seconds
        self.wall += int(seconds * 1_000_000)


class AgeClock:
    """Microseconds on a clock that no change of the wall clock moves while the broker runs."""

    def __init__(
        self,
        clock: Clock,
        stored_age_us: int,
        stored_wall_us: int,
        *,
        max_step_us: int = MAX_CLOCK_STEP_US,
        at_least_us: int = 0,
    ) -> None:
        """``max_step_us``: the largest step of the wall clock that is believed.

        ``at_least_us``: the youngest stamp that was given out.
        """
        step = clock.wall_us() - stored_wall_us
        self.rejected_step_us = 0 if stored_wall_us == 0 or 0 <= step <= max_step_us else step
        """The wall clock's step since the last run, when it was not believed; else 0."""
        believed = step if stored_wall_us and not self.rejected_step_us else 0
        self._clock = clock
        self._base_us = max(stored_age_us + believed, at_least_us)
        self._from = clock.monotonic()

    def now_us(self) -> int:
        return self._base_us + int((self._clock.monotonic() - self._from) * 1_000_000)
