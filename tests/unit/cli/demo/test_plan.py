"""The plan of a run puts every kill where a restart can follow, and the outage where it was asked for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from forebay.cli.demo.plan import BROKER_DOWN_S, Action, DemoSettings, duration_s, plan


def times(settings: DemoSettings, action: Action) -> list[float]:
    return [step.at_s for step in plan(settings) if step.action is action]


def test_the_target_is_unreachable_for_exactly_the_outage() -> None:
    settings = DemoSettings(outage_s=12.0, warm_up_s=5.0)

    assert times(settings, Action.STOP_TARGET) == [5.0]
    assert times(settings, Action.START_TARGET) == [17.0]


def test_no_outage_and_no_kills_is_a_quiet_run() -> None:
    assert plan(DemoSettings(outage_s=0.0, kills=0)) == ()


def test_the_first_of_two_kills_is_in_the_outage_and_the_second_may_meet_the_backlog() -> None:
    settings = DemoSettings(outage_s=15.0, kills=2, warm_up_s=5.0)

    first, second = times(settings, Action.KILL_BROKER)

    assert 5.0 <= first < 20.0 < second + BROKER_DOWN_S


@given(kills=st.integers(0, 30), outage_s=st.floats(0, 60), seed=st.integers())
def test_a_broker_is_always_restarted_before_it_is_killed_again(kills: int, outage_s: float, seed: int) -> None:
    settings = DemoSettings(outage_s=outage_s, kills=kills, seed=seed)

    broker = [step for step in plan(settings) if step.action in (Action.KILL_BROKER, Action.START_BROKER)]

    assert [step.action for step in broker] == [Action.KILL_BROKER, Action.START_BROKER] * kills
    assert duration_s(settings, plan(settings)) >= max([step.at_s for step in broker], default=0.0)


def test_the_same_seed_gives_the_same_plan() -> None:
    assert plan(DemoSettings(seed=7)) == plan(DemoSettings(seed=7))
    assert plan(DemoSettings(seed=7)) != plan(DemoSettings(seed=8))
