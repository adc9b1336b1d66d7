"""Records in flight, and their attempts."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from forebay.broker.core.delivery.in_flight import Flight, Flights, InFlight
from forebay.broker.core.partition.cursor import Cursor, Settlement
from forebay.broker.core.partition.ranges import Range


def flights(*pages: tuple[int, int], usage: InFlight | None = None) -> Flights:
    """Pages of 100 bytes that begin and end there, in flight whole."""
    made = Flights()
    made.count_for(usage if usage is not None else InFlight())
    for first, end in pages:
        made.add(Flight(first, first, end, 100, end - first, age_us=first))
    return made


def settle(made: Flights, cursor: Cursor, first: int, end: int, *, answered: bool = True) -> Cursor:
    made.settle(Range(first, end), cursor, answered=answered)
    return cursor.settle(Range(first, end), Settlement.ACKED)[0]


def test_a_page_takes_up_its_bytes_until_its_last_record_is_settled() -> None:
    usage = InFlight()
    made, cursor = flights((0, 4), (4, 8), usage=usage), Cursor()

    cursor = settle(made, cursor, 1, 6)
    assert (usage.records, usage.size, made.lowest_unsettled(cursor)) == (3, 200, 0)
    cursor = settle(made, cursor, 0, 1)
    assert (usage.records, usage.size, made.lowest_unsettled(cursor)) == (2, 100, 6)
    settle(made, cursor, 6, 8)
    assert (usage.records, usage.size, bool(made)) == (0, 0, False)


def test_void_records_no_longer_count_and_a_page_is_cut_where_they_begin() -> None:
    usage = InFlight()
    made, cursor = flights((0, 4), (4, 8), (8, 12), usage=usage), Cursor()
    cursor = settle(made, cursor, 4, 5)

    made.void(6, cursor)

    assert (usage.records, usage.size, made.bases()) == (5, 200, {0, 4})
    assert [(part, flight is not None) for part, flight in made.within(Range(0, 12))] == [
        (Range(0, 4), True),
        (Range(4, 6), True),
        (Range(6, 12), False),
    ]


def test_a_page_of_which_only_settled_records_are_left_is_void_whole() -> None:
    usage = InFlight()
    made, cursor = flights((0, 4), (4, 8), usage=usage), Cursor()
    cursor = settle(made, cursor, 4, 6)

    made.void(6, cursor)

    assert (usage.records, usage.size, made.bases()) == (4, 100, {0})


def test_ages_are_of_pages_that_were_answered_to_their_last_record_and_reported_once() -> None:
    made, cursor = flights((0, 4), (4, 8), (8, 12)), Cursor()
    cursor = settle(made, cursor, 0, 6)
    settle(made, cursor, 8, 12, answered=False)

    assert [one.age_us for one in made.pop_settled()] == [0]
    assert made.pop_settled() == []


@given(
    ends=st.lists(st.integers(1, 5), min_size=1, max_size=5),
    steps=st.lists(st.tuples(st.booleans(), st.integers(0, 25), st.integers(0, 25)), max_size=8),
)
def test_the_consumer_s_count_is_what_is_unsettled_in_flight(
    ends: list[int], steps: list[tuple[bool, int, int]]
) -> None:
    bounds = [sum(ends[:index]) for index in range(len(ends) + 1)]
    usage, cursor = InFlight(), Cursor()
    made = flights(*itertools.pairwise(bounds), usage=usage)
    flying = set(range(bounds[-1]))

    for is_void, first, last in steps:
        if is_void:
            made.void(first, cursor)
            flying -= set(range(first, bounds[-1]))
        elif first < last:
            cursor = settle(made, cursor, first, last)
            flying -= set(range(first, last))
        assert (usage.records, made.records) == (len(flying), len(flying))
        assert usage.size == 100 * len(made.bases())
        assert made.lowest_unsettled(cursor) == min(flying, default=None)
