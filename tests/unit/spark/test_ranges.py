"""A batch read covers what was asked for, or says why it cannot."""

from __future__ import annotations

import pytest

from holdfast.spark.errors import HoldfastSparkError
from holdfast.spark.ranges import Held, Span, plan_spans
from holdfast.spark.read_options import read_options

HELD = [Held(0, 10, 30), Held(1, 0, 0), Held(2, 5, 8)]


def plan(**options: str) -> list[Span]:
    return plan_spans(read_options({"sink": "orders", **options}, {}), HELD)


def test_by_default_everything_that_is_held_is_read_and_empty_partitions_cost_nothing() -> None:
    assert plan() == [Span(0, 10, 30), Span(2, 5, 8)]


def test_a_partition_is_cut_into_splits() -> None:
    assert plan(max_records_per_split="8") == [Span(0, 10, 18), Span(0, 18, 26), Span(0, 26, 30), Span(2, 5, 8)]


def test_offsets_bound_the_partitions_that_are_named() -> None:
    spans = plan(startingOffsets='{"0": 12}', endingOffsets='{"0": 20, "2": "earliest"}')

    assert spans == [Span(0, 12, 20)]


def test_starting_at_the_latest_reads_nothing() -> None:
    assert plan(startingOffsets="latest") == []


def test_an_offset_that_is_gone_is_data_loss_unless_that_is_accepted() -> None:
    with pytest.raises(HoldfastSparkError, match="earliest record is at 10") as error:
        plan(startingOffsets='{"0": 3}')

    assert "failOnDataLoss" in error.value.remedy
    assert plan(startingOffsets='{"0": 3}', failOnDataLoss="false")[0] == Span(0, 10, 30)


def test_a_range_that_is_gone_as_a_whole_is_empty_when_loss_is_accepted() -> None:
    assert plan(startingOffsets='{"0": 3}', endingOffsets='{"0": 7}', failOnDataLoss="false") == [Span(2, 5, 8)]


@pytest.mark.parametrize("name", ["startingOffsets", "endingOffsets"])
def test_an_offset_beyond_the_end_is_refused(name: str) -> None:
    with pytest.raises(HoldfastSparkError, match=f"{name} asks for offset 31"):
        plan(**{name: '{"0": 31}'})


def test_a_range_upside_down_is_refused() -> None:
    with pytest.raises(HoldfastSparkError, match="ends at offset 15 before it begins at 20"):
        plan(startingOffsets='{"0": 20}', endingOffsets='{"0": 15}')


def test_a_partition_that_does_not_exist_is_refused() -> None:
    with pytest.raises(HoldfastSparkError, match="no partition 3; it has 3"):
        plan(startingOffsets='{"3": 0}')
