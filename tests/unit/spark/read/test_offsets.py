"""A place has one spelling, and a first batch keeps its rows."""

from __future__ import annotations

import json

import pytest

from forebay.spark.errors import ForebaySparkError
from forebay.spark.read.offsets import StreamOffset, parsed, start_of_batch


def test_a_place_round_trips_through_its_json() -> None:
    for place in (
        StreamOffset("abc", {0: 5, 10: 7, 2: 0}),
        StreamOffset("abc", {0: 5}, initial=True),
        StreamOffset("abc", {0: 5}, began={0: 1}),
    ):
        assert parsed(json.loads(json.dumps(place.json()))) == place


def test_the_same_place_has_one_spelling_however_it_was_made() -> None:
    one, other = StreamOffset("abc", {10: 7, 2: 0}), StreamOffset("abc", {2: 0, 10: 7})

    assert json.dumps(one.json()) == json.dumps(other.json())
    assert json.dumps(parsed(one.json()).json()) == json.dumps(one.json())


def test_a_partition_that_was_added_later_begins_at_0() -> None:
    assert StreamOffset("abc", {0: 5}).at(1) == 0


def test_a_first_batch_that_is_run_again_begins_where_it_began() -> None:
    moved = StreamOffset("abc", {0: 9}, initial=True)

    assert start_of_batch(moved, StreamOffset("abc", {0: 7}, began={0: 5})) == {0: 5}
    assert start_of_batch(moved, StreamOffset("abc", {0: 5}, initial=True)) == {0: 5}


def test_a_later_batch_begins_where_spark_says() -> None:
    start = StreamOffset("abc", {0: 7}, began={0: 5})

    assert start_of_batch(start, StreamOffset("abc", {0: 9})) == {0: 7}


@pytest.mark.parametrize(
    "found",
    [
        {},
        {"incarnation": "abc"},
        {"incarnation": 1, "partitions": {}},
        {"incarnation": "abc", "partitions": {"0": -1}},
        {"incarnation": "abc", "partitions": {"x": 1}},
        {"incarnation": "abc", "partitions": {"0": True}},
        {"orders": {"0": 12}},
    ],
)
def test_an_offset_written_by_another_source_is_refused(found: dict[str, object]) -> None:
    with pytest.raises(ForebaySparkError, match="checkpoint"):
        parsed(found)


def test_a_batch_that_skips_to_a_later_saved_position_says_so_in_its_end_and_never_goes_back() -> None:
    start, end = StreamOffset("i", {0: 3, 1: 4}), StreamOffset("i", {0: 9, 1: 6}, began={0: 7, 1: 4, 2: 1})
    again = parsed(end.json())

    assert start_of_batch(start, again) == {0: 7, 1: 4, 2: 1}
    assert start_of_batch(again, again) == {0: 9, 1: 6, 2: 1}
