from __future__ import annotations

import pytest

from forebay.broker.core.partition.age import elapsed_us
from forebay.broker.core.writes import PutAge

HOUR_US = 3_600_000_000
WALL_US = 1_700_000_000_000_000
STORED = PutAge(0, WALL_US, b"one", 50 * HOUR_US)


def elapsed(stored: PutAge, now: PutAge) -> tuple[int, int]:
    return elapsed_us(stored, now, max_step_us=24 * HOUR_US)


@pytest.mark.parametrize("wall_us", [WALL_US, WALL_US + HOUR_US, WALL_US - HOUR_US, 0, 10 * WALL_US])
def test_on_the_same_boot_the_wall_clock_says_nothing(wall_us: int) -> None:
    assert elapsed(STORED, PutAge(0, wall_us, b"one", 52 * HOUR_US)) == (2 * HOUR_US, 0)


@pytest.mark.parametrize(
    "now",
    [
        PutAge(0, WALL_US + HOUR_US, b"two", 900 * HOUR_US),
        PutAge(0, WALL_US + HOUR_US, b"", 52 * HOUR_US),
        PutAge(0, WALL_US + HOUR_US, b"one", 49 * HOUR_US),
    ],
    ids=["another boot, of a machine that is up for long", "a boot without a name", "a boot clock that went back"],
)
def test_on_any_other_boot_the_wall_clock_is_believed(now: PutAge) -> None:
    assert elapsed(STORED, now) == (HOUR_US, 0)


def test_two_boots_without_a_name_are_not_the_same() -> None:
    assert elapsed(PutAge(0, WALL_US, b"", 1), PutAge(0, WALL_US + HOUR_US, b"", 2)) == (HOUR_US, 0)


@pytest.mark.parametrize("step_us", [-1, 24 * HOUR_US + 1])
def test_over_a_reboot_the_wall_clock_is_believed_within_its_bound_only(step_us: int) -> None:
    assert elapsed(STORED, PutAge(0, WALL_US + step_us, b"two", 7)) == (0, step_us)


def test_a_new_store_has_no_past() -> None:
    assert elapsed(PutAge(), PutAge(0, WALL_US, b"one", 7)) == (0, 0)
