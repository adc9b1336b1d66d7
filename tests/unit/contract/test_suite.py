"""A run of checks is bounded in time, and one that fails does not stop the others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import grpc
import pytest

from forebay.broker.embedded import BrokerServer
from forebay.client import Client, ClientSettings
from forebay.contract import Check, CheckOutcome, Result, run
from forebay.contract.trial import Trial
from forebay.contract.violation import Violation
from tests.support.calls.wire_fake import WireFake


class Clock:
    """A clock that checks advance."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def check(name: str, act: Callable[[Trial], None]) -> Check:
    return Check("tests", name, act)


def fails(trial: Trial) -> None:
    raise Violation("the offset is 4, must be 3")


def passes(trial: Trial) -> None:
    trial.stats(trial.sinks.create())


def outcomes(found: Sequence[Result]) -> list[tuple[str, CheckOutcome]]:
    return [(one.check, one.outcome) for one in found]


def test_each_check_has_a_result_and_sinks_that_are_deleted() -> None:
    with BrokerServer.in_memory() as broker, Client(broker.endpoint) as client:
        checks = [check("first", passes), check("second", fails), check("third", passes)]

        found = list(run(broker.endpoint, ClientSettings(), checks, time_limit_s=60))

        assert outcomes(found) == [
            ("first", CheckOutcome.OK),
            ("second", CheckOutcome.FAILED),
            ("third", CheckOutcome.OK),
        ]
        assert found[1].detail == "the offset is 4, must be 3"
        assert list(client.sinks.list()) == []


def test_sinks_have_the_prefix_and_another_name_in_each_run() -> None:
    names: list[str] = []
    noted = check("noted", lambda trial: names.append(trial.sinks.create()))
    with BrokerServer.in_memory() as broker:
        for _ in range(2):
            list(run(broker.endpoint, ClientSettings(), [noted], time_limit_s=60, prefix="eu-"))

    assert all(name.startswith("eu-") for name in names)
    assert len(set(names)) == 2


def test_no_check_begins_after_the_time_limit() -> None:
    clock = Clock()

    def slow(trial: Trial) -> None:
        clock.now += 7

    with WireFake() as fake:
        checks = [check("first", slow), check("second", slow), check("third", slow)]
        found = list(run(fake.address, ClientSettings(), checks, time_limit_s=10, clock=clock))

    assert [one.outcome for one in found] == [CheckOutcome.OK, CheckOutcome.OK, CheckOutcome.NOT_RUN]
    assert found[2].detail == "10 s are over"


def test_a_check_that_uses_up_its_time_fails() -> None:
    clock = Clock()

    def slow(trial: Trial) -> None:
        clock.now += 31
        trial.sinks.create()

    with WireFake() as fake:
        [result] = run(fake.address, ClientSettings(), [check("slow", slow)], time_limit_s=100, clock=clock)

    assert (result.outcome, result.detail) == (CheckOutcome.FAILED, "the time for the check is over")


def test_a_sink_that_cannot_be_deleted_fails_its_check() -> None:
    def claims(trial: Trial) -> None:
        trial.sinks.name()

    with WireFake() as fake:
        [result] = run(fake.address, ClientSettings(), [check("claims", claims)], time_limit_s=10)

    assert result.outcome is CheckOutcome.FAILED
    assert "was left behind: UNIMPLEMENTED" in result.detail


def test_a_broker_that_does_not_answer_ends_a_check_and_not_the_run() -> None:
    asked: list[object] = []
    released = threading.Event()

    def hang(request: object, context: grpc.ServicerContext) -> None:
        asked.append(request)
        context.add_callback(released.set)
        released.wait(20)

    with WireFake(GetSinkStats=hang) as fake:
        silent = check("silent", lambda trial: trial.stats("orders"))
        [result] = run(fake.address, ClientSettings(), [silent], time_limit_s=1)

    assert asked
    assert (result.outcome, result.detail) == (CheckOutcome.FAILED, "no answer in time")


@pytest.mark.parametrize("time_limit_s", [1, 50])
def test_a_broker_that_is_unreachable_fails_the_checks_in_time(time_limit_s: float) -> None:
    with WireFake() as fake:
        address = fake.address

    found = list(run(address, ClientSettings(), [check("away", passes)], time_limit_s=time_limit_s))

    assert [one.outcome for one in found] == [CheckOutcome.FAILED]
    assert "UNAVAILABLE" in found[0].detail
