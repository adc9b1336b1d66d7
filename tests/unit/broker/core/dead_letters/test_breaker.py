from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from forebay.broker.core.dead_letters.breaker import JUDGED_MIN, WINDOW, Breaker


def rejected(breaker: Breaker, records: int, *, ratio_max: float = 0.5, consecutive_max: int = 0) -> int:
    return breaker.rejected(records, ratio_max=ratio_max, consecutive_max=consecutive_max)


def test_so_many_in_a_row_open_it_and_nothing_more_goes() -> None:
    breaker = Breaker()

    assert rejected(breaker, 10, consecutive_max=4) == 4
    assert breaker.opened == "4 records in a row went to the dead-letter sink"
    assert rejected(breaker, 1, consecutive_max=4) == 0


def test_a_single_rejection_opens_it_if_one_in_a_row_is_the_most() -> None:
    breaker = Breaker()

    assert rejected(breaker, 2, consecutive_max=1) == 1
    assert breaker.opened == "1 record in a row went to the dead-letter sink"


def test_an_ack_restarts_the_row() -> None:
    breaker = Breaker()
    rejected(breaker, 3, consecutive_max=4)
    breaker.acked(1)

    assert rejected(breaker, 3, consecutive_max=4) == 3
    assert breaker.opened == ""


def test_below_a_hundred_judged_the_ratio_says_nothing() -> None:
    breaker = Breaker()

    assert rejected(breaker, JUDGED_MIN - 1, ratio_max=0.0) == JUDGED_MIN - 1
    assert rejected(breaker, 2, ratio_max=0.0) == 1
    assert breaker.opened == "100 of the last 100 records went to the dead-letter sink"


def test_exactly_the_ratio_is_allowed() -> None:
    breaker = Breaker()
    for _ in range(200):
        breaker.acked(1)
        assert rejected(breaker, 1) == 1

    assert breaker.opened == ""
    assert rejected(breaker, 2) == 1


def test_outcomes_older_than_the_window_are_forgotten() -> None:
    breaker = Breaker()
    rejected(breaker, 90, ratio_max=1.0)
    breaker.acked(10 * WINDOW)

    assert rejected(breaker, WINDOW, ratio_max=0.5) == WINDOW // 2 + 1


def test_a_ratio_of_one_never_opens_it() -> None:
    breaker = Breaker()

    assert rejected(breaker, 5 * WINDOW, ratio_max=1.0) == 5 * WINDOW


def test_closed_it_judges_again() -> None:
    breaker = Breaker()
    rejected(breaker, 4, consecutive_max=4)

    breaker.close()

    assert (breaker.opened, breaker.in_a_row) == ("", 0)
    assert rejected(breaker, 3, consecutive_max=4) == 3


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 700)), max_size=40), st.sampled_from([0.0, 0.3, 0.5, 1.0]))
def test_it_opens_exactly_when_the_last_thousand_say_so(history: list[tuple[bool, int]], ratio_max: float) -> None:
    breaker, last, opened = Breaker(), list[bool](), False
    for dead, records in history:
        if not dead:
            breaker.acked(records)
            last = [*last, *[False] * records][-WINDOW:]
            continue
        expected = 0
        while expected < records and not opened:
            last = [*last, True][-WINDOW:]
            expected += 1
            opened = len(last) >= JUDGED_MIN and sum(last) > ratio_max * len(last)

        assert rejected(breaker, records, ratio_max=ratio_max) == expected
        assert bool(breaker.opened) is opened
