"""Rate of recent events."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.broker.core.resources.rate import WINDOW_S, RecentRate


def test_nothing_counted_is_a_rate_of_zero() -> None:
    assert RecentRate().per_s(5.0) == 0


def test_a_burst_is_averaged_over_the_time_that_was_counted() -> None:
    rate = RecentRate()
    rate.add(50, 100.0)

    assert rate.per_s(100.1) == 50
    assert rate.per_s(105.0) == 10


def test_a_steady_flow_has_its_rate_from_the_first_second_to_long_after() -> None:
    rate = RecentRate()
    for tick in range(1, 400):
        rate.add(20, 1000.0 + tick / 10)
        if tick >= 20:
            assert rate.per_s(1000.0 + tick / 10) == pytest.approx(200, rel=0.06)


def test_the_rate_is_zero_once_the_window_has_passed() -> None:
    rate = RecentRate()
    rate.add(50, 100.0)

    assert rate.per_s(100.0 + WINDOW_S - 1) > 0
    assert rate.per_s(100.0 + WINDOW_S) == 0


def test_a_flow_after_a_silence_is_not_averaged_over_the_silence() -> None:
    rate = RecentRate()
    rate.add(1, 100.0)
    rate.add(50, 1000.0)

    assert rate.per_s(1000.5) == 50


@given(st.lists(st.tuples(st.integers(0, 1000), st.floats(0, 30)), max_size=40), st.floats(0, 30))
def test_no_event_is_counted_twice_or_after_its_window(events: list[tuple[int, float]], wait_s: float) -> None:
    rate, now = RecentRate(), 7.5
    happened: list[tuple[int, float]] = []
    for count, pause_s in events:
        now += pause_s
        rate.add(count, now)
        happened.append((count, now))
    now += wait_s

    recent = sum(count for count, at in happened if int(at) > int(now) - WINDOW_S)

    assert rate.per_s(now) * WINDOW_S >= recent * (1 - 1e-9)
    assert rate.per_s(now) <= recent
