"""Ranges in the retry queue."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from forebay.broker.core.delivery.retry_queue import RetryQueue
from forebay.broker.core.partition.cursor import Cursor, Settlement
from forebay.broker.core.partition.ranges import Range

NOW = 1_000.0


def parked(*ranges: tuple[int, int], not_before: float = NOW) -> RetryQueue:
    made = RetryQueue()
    for first, end in ranges:
        made.add(Range(first, end), not_before)
    return made


def test_queued_ranges_are_found_by_their_place() -> None:
    made = parked((5, 8), (1, 2), (20, 21))

    assert [(one.first, one.end) for one in made] == [(1, 2), (5, 8), (20, 21)]
    assert made.within(Range(6, 20)) == [Range(6, 8)]
    assert made.within(Range(8, 20)) == []


def test_settled_records_within_a_queued_range_do_not_count() -> None:
    cursor, _ = Cursor().settle(Range(6, 7), Settlement.ACKED)

    assert parked((5, 8), (1, 2)).records(cursor) == 3


def test_a_part_is_taken_out_and_the_rest_keeps_its_turn_and_its_time() -> None:
    made = parked((5, 10), not_before=NOW + 3)

    assert made.remove(Range(6, 8)) == [Range(6, 8)]

    assert [(one.first, one.end, one.not_before, one.turn) for one in made] == [(5, 6, NOW + 3, 1), (8, 10, NOW + 3, 1)]


def test_before_its_time_nothing_is_due() -> None:
    made = parked((1, 2), not_before=NOW + 3)
    made.add(Range(5, 6), NOW + 1)

    assert made.next_due(NOW, singly=False) is None
    assert made.next_timer(NOW) == NOW + 1
    found = made.next_due(NOW + 1, singly=False)
    assert found is not None
    assert found.first == 5
    assert made.due_within(Range(0, 10), NOW + 1) == [Range(5, 6)]
    assert made.next_timer(NOW + 1) == NOW + 3


def test_one_by_one_the_one_that_failed_longest_ago_is_next_else_the_lowest() -> None:
    made = parked((7, 8), (1, 2))

    assert [getattr(made.next_due(NOW, singly=singly), "first", None) for singly in (True, False)] == [7, 1]


def test_revoked_records_without_a_failure_are_next_and_due_at_once() -> None:
    made = parked((1, 2), not_before=NOW + 9)
    assert made.next_due(NOW, singly=True) is None

    made.put_back(Range(4, 6))

    assert getattr(made.next_due(NOW, singly=True), "first", None) == 4


def test_nothing_is_left_once_all_is_cleared() -> None:
    made = parked((1, 2))

    made.clear()

    assert (len(made), made.next_due(NOW, singly=True), made.next_timer(0.0)) == (0, None, None)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 30), st.integers(1, 8)), max_size=30))
def test_it_is_a_set_of_offsets(steps: list[tuple[bool, int, int]]) -> None:
    made, model = RetryQueue(), set[int]()
    for put, first, size in steps:
        offsets = range(first, first + size)
        if not put:
            found = {offset for one in made.remove(Range(first, first + size)) for offset in range(one.first, one.end)}
            assert found == model & set(offsets)
            model -= set(offsets)
        elif not model & set(offsets):
            made.add(Range(first, first + size), NOW)
            model |= set(offsets)
        assert {offset for one in made for offset in range(one.first, one.end)} == model
        assert sum(one.end - one.first for one in made) == len(model)
        assert {o for r in made.within(Range(5, 20)) for o in range(r.first, r.end)} == model & set(range(5, 20))
