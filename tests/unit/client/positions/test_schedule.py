"""Times at which positions are saved."""

from __future__ import annotations

import pytest

from forebay.client import InvalidArgument
from forebay.client.positions.schedule import Due, SaveSchedule

SCHEDULE = SaveSchedule(frequency_s=5, count_threshold=10, time_threshold_s=30)


def test_nothing_is_due_before_the_position_moved() -> None:
    assert Due(saved_at=0.0, saved=7).at(SCHEDULE, 7) is None


def test_enough_records_are_due_after_the_frequency() -> None:
    due = Due(saved_at=100.0, saved=0)
    due.moved(101.0)

    assert due.at(SCHEDULE, 10) == 105.0


def test_fewer_records_are_due_when_the_first_of_them_is_old_enough() -> None:
    due = Due(saved_at=100.0, saved=0)
    due.moved(101.0)
    due.moved(120.0)

    assert due.at(SCHEDULE, 9) == 131.0


def test_after_a_save_nothing_is_due_until_the_position_moves_again() -> None:
    due = Due(saved_at=100.0, saved=0)
    due.moved(101.0)

    due.save(10, 10, 105.0)

    assert due.at(SCHEDULE, 10) is None
    due.moved(106.0)
    assert due.at(SCHEDULE, 25) == 110.0


def test_progress_during_a_save_is_due_later() -> None:
    due = Due(saved_at=100.0, saved=0)
    due.moved(101.0)

    due.save(10, 12, 105.0)

    assert due.at(SCHEDULE, 12) == 135.0


@pytest.mark.parametrize(
    ("setting", "value"),
    [("frequency_s", -1), ("count_threshold", 0), ("time_threshold_s", 86_401)],
)
def test_a_value_out_of_bounds_is_refused_with_its_name_and_its_bounds(setting: str, value: float) -> None:
    with pytest.raises(InvalidArgument, match=setting) as refused:
        SaveSchedule(**{setting: value})  # type: ignore[arg-type]  # one of its fields

    assert refused.value.facts["value"] == str(value)
    assert " to " in refused.value.facts["allowed"]
