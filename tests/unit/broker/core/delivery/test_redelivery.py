from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from forebay.broker.core.delivery.redelivery import Resend, State
from forebay.broker.core.settings import DEFAULTS

NOW = 1_000.0


def machine(**settings: Any) -> Resend:
    return Resend(replace(DEFAULTS, **settings))


def failed(resend: Resend, at: float = NOW, *, delay_s: float | None = None, random: float = 0.5) -> Resend:
    resend.fail(at, delay_s=delay_s, random=random, reason="it said 503")
    return resend


def probing(**settings: Any) -> Resend:
    resend = failed(machine(**settings), delay_s=1.0)
    resend.tick(NOW + 1)
    return resend


def test_while_it_flows_only_the_credit_is_a_bound() -> None:
    assert machine().pages_allowed(NOW, in_flight=500) is None


def test_after_a_failure_nothing_is_sent_until_the_back_off_is_over() -> None:
    resend = failed(machine())

    assert (resend.state, resend.reason) == (State.BACKING_OFF, "it said 503")
    assert resend.pages_allowed(NOW, 0) == 0
    assert resend.next_timer(NOW) == resend.until == NOW + 0.1
    assert resend.pages_allowed(NOW + 0.1, 0) == 1
    assert resend.state is State.PROBING


def test_a_probe_is_exactly_one_page() -> None:
    resend = probing()

    assert resend.pages_allowed(NOW + 1, in_flight=0) == 1
    assert resend.pages_allowed(NOW + 1, in_flight=1) == 0


def test_a_settled_probe_resends_the_backlog_and_then_flows() -> None:
    resend = probing()

    resend.settled(NOW + 2, watermark=10, next_offset=100)
    states = [resend.state]
    for watermark in (99, 100):
        resend.settled(NOW + 3, watermark=watermark, next_offset=300)
        states.append(resend.state)
    assert states == [State.RESENDING, State.RESENDING, State.FLOWING]
    assert resend.reason == ""


def test_a_settled_probe_without_a_backlog_flows_at_once() -> None:
    resend = probing()

    resend.settled(NOW + 2, watermark=1, next_offset=1)

    assert resend.state is State.FLOWING


def test_resending_without_an_interval_is_bounded_by_the_credit_only() -> None:
    resend = probing()
    resend.settled(NOW + 2, watermark=0, next_offset=100)

    assert resend.pages_allowed(NOW + 2, in_flight=50) is None
    assert resend.next_timer(NOW + 2) is None


def test_resending_with_an_interval_continuese_by_one_after_each_answer() -> None:
    resend = probing(resend_interval_us=2_000_000)
    resend.settled(NOW + 2, watermark=0, next_offset=100)

    assert resend.pages_allowed(NOW + 3, in_flight=0) == 0
    assert resend.next_timer(NOW + 3) == NOW + 4
    assert resend.pages_allowed(NOW + 4, in_flight=0) == 1
    assert resend.pages_allowed(NOW + 9, in_flight=1) == 0


def test_an_interval_that_has_passed_is_no_timer_any_more() -> None:
    resend = probing(resend_interval_us=2_000_000)
    resend.settled(NOW + 2, watermark=0, next_offset=100)

    assert resend.next_timer(NOW + 4) is None


def test_a_back_off_that_is_over_is_no_timer_any_more() -> None:
    assert failed(machine(), delay_s=1.0).next_timer(NOW + 1) is None


def test_a_failed_probe_backs_off_longer_and_never_beyond_the_longest() -> None:
    resend = machine(retry_backoff_min_us=100_000, retry_backoff_max_us=1_000_000, retry_backoff_factor=2.0)
    waits = []
    at = NOW
    for _ in range(6):
        failed(resend, at, random=1.0)
        waits.append(round(resend.until - at, 6))
        at = resend.until
        resend.tick(at)

    assert waits == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


def test_the_back_off_is_random_between_the_shortest_and_the_grown_one() -> None:
    for chance, expected in ((0.0, 0.1), (0.5, 0.15), (0.999999, 0.2)):
        resend = failed(machine())
        resend.tick(resend.until)
        at = resend.until

        failed(resend, at, random=chance)

        assert resend.until - at == pytest.approx(expected, abs=1e-5)


def test_many_failures_do_not_overflow() -> None:
    resend = machine(retry_backoff_factor=10.0)
    at = NOW
    for _ in range(500):
        failed(resend, at)
        at = resend.until
        resend.tick(at)

    assert resend.until - NOW < 500 * 30.1


def test_a_success_makes_the_next_back_off_short_again() -> None:
    resend = failed(machine())
    for _ in range(5):
        resend.tick(resend.until)
        failed(resend, resend.until, random=1.0)
    resend.tick(resend.until)
    resend.settled(NOW + 100, watermark=1, next_offset=1)

    failed(resend, NOW + 200, random=1.0)

    assert resend.until == NOW + 200.1


def test_a_named_delay_is_kept_to_the_letter() -> None:
    resend = failed(machine(), delay_s=60.0)

    resend.new_page(NOW + 1)

    assert resend.until == NOW + 60


def test_a_new_page_shortens_a_computed_back_off_once_and_not_below_the_shortest() -> None:
    resend = machine(retry_backoff_max_us=3_600_000_000)
    for _ in range(12):
        failed(resend, resend.until or NOW, random=1.0)
        resend.tick(resend.until)
    at = resend.until
    failed(resend, at, random=1.0)
    long = resend.until - at

    resend.new_page(at + 0.01)
    first = resend.until
    resend.until = at + long
    resend.new_page(at + 5)

    assert long > 100
    assert first == at + 0.1
    assert resend.until == at + long


def test_failures_while_it_backs_off_are_one_failure_and_the_longest_wait_counts() -> None:
    resend = failed(machine(), delay_s=5.0)

    failed(resend, NOW + 1, delay_s=1.0)
    assert resend.until == NOW + 5
    failed(resend, NOW + 1, delay_s=10.0)
    assert resend.until == NOW + 11
    resend.tick(NOW + 11)
    failed(resend, NOW + 20, random=0.0)
    failed(resend, NOW + 20, random=1.0)
    assert resend.until <= NOW + 20.2


@pytest.mark.parametrize("before", [State.FLOWING, State.BACKING_OFF, State.PROBING])
def test_a_pause_ends_where_it_began(before: State) -> None:
    resend = machine()
    if before is not State.FLOWING:
        failed(resend)
    if before is State.PROBING:
        resend.tick(NOW + 1)

    resend.pause("maintenance")
    resend.pause("longer maintenance")
    assert (resend.state, resend.reason) == (State.PAUSED, "longer maintenance")
    assert resend.pages_allowed(NOW + 100, 0) == 0
    assert resend.next_timer(NOW) is None

    resend.resume()
    assert resend.state is before


def test_a_failure_during_a_pause_backs_off_after_it() -> None:
    resend = machine()
    resend.pause("maintenance")

    failed(resend, delay_s=60.0)
    assert (resend.state, resend.reason) == (State.PAUSED, "maintenance")
    resend.resume()

    assert resend.state is State.BACKING_OFF
    assert resend.pages_allowed(NOW + 59, 0) == 0
    assert resend.pages_allowed(NOW + 60, 0) == 1


def test_resuming_what_is_not_paused_changes_nothing() -> None:
    resend = failed(machine())

    resend.resume()

    assert (resend.state, resend.reason) == (State.BACKING_OFF, "it said 503")
