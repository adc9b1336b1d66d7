"""A batch read covers what was asked for, or says why it cannot."""

from __future__ import annotations

import pytest

from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.read import ReadOptions, read_options
from forebay.spark.read.ranges import PIECES_MAX, Missing, Span, StoredRange, cut, plan_batch, plan_spans, plan_start

HELD = [StoredRange(0, 10, 30), StoredRange(1, 0, 0), StoredRange(2, 5, 8)]


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
    with pytest.raises(ForebaySparkError, match="earliest record is at 10") as error:
        plan(startingOffsets='{"0": 3}')

    assert "failOnDataLoss" in error.value.remedy
    assert plan(startingOffsets='{"0": 3}', failOnDataLoss="false")[0] == Span(0, 10, 30)


def test_a_range_that_is_gone_as_a_whole_is_empty_when_loss_is_accepted() -> None:
    assert plan(startingOffsets='{"0": 3}', endingOffsets='{"0": 7}', failOnDataLoss="false") == [Span(2, 5, 8)]


@pytest.mark.parametrize("name", ["startingOffsets", "endingOffsets"])
def test_an_offset_beyond_the_end_is_refused(name: str) -> None:
    with pytest.raises(ForebaySparkError, match=f"{name} asks for offset 31"):
        plan(**{name: '{"0": 31}'})


def test_a_range_upside_down_is_refused() -> None:
    with pytest.raises(ForebaySparkError, match="ends at offset 15 before it begins at 20"):
        plan(startingOffsets='{"0": 20}', endingOffsets='{"0": 15}')


def test_a_partition_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ForebaySparkError, match="no partition 3; it has 3"):
        plan(startingOffsets='{"3": 0}')


def test_missing_records_are_left_to_the_tasks_if_gaps_are_rows() -> None:
    spans = plan(startingOffsets='{"0": 3}', failOnDataLoss="false", metadata="_gap")

    assert spans[0] == Span(0, 3, 30)


# -- streams


def stream(**options: str) -> ReadOptions:
    return read_options({"sink": "orders", **options}, {}, is_stream=True)


def test_a_stream_begins_at_the_earliest_in_each_partition() -> None:
    assert plan_start(stream(), HELD) == {0: 10, 1: 0, 2: 5}


def test_a_stream_does_not_begin_below_what_is_held_unless_that_loss_is_accepted() -> None:
    with pytest.raises(ForebaySparkError, match="earliest record is at 10"):
        plan_start(stream(startingOffsets='{"0": 3}'), HELD)

    assert plan_start(stream(startingOffsets='{"0": 3}', failOnDataLoss="false"), HELD)[0] == 10


def test_a_micro_batch_covers_what_lies_between_and_new_partitions_from_0() -> None:
    spans = plan_batch(stream(max_records_per_split="4"), {0: 10, 1: 7}, {0: 16, 1: 7, 2: 3})

    assert spans == [Span(0, 10, 14), Span(0, 14, 16), Span(2, 0, 3)]


def test_a_micro_batch_upside_down_is_refused() -> None:
    with pytest.raises(ForebaySparkError, match="ends at offset 5 of partition 0"):
        plan_batch(stream(), {0: 10}, {0: 5})


def test_adjacent_gaps_are_joined_only_for_one_reason() -> None:
    gone = Missing(0, 3, 5, "OVERFLOW")

    assert gone.adjoins(Missing(0, 6, 6, "OVERFLOW"))
    assert not gone.adjoins(Missing(0, 7, 7, "OVERFLOW"))
    assert not gone.adjoins(Missing(0, 6, 6, "EXPIRED"))


def test_a_very_long_span_is_cut_into_a_bounded_number_of_splits() -> None:
    pieces = cut(Span(0, 0, 1 << 40), 1)

    assert len(pieces) <= PIECES_MAX
    assert (pieces[0].start, pieces[-1].end) == (0, 1 << 40)
