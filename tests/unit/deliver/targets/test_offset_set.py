"""A set of offsets as ranges."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from forebay.deliver.targets.offset_set import OffsetSet


@given(st.lists(st.integers(0, 30), max_size=60))
def test_ranges_hold_what_a_set_holds_in_as_few_ranges_as_possible(offsets: list[int]) -> None:
    ranges = OffsetSet()
    model: set[int] = set()

    for offset in offsets:
        ranges.add(offset)
        model.add(offset)

        assert [one for one in range(-1, 32) if one in ranges] == sorted(model)
        assert len(ranges) == sum(one - 1 not in model for one in model)


@given(st.lists(st.integers(0, 30), max_size=30), st.lists(st.integers(0, 30), max_size=30))
def test_an_update_adds_all_of_another_set_and_leaves_that_one(offsets: list[int], added: list[int]) -> None:
    ranges, others = OffsetSet(), OffsetSet()
    for offset in offsets:
        ranges.add(offset)
    for offset in added:
        others.add(offset)

    ranges.update(others)
    ranges.add(40)

    assert [one for one in range(-1, 42) if one in ranges] == sorted({*offsets, *added, 40})
    assert 40 not in others
