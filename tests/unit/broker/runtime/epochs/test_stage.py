from __future__ import annotations

import pytest

from forebay.broker.core.epochs.values import StagedPage, StagedSummary, StageRecord, TokenPart
from forebay.broker.runtime.epochs.stage import Stage

RECORD = StageRecord(7, "query", "orders", 0, "a", "run-1", 1)


def page(number: int, count: int = 1) -> StagedPage:
    return StagedPage(number, False, 1, count, 10 * count, 9)


def stage_of(**pages: int) -> Stage:
    """A stage with durable pages of one record each: ``p0=2`` are two in partition 0."""
    stored = {(int(name[1:]), n): page(n) for name, count in pages.items() for n in range(count)}
    return Stage.stored(RECORD, stored, 0.0)


def test_a_start_counts_what_it_finds() -> None:
    stage = Stage.stored(RECORD, {(1, 1): page(4, 3), (1, 0): page(3, 2), (0, 0): page(5)}, 1.0)

    assert (stage.records, stage.size, stage.written) == (6, 60, True)
    assert stage.admitted == stage.durable == {0: 1, 1: 2}
    assert [each.number for each in stage.pages[1]] == [3, 4]
    assert stage.counts == {0: 1, 1: 5}


def test_nothing_after_a_page_that_is_missing_is_there() -> None:
    stage = Stage.stored(RECORD, {(0, 0): page(1), (0, 2): page(3), (1, 1): page(4)}, 1.0)

    assert stage.admitted == {0: 1}
    assert stage.records == 1


def test_nothing_is_lacking_when_all_is_named_as_it_is_staged() -> None:
    assert stage_of(p0=2, p3=1).lacks([TokenPart(3, 1, 1), TokenPart(0, 2, 2)]) == ""
    assert stage_of().lacks([]) == ""
    assert stage_of().lacks([TokenPart(0, 0, 0)]) == ""


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ([], "partition 0 has 2 pages with 2 records staged, named are 0 with 0"),
        ([TokenPart(0, 1, 1)], "named are 1 with 1"),
        ([TokenPart(0, 2, 3)], "named are 2 with 3"),
        ([TokenPart(0, 2, 2), TokenPart(1, 1, 1)], "partition 1 has 0 pages"),
        ([TokenPart(0, 2, 2), TokenPart(0, 2, 2)], "named twice"),
    ],
)
def test_each_difference_between_the_named_and_the_staged_parts_is_reported(
    parts: list[TokenPart], problem: str
) -> None:
    assert problem in stage_of(p0=2).lacks(parts)


def test_a_page_that_is_not_durable_is_lacking() -> None:
    stage = stage_of(p0=1)
    stage.admit(0, 1, 10)

    assert stage.lacks([TokenPart(0, 2, 2)]) == "1 page of partition 0 is not durable yet"


def test_a_summary_is_held_to_what_is_staged_in_each_partition() -> None:
    stage = stage_of(p0=2, p3=1)
    right = StagedSummary.of([TokenPart(3, 1, 1), TokenPart(0, 2, 2)])

    assert stage.lacks(right) == ""
    assert stage_of().lacks(StagedSummary.of([])) == ""
    wrong = stage.lacks(StagedSummary.of([TokenPart(1, 1, 1), TokenPart(0, 2, 2)]))
    assert wrong.startswith("3 pages with 3 records are staged")
    assert right.digest.hex() in wrong
    stage.admit(0, 1, 10)
    assert stage.lacks(StagedSummary.of([TokenPart(3, 1, 1), TokenPart(0, 3, 3)])) == "1 page is not durable yet"
