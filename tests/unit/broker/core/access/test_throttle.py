"""A rate limit lets a burst of one second pass and then delays by the debt."""

from __future__ import annotations

from forebay.broker.core.access.throttle import Throttle


def test_a_burst_of_one_second_passes_without_a_delay() -> None:
    throttle = Throttle(100, 0.0)

    throttle.charge(100, 0.0)

    assert throttle.delay_s(0.0) == 0


def test_a_charge_beyond_the_allowance_delays_by_the_debt_divided_by_the_rate() -> None:
    throttle = Throttle(100, 0.0)

    throttle.charge(350, 0.0)

    assert throttle.delay_s(0.0) == 2.5
    assert throttle.delay_s(2.0) == 0.5
    assert throttle.delay_s(2.5) == 0


def test_an_idle_time_saves_no_more_than_one_second() -> None:
    throttle = Throttle(100, 0.0)

    throttle.charge(200, 3_600.0)

    assert throttle.delay_s(3_600.0) == 1


def test_a_clock_that_goes_back_gives_nothing_twice() -> None:
    throttle = Throttle(100, 10.0)
    throttle.charge(200, 10.0)

    assert throttle.delay_s(5.0) == 1
    assert throttle.delay_s(10.0) == 1
