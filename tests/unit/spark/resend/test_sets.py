"""A set has one spelling in the checkpoint, and is cut into tasks without losing a record."""

from __future__ import annotations

import json
from typing import Any

import pytest

from forebay.client import ResendRanges
from forebay.spark.errors import ForebaySparkError
from forebay.spark.read.ranges import Span
from forebay.spark.resend.sets import NEAR_RECORDS, SetOffset, parsed_set, spans, splits, within

PART = ResendRanges(1, 2, ((3, 9), (12, 12)), ((3, 1), (12, 4)), "i")


def test_a_place_is_read_from_the_checkpoint_and_names_its_set() -> None:
    begin = SetOffset("i", "spark-1")

    other = ResendRanges(10, 0, ((0, 0),), (), "i")

    place = begin.next([other, PART])

    back = parsed_set(json.loads(json.dumps(place.json())))
    assert (back.holder, back.number, back.incarnation) == ("spark-1:1", 1, "i")
    assert sorted(back.parts, key=lambda one: one.partition) == [PART, other]
    assert parsed_set(begin.json()) == begin
    assert json.dumps(back.json()) == json.dumps(place.json())


@pytest.mark.parametrize(
    "found",
    [
        {},
        {"incarnation": "i", "partitions": {"0": 5}},
        {"incarnation": "i", "query": "q", "number": "1", "partitions": {}},
        {"incarnation": "i", "query": "q", "number": 1, "partitions": []},
        {"incarnation": "i", "query": "q", "number": 1, "partitions": {"0": {"account": 0, "ranges": [[1]]}}},
        {"incarnation": "i", "query": "q", "number": 1, "partitions": {"0": 7}},
    ],
)
def test_an_offset_not_written_by_this_library_is_refused(found: dict[str, Any]) -> None:
    with pytest.raises(ForebaySparkError, match="none of mode resend"):
        parsed_set(found)


def test_a_partition_is_cut_into_tasks_and_each_knows_its_attempts() -> None:
    assert list(splits(PART, None)) == [PART]
    assert list(splits(PART, 100)) == [PART]
    assert list(splits(PART, 4)) == [
        ResendRanges(1, 2, ((3, 6),), ((3, 1),), "i"),
        ResendRanges(1, 2, ((7, 9), (12, 12)), ((12, 4),), "i"),
    ]
    assert sum(piece.records for piece in splits(PART, 1)) == PART.records == 8


def test_ranges_that_lie_near_each_other_are_read_in_one_go() -> None:
    far = 13 + NEAR_RECORDS

    found = spans(ResendRanges(1, 0, ((3, 9), (12, 12), (far, far))))

    assert found == [Span(1, 3, 13), Span(1, far, far + 1)]


def test_the_requested_ranges_within_a_page_are_returned() -> None:
    assert within(PART, 0, 20) == [(3, 9), (12, 12)]
    assert within(PART, 5, 12) == [(5, 9), (12, 12)]
    assert within(PART, 10, 11) == []
