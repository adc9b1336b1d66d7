"""Clocks of the broker: the monotonic clock, the wall clock, and the broker's own age clock.

The age clock continues over restarts: by the machine's boot clock, or after a reboot by the difference of the wall
clock, only where that is plausible. A device without a battery boots in 1970, and no page may expire because of it.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import Final, Protocol

from forebay.broker.core.partition.age import elapsed_us
from forebay.broker.core.writes import PutAge

_BOOT_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Clock that continues while the machine sleeps, where the system has one."""
MAX_CLOCK_STEP_US: Final = 7 * 24 * 3_600 * 1_000_000


class Clock(Protocol):
    """Source of time and randomness."""

    def monotonic(self) -> float:
        """Return seconds; never decreases."""
        ...

    def wall_us(self) -> int:
        """Return microseconds since 1970-01-01 UTC, as the machine shows it."""
        ...

    @property
    def boot(self) -> bytes:
        """Boot id of the machine; empty if unknown."""
        ...

    def boot_us(self) -> int:
        """Return microseconds since the machine booted, including sleep; never decreases."""
        ...

    def random(self) -> float:
        """Return a number in [0, 1)."""
        ...


class SystemClock:
    """Clock of the machine."""

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


class PastClock(SystemClock):
    """Clock that continues from a past time, in which no record becomes older, and none expires."""

    def __init__(self, wall_us: int) -> None:
        super().__init__()
        self._wall_us = wall_us
        self._from = self.monotonic()

    def wall_us(self) -> int:
        """Return the past time and what went by since then, in microseconds since 1970-01-01 UTC."""
        return self._wall_us + int((self.monotonic() - self._from) * 1_000_000)

    def boot_us(self) -> int:
        """Return always the same: ages are differences of it."""
        return 0


@dataclass(slots=True)
class FakeClock:
    """Clock that a test sets."""

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
        """Advance both clocks."""
        self.now += seconds
        self.wall += int(seconds * 1_000_000)

    def reboot(self) -> None:
        """Reboot the machine: only the wall clock continues."""
        self.boot += b"!"
        self.now = 5.0


class AgeClock:
    """Age clock in microseconds, unaffected by changes of the wall clock while the broker runs."""

    def __init__(
        self,
        clock: Clock,
        stored: PutAge,
        *,
        max_step_us: int = MAX_CLOCK_STEP_US,
        at_least_us: int = 0,
    ) -> None:
        """``max_step_us``: the largest step of the wall clock that is trusted.

        ``at_least_us``: the youngest stamp that was issued.
        """
        self._clock = clock
        self._from_us = clock.boot_us()
        now = PutAge(0, clock.wall_us(), clock.boot, self._from_us)
        passed_us, self.rejected_step_us = elapsed_us(stored, now, max_step_us=max_step_us)
        """Step of the wall clock since the last run if it was not trusted; else 0."""
        self._base_us = max(stored.age_us + passed_us, at_least_us)

    def now_us(self) -> int:
        return self._base_us + self._clock.boot_us() - self._from_us

    def reading(self) -> PutAge:
        """Return the age, and the machine's clocks at this moment, to be stored."""
        return PutAge(self.now_us(), self._clock.wall_us(), self._clock.boot, self._clock.boot_us())
