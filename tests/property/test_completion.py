"""Completion of records agrees with a set of unfinished offsets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from forebay.client.positions.completion import Completion

STEPS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 60), st.integers(1, 9)), max_size=60)


@given(start=st.integers(0, 5), steps=STEPS)
def test_the_position_is_the_lowest_unfinished_offset_after_any_history(
    start: int, steps: list[tuple[int, int, int]]
) -> None:
    found = Completion(start)
    unfinished: set[int] = set()
    end = start
    for kind, number, size in steps:
        if kind == 0:
            first = end + number % 3
            found.hand_out(first, first + size - 1)
            unfinished |= set(range(first, first + size))
            end = first + size
        elif end > start:
            first = start + number % (end - start)
            last = min(end - 1, first + size - 1)
            before = found.position
            assert found.finish(first, last) == (found.position > before)
            unfinished -= set(range(first, last + 1))
        assert found.position == min(unfinished, default=end)
        assert found.unfinished == len(unfinished)
