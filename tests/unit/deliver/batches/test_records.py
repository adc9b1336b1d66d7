"""Records of a batch behave like a tuple of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.deliver.batches.records import BatchRecords
from tests.support.targets.memory_source import MemoryRecord, MemoryRun, records


def in_runs(lengths: list[int]) -> tuple[list[MemoryRecord], BatchRecords]:
    made = records(sum(lengths), first=5)
    left = list(made)
    return made, BatchRecords([MemoryRun([left.pop(0) for _ in range(length)]) for length in lengths])


@given(st.lists(st.integers(1, 4), min_size=1), st.data())
def test_any_part_is_that_of_a_tuple(lengths: list[int], data: st.DataObject) -> None:
    made, found = in_runs(lengths)
    part = data.draw(st.slices(len(made)))
    index = data.draw(st.integers(-len(made), len(made) - 1))

    assert list(found) == made
    assert found[index] == made[index]
    assert list(found[part]) == made[part]
    assert found == tuple(made)
    assert found.values == [one.value for one in made]
    assert found.first_offset == 5


def test_an_index_outside_is_refused() -> None:
    _, found = in_runs([2, 1])

    for index in (3, -4):
        with pytest.raises(IndexError):
            found[index]


def test_records_of_other_runs_are_equal_and_other_records_are_not() -> None:
    _, found = in_runs([2, 1])

    assert found == in_runs([1, 2])[1]
    assert hash(found) == hash(in_runs([1, 2])[1])
    assert found != in_runs([2])[1]
    assert found != 3
    assert repr(found) == "<3 records>"
