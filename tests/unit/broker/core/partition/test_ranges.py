from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from forebay.broker.core.partition import ranges
from forebay.broker.core.partition.ranges import Range, RangeSet

RANGES = st.tuples(st.integers(0, 30), st.integers(0, 30)).map(lambda pair: Range(min(pair), max(pair)))


def offsets(found: RangeSet) -> set[int]:
    return {offset for each in found for offset in range(*each)}


def test_ranges_that_touch_become_one() -> None:
    assert ranges.add((Range(0, 2), Range(4, 6)), Range(2, 4)) == (Range(0, 6),)


def test_ranges_that_are_apart_stay_apart() -> None:
    assert ranges.add((Range(0, 2),), Range(3, 4)) == (Range(0, 2), Range(3, 4))


def test_an_empty_range_adds_nothing() -> None:
    assert ranges.add((), Range(3, 3)) == ()


def test_missing_ranges_are_the_parts_that_no_given_range_covers() -> None:
    assert list(ranges.missing((Range(2, 4), Range(6, 8)), Range(3, 10))) == [Range(4, 6), Range(8, 10)]


@given(st.lists(RANGES))
def test_a_set_of_ranges_is_a_set_of_offsets(added: list[Range]) -> None:
    found: RangeSet = ()
    model: set[int] = set()

    for each in added:
        found = ranges.add(found, each)
        model |= set(range(*each))

        assert offsets(found) == model
        assert all(left.end < right.first for left, right in pairwise(found))
    assert ranges.count(found) == len(model)
    assert all(ranges.contains(found, offset) == (offset in model) for offset in range(32))


@given(st.lists(RANGES), RANGES)
def test_missing_offsets_and_held_ones_make_the_whole(added: list[Range], within: Range) -> None:
    found: RangeSet = ()
    for each in added:
        found = ranges.add(found, each)

    missing = list(ranges.missing(found, within))

    assert offsets(tuple(missing)) == set(range(*within)) - offsets(found)
    assert all(each.size > 0 for each in missing)


def test_a_set_without_an_empty_range_stays_as_it_is() -> None:
    assert ranges.without((Range(0, 6),), Range(3, 3)) == (Range(0, 6),)


@given(st.lists(RANGES), st.lists(RANGES), RANGES)
def test_common_without_and_union_agree_with_the_operations_on_sets_of_offsets(
    added: list[Range], others: list[Range], part: Range
) -> None:
    one = ranges.union((), tuple(added))
    other = ranges.union((), tuple(others))

    common, without, union = tuple(ranges.common(one, part)), ranges.without(one, part), ranges.union(one, other)

    assert offsets(common) == offsets(one) & set(range(*part))
    assert offsets(without) == offsets(one) - set(range(*part))
    assert offsets(union) == offsets(one) | offsets(other)
    assert all(left.end < right.first for found in (common, without, union) for left, right in pairwise(found))
