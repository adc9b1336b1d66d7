"""Outcomes of an answer, for every state that a record of a lane can have."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from forebay.broker.core.delivery.answers import NEVER, Answer, SettleOutcome
from forebay.broker.core.delivery.in_flight import Flight, Flights
from forebay.broker.core.delivery.judgement import outcomes
from forebay.broker.core.delivery.leases import Leases
from forebay.broker.core.delivery.retry_queue import RetryQueue
from forebay.broker.core.partition.cursor import Cursor, Settlement
from forebay.broker.core.partition.ranges import Range

ANSWER = Answer(owner_epoch=1, revision=2)


def page(first: int, end: int, *, revision: int = 0) -> Flight:
    return Flight(first, first, end, 100, end - first, age_us=0, revision=revision)


def judged(requested: Range, *, stale: int = NEVER) -> list[tuple[int, int, SettleOutcome]]:
    """Outcomes in a lane with two records of each state: see the test below."""
    cursor, _ = Cursor().settle(Range(0, 2), Settlement.ACKED)
    cursor, _ = cursor.settle(Range(4, 6), Settlement.ACKED)
    flights, queue, leases = Flights(), RetryQueue(), Leases()
    flights.add(page(2, 6))
    flights.add(page(6, 8, revision=3))
    queue.add(Range(8, 10), 0.0)
    leases.lease("a holder", 10.0, page(10, 12), [Range(10, 12)])
    found = outcomes(ANSWER, requested, stale, cursor, flights, queue, leases)
    return [(part.first, part.end, outcome) for part, outcome in found]


def test_each_state_of_a_record_has_its_outcome() -> None:
    assert judged(Range(0, 14)) == [
        (0, 2, SettleOutcome.ALREADY_SETTLED),
        (2, 4, SettleOutcome.OK),
        (4, 6, SettleOutcome.ALREADY_SETTLED),
        (6, 8, SettleOutcome.STALE),  # it was sent again, under a later revision
        (8, 10, SettleOutcome.STALE),  # it waits for its retry
        (10, 12, SettleOutcome.STALE),  # it is leased
        (12, 14, SettleOutcome.UNKNOWN),  # it was never sent
    ]


def test_from_the_first_revoked_offset_on_an_answer_is_stale() -> None:
    assert judged(Range(1, 14), stale=3) == [
        (1, 2, SettleOutcome.ALREADY_SETTLED),
        (2, 3, SettleOutcome.OK),
        (3, 14, SettleOutcome.STALE),
    ]
    assert judged(Range(5, 9), stale=2) == [(5, 9, SettleOutcome.STALE)]


@given(st.integers(0, 14), st.integers(1, 14), st.integers(0, 20))
def test_the_outcomes_cover_what_was_asked_in_order_and_as_those_of_single_records(
    first: int, count: int, stale: int
) -> None:
    found = judged(Range(first, first + count), stale=stale)

    singly = [judged(Range(offset, offset + 1), stale=stale) for offset in range(first, first + count)]
    assert [(at, outcome) for start, end, outcome in found for at in range(start, end)] == [
        (start, outcome) for [(start, _, outcome)] in singly
    ]
