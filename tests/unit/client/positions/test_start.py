"""Start of a consumer: every row of the table."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from forebay.client.errors import PositionUnusable
from forebay.client.positions.position import SavedPosition
from forebay.client.positions.start import (
    Bounds,
    OnMisfit,
    Opening,
    SavedState,
    Start,
    from_saved,
    openings,
    start_of,
    start_point,
    state_of,
    wanted_offset,
)
from forebay.client.values.subscriptions import Position

BOUNDS = Bounds(partition=0, incarnation="now", earliest=10, end=20)
NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)


def saved(offset: int, incarnation: str = "now") -> SavedPosition:
    return SavedPosition(incarnation, offset, 1, "owner", NOON)


POINTS: dict[str, tuple[Position | None, int | datetime]] = {
    "none": (None, 10),
    "earliest": ("earliest", 10),
    "latest": ("latest", 20),
    "offset": (12, 12),
    "offsets": ({0: 13}, 13),
    "offsets of others": ({1: 13}, 10),
    "time": (NOON, NOON),
}
"""Start point, and the start that it means."""

SAVED: dict[SavedState, SavedPosition | None] = {
    SavedState.ABSENT: None,
    SavedState.PRESENT: saved(15),
    SavedState.TRIMMED: saved(4),
    SavedState.AHEAD: saved(21),
    SavedState.FOREIGN: saved(15, "former"),
}
MISFITS = (SavedState.TRIMMED, SavedState.AHEAD, SavedState.FOREIGN)


@pytest.mark.parametrize("state", SAVED)
@pytest.mark.parametrize("point", POINTS)
def test_without_checkpointing_the_start_point_decides(point: str, state: SavedState) -> None:
    given, expected = POINTS[point]

    found = start_of(given, SAVED[state], BOUNDS, checkpointing=False, on_misfit=OnMisfit.ERROR)

    assert found == Start(expected, state)


@pytest.mark.parametrize("point", POINTS)
def test_the_start_point_decides_if_no_position_is_saved(point: str) -> None:
    given, expected = POINTS[point]

    found = start_of(given, None, BOUNDS, checkpointing=True, on_misfit=OnMisfit.ERROR)

    assert found == Start(expected, SavedState.ABSENT)


@pytest.mark.parametrize("policy", OnMisfit)
@pytest.mark.parametrize("point", POINTS)
def test_a_saved_position_that_fits_wins_over_the_start_point(point: str, policy: OnMisfit) -> None:
    found = start_of(POINTS[point][0], saved(15), BOUNDS, checkpointing=True, on_misfit=policy)

    assert found == Start(15, SavedState.PRESENT)


@pytest.mark.parametrize("state", MISFITS)
@pytest.mark.parametrize("point", POINTS)
def test_a_saved_position_that_does_not_fit_is_an_error_by_default(point: str, state: SavedState) -> None:
    with pytest.raises(PositionUnusable) as refused:
        start_of(POINTS[point][0], SAVED[state], BOUNDS, checkpointing=True, on_misfit=OnMisfit.ERROR)

    assert refused.value.facts["state"] == state.value
    assert "on_misfit" in str(refused.value)


@pytest.mark.parametrize("state", MISFITS)
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize(("policy", "offset"), [(OnMisfit.EARLIEST, 10), (OnMisfit.LATEST, 20)])
def test_a_policy_decides_where_a_position_that_does_not_fit_continues(
    point: str, state: SavedState, policy: OnMisfit, offset: int
) -> None:
    found = start_of(POINTS[point][0], SAVED[state], BOUNDS, checkpointing=True, on_misfit=policy)

    assert (found.at, found.state) == (offset, state)
    assert found.skipped == ((4, offset - 1) if state is SavedState.TRIMMED else None)


@pytest.mark.parametrize(
    ("position", "state"),
    [
        (saved(9), SavedState.TRIMMED),
        (saved(10), SavedState.PRESENT),
        (saved(20), SavedState.PRESENT),
        (saved(21), SavedState.AHEAD),
    ],
)
def test_the_ends_of_a_partition_belong_to_it(position: SavedPosition, state: SavedState) -> None:
    assert state_of(position, BOUNDS) is state


def test_the_error_of_a_trimmed_position_names_both_numbers() -> None:
    with pytest.raises(PositionUnusable, match=r"position 4 of partition 0 was trimmed: the earliest .* is 10"):
        start_of(None, saved(4), BOUNDS, checkpointing=True, on_misfit=OnMisfit.ERROR)


def test_the_error_of_a_position_ahead_names_both_numbers() -> None:
    with pytest.raises(PositionUnusable, match=r"position 21 of partition 0 is ahead of the end of the partition, 20"):
        start_of(None, saved(21), BOUNDS, checkpointing=True, on_misfit=OnMisfit.ERROR)


def test_the_fallback_of_a_saved_start_is_used_where_nothing_is_saved() -> None:
    found = start_of(from_saved(fallback="latest"), None, BOUNDS, checkpointing=True, on_misfit=OnMisfit.ERROR)

    assert found.at == 20


MISSED: dict[str, Position] = {"trimmed": 4, "trimmed, by partition": {0: 4}, "ahead": 21}


@pytest.mark.parametrize("point", MISSED)
@pytest.mark.parametrize("checkpointing", [True, False])
def test_a_start_offset_that_does_not_fit_is_an_error_that_names_both_numbers(point: str, checkpointing: bool) -> None:
    with pytest.raises(PositionUnusable) as refused:
        start_of(MISSED[point], None, BOUNDS, checkpointing=checkpointing, on_misfit=OnMisfit.ERROR)

    offset = "21" if point == "ahead" else "4"
    assert (refused.value.facts["start_offset"], refused.value.facts["earliest_offset"]) == (offset, "10")
    assert refused.value.facts["end_offset"] == "20"


@pytest.mark.parametrize("point", MISSED)
@pytest.mark.parametrize(("policy", "offset"), [(OnMisfit.EARLIEST, 10), (OnMisfit.LATEST, 20)])
def test_a_policy_decides_for_a_start_offset_that_does_not_fit(point: str, policy: OnMisfit, offset: int) -> None:
    found = start_of(MISSED[point], None, BOUNDS, checkpointing=True, on_misfit=policy)

    assert found.at == offset
    assert found.skipped == (None if point == "ahead" else (4, offset - 1))


@pytest.mark.parametrize("policy", OnMisfit)
@pytest.mark.parametrize("offset", [10, 20])
def test_the_ends_of_a_partition_are_start_offsets_that_fit(policy: OnMisfit, offset: int) -> None:
    assert start_of(offset, None, BOUNDS, checkpointing=True, on_misfit=policy).at == offset


def test_a_saved_position_wins_over_a_start_offset_that_does_not_fit() -> None:
    assert start_of(4, saved(15), BOUNDS, checkpointing=True, on_misfit=OnMisfit.ERROR).at == 15


@pytest.mark.parametrize(
    ("point", "position", "checkpointing", "offset"),
    [
        (12, None, True, 12),
        (12, saved(15), True, 15),
        (12, saved(15), False, 12),
        (12, saved(15, "former"), True, None),
        (NOON, None, True, None),
    ],
)
def test_the_offset_that_is_named_is_the_saved_one_or_that_of_the_start_point(
    point: Position, position: SavedPosition | None, checkpointing: bool, offset: int | None
) -> None:
    assert wanted_offset(point, position, BOUNDS, checkpointing=checkpointing) == offset


@pytest.mark.parametrize("point", POINTS)
def test_a_partition_that_was_added_begins_at_its_earliest_record_whatever_the_start_point(point: str) -> None:
    start = start_point(POINTS[point][0], is_added=True)

    assert start_of(start, None, BOUNDS, checkpointing=True, on_misfit=OnMisfit.ERROR).at == 10


@pytest.mark.parametrize(
    ("point", "is_added", "expected"),
    [
        (None, False, 13),
        ("earliest", False, 13),
        ("latest", False, "latest"),
        (12, False, 12),
        ("latest", True, 13),
        (12, True, 13),
    ],
)
def test_the_earliest_record_of_a_subscription_is_its_lowest_unsettled_one(
    point: Position | None, is_added: bool, expected: Position
) -> None:
    assert start_point(point, is_added=is_added, unsettled=13) == expected


def test_a_first_start_opens_the_highest_partition_first_and_none_was_added() -> None:
    assert openings([0, 1, 2], []) == [Opening(2, False), Opening(1, False), Opening(0, False)]


def test_partitions_above_the_known_ones_were_added_and_open_in_ascending_order() -> None:
    assert openings([4, 3, 0, 1], [0, 1, 2]) == [
        Opening(0, False),
        Opening(1, False),
        Opening(3, True),
        Opening(4, True),
    ]


@pytest.mark.parametrize("failed_at", range(7))
def test_an_opening_that_fails_anywhere_is_distinguished_from_an_addition_by_the_next_one(failed_at: int) -> None:
    saved: set[int] = set()
    found: dict[int, bool] = {}
    for count, opened in ((4, failed_at), (7, 1), (7, 7)):
        for one in [one for one in openings(range(count), saved) if one.partition not in saved][:opened]:
            saved.add(one.partition)
            found[one.partition] = one.is_added

    first_start = range(4 if failed_at else 7)  # one that opened nothing left no trace
    assert found == {partition: partition not in first_start for partition in range(7)}
