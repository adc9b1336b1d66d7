from __future__ import annotations

import pytest

from forebay.broker.core.backups.values import Restored
from forebay.broker.core.writes import NUMBER_BITS
from forebay.broker.storage.backup.restores.restored import (
    OFFSETS_SKIPPED,
    ORIGIN_US,
    RANDOM_BITS,
    STARTS_MAX,
    STARTS_SKIPPED,
    resumed_offset,
    starts_skipped,
)

AT_US = 1_800_000_000_000_000
SECOND_US = 1_000_000


def after(elapsed_us: int, number: int = 0) -> Restored:
    """A restore of a backup of that age, into a store with that identity."""
    return Restored(f"{number:032x}", "", AT_US, AT_US + elapsed_us)


def test_a_second_restore_of_a_backup_continues_after_all_that_the_first_may_have_assigned() -> None:
    first = resumed_offset(100, AT_US)
    second = resumed_offset(100, AT_US + SECOND_US)

    assert first > 100
    assert second - first > 2_000_000


def test_the_restore_of_a_backup_of_a_restored_broker_continues_after_it() -> None:
    end = resumed_offset(100, AT_US) + 1_000

    assert resumed_offset(end, AT_US + SECOND_US) > end


def test_with_a_clock_that_is_behind_offsets_are_left_out_all_the_same() -> None:
    assert resumed_offset(100, 0) == 100 + OFFSETS_SKIPPED
    assert resumed_offset(100, ORIGIN_US) == 100 + OFFSETS_SKIPPED


def test_offsets_stay_below_those_that_a_double_shows_exactly() -> None:
    year_us = 365 * 86_400 * SECOND_US

    assert resumed_offset(0, ORIGIN_US + 70 * year_us) < 1 << 53


def test_more_starts_are_left_out_than_those_of_a_broker_that_started_every_minute() -> None:
    assert starts_skipped(after(0), 7) == starts_skipped(after(-SECOND_US), 7) == STARTS_SKIPPED
    for minutes in (1, 60, 1_440, 10_080, 43_200, 525_600, 1_048_576):
        assert starts_skipped(after(minutes * 60 * SECOND_US), 7) >= STARTS_SKIPPED + minutes


@pytest.mark.parametrize("elapsed_s", [0, 1, 3_600, 86_400, 365 * 86_400])
def test_restores_at_the_same_time_leave_out_different_starts(elapsed_s: int) -> None:
    found = {starts_skipped(after(elapsed_s * SECOND_US, number), 7) for number in range(1 << RANDOM_BITS)}

    assert len(found) == 1 << RANDOM_BITS


@pytest.mark.parametrize(("age_s", "apart_s"), [(0, 1), (3_600, 10), (86_400, 40), (7 * 86_400, 120)])
def test_a_later_restore_of_a_backup_leaves_out_more_starts_whatever_its_random_bits_are(
    age_s: int, apart_s: int
) -> None:
    earlier = starts_skipped(after(age_s * SECOND_US, number=(1 << RANDOM_BITS) - 1), 7)

    assert starts_skipped(after((age_s + apart_s) * SECOND_US, number=0), 7) > earlier


def test_the_starts_of_a_store_outlast_many_restores_of_old_backups() -> None:
    start = 1
    for _ in range(50):
        start += starts_skipped(after(AT_US, number=(1 << RANDOM_BITS) - 1), start) + 1

    assert start < STARTS_MAX
    assert start << NUMBER_BITS < 1 << 64
