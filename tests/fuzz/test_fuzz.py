"""A minute of fuzzing, a part of ``make test-campaigns``; ``make fuzz MINUTES=n`` is the real one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.calls import CallOutcome
from tests.fuzz.report import MIB, Report
from tests.fuzz.running import Options, run
from tests.support.rules.services import METHODS

SEED = 20_261_122


@pytest.mark.campaign
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_minute_of_calls_of_every_kind_finds_nothing(tmp_path: Path) -> None:
    told: list[str] = []

    report = run(Options(seconds=50, seed=SEED, directory=tmp_path, say=told.append))

    assert report.findings == {}, "\n".join([report.line(), *told])
    assert {method for method, _ in report.calls} == set(METHODS)
    assert sum(count for (_, reason), count in report.calls.items() if reason == "OK") > report.total / 20


def outcome(code: str, reason: str = "", details: str = "") -> CallOutcome:
    """Outcome of a call."""
    return CallOutcome("/s/M", code, reason, details, [b"\x01"])


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        (outcome("UNKNOWN"), "UNKNOWN"),
        (outcome("INTERNAL", "ANY"), "INTERNAL"),
        (outcome("DEADLINE_EXCEEDED"), "DEADLINE_EXCEEDED"),
        (outcome("INVALID_ARGUMENT"), "without a reason"),
    ],
)
def test_a_call_that_ends_as_none_may_is_a_finding(found: CallOutcome, kind: str) -> None:
    report = Report(1)

    report.add(found)

    [name] = report.findings
    assert kind in name
    assert "requests: 01" in report.findings[name]


def test_refusals_with_a_reason_and_what_the_transport_refuses_are_none() -> None:
    report = Report(1)

    for found in (
        outcome("OK"),
        outcome("CANCELLED"),
        outcome("INVALID_ARGUMENT", "INVALID_RANGE"),
        outcome("RESOURCE_EXHAUSTED", details="SERVER: Received message larger than max (2 vs. 1)"),
    ):
        report.add(found)

    assert report.findings == {}
    assert report.total == 4


def test_memory_and_descriptors_that_grow_are_findings() -> None:
    flat, growing = Report(1), Report(1)
    flat.private_bytes, flat.descriptors = [200 * MIB] * 80, [50] * 80
    growing.private_bytes, growing.descriptors = [(100 + 5 * n) * MIB for n in range(80)], [50 + n for n in range(80)]

    flat.judge_growth()
    growing.judge_growth()

    assert flat.findings == {}
    assert set(growing.findings) == {"memory grew", "descriptors grew"}
