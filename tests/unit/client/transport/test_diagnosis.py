"""A finding about a broker that cannot be reached becomes final only once it has lasted."""

from __future__ import annotations

import pytest

from forebay.client.transport.diagnosis import UNREACHED_PATIENCE_S, Diagnosis
from forebay.client.transport.handshake import FINAL, Finding, Probed
from forebay.client.transport.operations import blocked


class World:
    def __init__(self, *findings: Finding) -> None:
        self.findings = list(findings)
        self.now = 100.0
        self.diagnosis = Diagnosis(self.look, patience_s=60.0, clock=lambda: self.now, sleep=self.sleep)

    async def look(self, endpoint: str) -> Probed:
        finding = self.findings.pop(0) if len(self.findings) > 1 else self.findings[0]
        return Probed(finding, "" if finding is Finding.NOTHING else f"it is {finding}")

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_a_broker_that_was_never_reached_is_checked_twice() -> None:
    world = World(Finding.UNTRUSTED)

    assert blocked(world.diagnosis.of("a:1")).is_final
    assert world.now == 100.0 + UNREACHED_PATIENCE_S


def test_two_looks_that_differ_are_no_verdict() -> None:
    world = World(Finding.UNTRUSTED, Finding.NOTHING)

    assert not blocked(world.diagnosis.of("a:1")).is_final


@pytest.mark.parametrize("finding", [finding for finding, is_final in FINAL.items() if is_final])
def test_a_broker_that_was_reached_before_gets_all_the_patience_and_no_more(finding: Finding) -> None:
    world = World(finding)
    world.diagnosis.reached("a:1")

    assert not blocked(world.diagnosis.of("a:1")).is_final
    world.now += 59.9
    verdict = blocked(world.diagnosis.of("a:1"))
    assert (verdict.is_final, verdict.text) == (False, f"it is {finding}")
    world.now += 0.2
    assert blocked(world.diagnosis.of("a:1")).is_final
    assert world.now == pytest.approx(160.1)


def test_another_finding_or_a_call_that_got_through_starts_over() -> None:
    world = World(Finding.UNTRUSTED)
    world.diagnosis.reached("a:1")
    blocked(world.diagnosis.of("a:1"))
    world.now += 61
    world.diagnosis.reached("a:1")

    assert not blocked(world.diagnosis.of("a:1")).is_final
    world.now += 61
    world.findings = [Finding.CLOSED]
    assert not blocked(world.diagnosis.of("a:1")).is_final
    world.findings = [Finding.UNTRUSTED]
    assert not blocked(world.diagnosis.of("a:1")).is_final


@pytest.mark.parametrize("finding", [finding for finding, is_final in FINAL.items() if not is_final])
def test_a_transient_finding_is_never_final(finding: Finding) -> None:
    world = World(finding)
    for _ in range(100):
        world.now += 3600
        assert not blocked(world.diagnosis.of("a:1")).is_final


def test_endpoints_are_judged_apart() -> None:
    world = World(Finding.TLS_NEEDED)
    world.diagnosis.reached("a:1")

    assert not blocked(world.diagnosis.of("a:1")).is_final
    assert blocked(world.diagnosis.of("b:1")).is_final
