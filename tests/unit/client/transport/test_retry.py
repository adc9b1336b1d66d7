"""Retries of failed calls."""

from __future__ import annotations

import pytest

from forebay.client import BrokerDraining, BrokerUnavailable, RetryPolicy, SinkNotFound
from forebay.client.transport.operations import blocked
from forebay.client.transport.retry import RetryState, call_with_retries
from forebay.errors.reasons import Reason
from tests.support.refusals import failure

POLICY = RetryPolicy(tries_max=4, delay_min_s=1, delay_max_s=3, delay_factor=2, budget_s=100)


class Time:
    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def test_pauses_grow_up_to_their_bound() -> None:
    state = RetryState(RetryPolicy(9, 1, 3, 2, 100), random=lambda: 1.0)

    assert [state.failed(0) for _ in range(4)] == [1, 2, 3, 3]


def test_a_pause_is_random_between_half_of_it_and_all_of_it() -> None:
    assert RetryState(POLICY, random=lambda: 0.0).failed(0) == 0.5
    assert RetryState(POLICY, random=lambda: 0.5).failed(0) == 0.75


def test_the_broker_s_wish_is_a_lower_bound() -> None:
    assert RetryState(POLICY, random=lambda: 0.0).failed(0, retry_after_s=7) == 7


def test_it_gives_up_after_the_last_try() -> None:
    state = RetryState(POLICY, random=lambda: 0.0)

    assert [state.failed(0) is None for _ in range(4)] == [False, False, False, True]


def test_it_gives_up_when_the_budget_is_used_up() -> None:
    state = RetryState(RetryPolicy(100, 1, 3, 2, budget_s=10), random=lambda: 1.0)
    state.failed(0)

    assert state.failed(7.9) is not None
    assert state.failed(9.5) is None


def test_a_success_forgets_earlier_failures() -> None:
    state = RetryState(POLICY, random=lambda: 1.0)
    state.failed(0)
    state.failed(0)

    state.succeeded()

    assert state.failed(50) == 1


def test_a_call_is_made_until_it_succeeds() -> None:
    time = Time()
    answers: list[Exception | str] = [BrokerUnavailable("away"), BrokerDraining("stopping", retry_after_s=5), "here"]

    async def call() -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    state = RetryState(POLICY, random=lambda: 1.0)

    assert blocked(call_with_retries(call, state=state, clock=time.clock, sleep=time.sleep)) == "here"
    assert time.slept == [1, 5]


def test_an_error_that_will_not_go_away_is_raised_at_once() -> None:
    time = Time()

    async def call() -> None:
        raise SinkNotFound("no")

    with pytest.raises(SinkNotFound):
        blocked(call_with_retries(call, state=RetryState(POLICY, lambda: 1.0), clock=time.clock, sleep=time.sleep))
    assert time.slept == []


def test_the_last_error_is_raised_when_it_gives_up() -> None:
    time = Time()

    async def call() -> None:
        raise BrokerUnavailable(f"away at {time.now:g}")

    with pytest.raises(BrokerUnavailable, match="away at 6"):
        blocked(call_with_retries(call, state=RetryState(POLICY, lambda: 1.0), clock=time.clock, sleep=time.sleep))


@pytest.mark.parametrize(
    ("name", "value"),
    [("tries_max", 0), ("delay_min_s", 0), ("delay_max_s", 0.5), ("delay_factor", 0.5), ("budget_s", -1)],
)
def test_a_policy_that_cannot_work_is_refused_with_its_name(name: str, value: float) -> None:
    with failure(Reason.INVALID_SETTING, match=f"{name} = {value}") as caught:
        RetryPolicy(**{"delay_min_s": 1, name: value})  # type: ignore[arg-type]  # ints where floats are meant

    assert caught.value.facts["field"] == name


def test_a_policy_without_limits_never_gives_up() -> None:
    state = RetryState(RetryPolicy(tries_max=None, budget_s=None), random=lambda: 1.0)

    assert all(state.failed(day * 86_400.0) is not None for day in range(3_000))
