from __future__ import annotations

from forebay.broker.core.backups.values import Restored
from forebay.broker.storage.backup.restored import (
    OFFSETS_SKIPPED,
    ORIGIN_US,
    STARTS_BY_TIME_MAX,
    STARTS_SKIPPED,
    resumed_offset,
    starts_skipped,
)

AT_US = 1_800_000_000_000_000
SECOND_US = 1_000_000


def after(elapsed_us: int) -> Restored:
    return Restored("", "", AT_US, AT_US + elapsed_us)


def test_a_second_restore_of_a_backup_continues_behind_all_that_the_first_may_have_assigned() -> None:
    first = resumed_offset(100, AT_US)
    second = resumed_offset(100, AT_US + SECOND_US)

    assert first > 100
    assert second - first > 2_000_000


def test_the_restore_of_a_backup_of_a_restored_broker_continues_behind_it() -> None:
    end = resumed_offset(100, AT_US) + 1_000

    assert resumed_offset(end, AT_US + SECOND_US) > end


def test_with_a_clock_that_is_behind_offsets_are_left_out_all_the_same() -> None:
    assert resumed_offset(100, 0) == 100 + OFFSETS_SKIPPED
    assert resumed_offset(100, ORIGIN_US) == 100 + OFFSETS_SKIPPED


def test_offsets_stay_below_those_that_a_double_shows_exactly() -> None:
    year_us = 365 * 86_400 * SECOND_US

    assert resumed_offset(0, ORIGIN_US + 70 * year_us) < 1 << 53


def test_starts_are_left_out_and_more_with_each_minute() -> None:
    assert starts_skipped(after(0)) == STARTS_SKIPPED
    assert starts_skipped(after(-SECOND_US)) == STARTS_SKIPPED
    assert starts_skipped(after(120 * SECOND_US)) == STARTS_SKIPPED + 2
    assert starts_skipped(after(AT_US)) == STARTS_SKIPPED + STARTS_BY_TIME_MAX
