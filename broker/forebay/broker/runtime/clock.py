"""Time, for everything that runs: a monotonic clock, the wall clock, and an age clock of our own.

The age clock goes on over restarts: by the machine's boot clock, or after a reboot by the wall clock's difference, only
where that is believable. A device without a battery boots in 1970, and nothing may expire because of it.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import Final, Protocol

from forebay.broker.core.partition.age import elapsed_us
from forebay.broker.core.writes import PutAge

_BOOT_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Linux has one that goes on while the machine sleeps."""
MAX_CLOCK_STEP_US: Final = 7 * 24 * 3_600 * 1_000_000


class Clock(Protocol):
    """What the broker knows of time and chance."""

    def monotonic(self) -> float:
        """Seconds; never goes back."""
        ...

    def wall_us(self) -> int:
        """Microseconds since 1970-01-01 UTC, as the machine believes."""
        ...

    @property
    def boot(self) -> bytes:
        """Name of this running of the machine; empty where that is not known."""
        ...

    def boot_us(self) -> int:
        """Microseconds since the machine started, the time that it slept included; never goes back."""
        ...

    def random(self) -> float:
        """A number in [0, 1)."""
        ...


class SystemClock:
    """The machine's own."""

    def __init__(self, boot: bytes = b"") -> None:
        self.boot = boot

    def monotonic(self) -> float:
        return time.monotonic()

    def wall_us(self) -> int:
        return time.time_ns() // 1_000

    def boot_us(self) -> int:
        return time.clock_gettime_ns(_BOOT_CLOCK) // 1_000

    def random(self) -> float:
        return random.random()


@dataclass(slots=True)
class FakeClock:
    """A clock that a test moves."""

    now: float = 1_000.0
    wall: int = 1_700_000_000_000_000
    chance: float = 0.5
    boot: bytes = b"a boot"

    def monotonic(self) -> float:
        return self.now

    def wall_us(self) -> int:
        return self.wall

    def boot_us(self) -> int:
        return int(self.now * 1_000_000)

    def random(self) -> float:
        return self.chance

    def advance(self, seconds: float) -> None:
        """Let time pass on both clocks."""
        self.now += seconds
        self.wall += int(seconds * 1_000_000)

    def reboot(self) -> None:
        """The machine starts again: only the wall clock goes on."""
        self.boot += b"!"
        self.now = 5.0


class AgeClock:
    """Microseconds on a clock that no change of the wall clock moves while the broker runs."""

    def __init__(
        self,
        clock: Clock,
        stored: PutAge,
        *,
        max_step_us: int = MAX_CLOCK_STEP_US,
        at_least_us: int = 0,
    ) -> None:
        """``max_step_us``: the largest step of the wall clock that is believed.

        ``at_least_us``: the youngest stamp that was given out.
        """
        self._clock = clock
        self._from_us = clock.boot_us()
        now = PutAge(0, clock.wall_us(), clock.boot, self._from_us)
        passed_us, self.rejected_step_us = elapsed_us(stored, now, max_step_us=max_step_us)
        """The wall clock's step since the last run, when it was not believed; else 0."""
        self._base_us = max(stored.age_us + passed_us, at_least_us)

    def now_us(self) -> int:
        return self._base_us + self._clock.boot_us() - self._from_us

    def reading(self) -> PutAge:
        """Return the age, and the machine's clocks at this moment, to be stored."""
        return PutAge(self.now_us(), self._clock.wall_us(), self._clock.boot, self._clock.boot_us())
