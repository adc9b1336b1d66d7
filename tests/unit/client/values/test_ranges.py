"""Ranges with both ends included, compared with sets of offsets."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from forebay.client.values.ranges import Range, appended, count, intersect, merge, subtract, without

RANGE = st.tuples(st.integers(0, 30), st.integers(0, 6)).map(lambda pair: (pair[0], pair[0] + pair[1]))
RANGES = st.lists(RANGE, max_size=6)


def offsets(ranges: list[Range]) -> set[int]:
    return {offset for first, last in ranges for offset in range(first, last + 1)}


@given(RANGES)
def test_merged_ranges_are_sorted_apart_and_the_same_offsets(ranges: list[Range]) -> None:
    merged = merge(ranges)

    assert offsets(merged) == offsets(ranges)
    assert all(one[1] + 1 < later[0] for one, later in pairwise(merged))
    assert count(merged) == len(offsets(ranges))


@given(RANGES, RANGE)
def test_cutting_a_range_in_and_out_gives_the_two_parts(ranges: list[Range], cut: Range) -> None:
    merged = merge(ranges)
    inside, outside = intersect(merged, *cut), subtract(merged, *cut)

    assert offsets(inside) == offsets(merged) & offsets([cut])
    assert offsets(outside) == offsets(merged) - offsets([cut])


@given(RANGES, RANGES)
def test_without_agrees_with_the_difference_of_sets_of_offsets(ranges: list[Range], gone: list[Range]) -> None:
    merged = merge(ranges)
    left = without(merged, merge(gone))

    assert offsets(left) == offsets(merged) - offsets(gone)
    assert left == merge(left)


@given(RANGES, RANGES)
def test_ranges_are_appended_wherever_they_lie(ranges: list[Range], more: list[Range]) -> None:
    assert appended(merge(ranges), merge(more)) == merge([*ranges, *more])
