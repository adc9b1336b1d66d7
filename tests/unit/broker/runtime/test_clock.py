from __future__ import annotations

import pytest

from forebay.broker.core.writes import PutAge
from forebay.broker.runtime.clock import MAX_CLOCK_STEP_US, AgeClock, FakeClock, PastClock, SystemClock

HOUR_US = 3_600_000_000


def test_age_follows_the_monotonic_clock_while_the_broker_runs() -> None:
    clock = FakeClock()
    age = AgeClock(clock, PutAge(500, clock.wall))

    clock.advance(2.0)
    clock.wall += HOUR_US

    assert age.now_us() == 500 + 2_000_000


@pytest.mark.parametrize("step_us", [0, HOUR_US, MAX_CLOCK_STEP_US])
def test_age_continues_by_the_time_that_the_broker_was_down(step_us: int) -> None:
    clock = FakeClock()

    age = AgeClock(clock, PutAge(500, clock.wall - step_us))

    assert (age.now_us(), age.rejected_step_us) == (500 + step_us, 0)


@pytest.mark.parametrize("step_us", [-1, -50 * 365 * 24 * HOUR_US, MAX_CLOCK_STEP_US + 1])
def test_a_step_that_cannot_be_believed_ages_nothing_and_is_reported(step_us: int) -> None:
    clock = FakeClock()

    age = AgeClock(clock, PutAge(500, clock.wall - step_us))

    assert (age.now_us(), age.rejected_step_us) == (500, step_us)


def test_a_new_store_begins_at_zero() -> None:
    age = AgeClock(FakeClock(), PutAge())

    assert (age.now_us(), age.rejected_step_us) == (0, 0)


def test_the_machines_clock_moves_on_and_its_chance_is_a_fraction() -> None:
    clock = SystemClock()

    assert clock.monotonic() <= clock.monotonic()
    assert 0 < clock.boot_us() <= clock.boot_us()
    assert (clock.boot, SystemClock(b"this").boot) == (b"", b"this")
    assert clock.wall_us() > 1_700_000_000_000_000
    assert 0 <= clock.random() < 1


def test_in_the_past_time_passes_and_no_age_grows() -> None:
    clock = PastClock(HOUR_US)
    age = AgeClock(clock, PutAge(500, HOUR_US - 100, b"a boot", clock.boot_us() + 1))
    before_us, before = age.now_us(), clock.monotonic()

    while clock.monotonic() < before + 0.002:
        pass

    assert HOUR_US + 2_000 <= clock.wall_us() < HOUR_US + 3_600_000_000
    assert before_us == age.now_us()
    assert 600 <= before_us < 600 + 60_000_000
