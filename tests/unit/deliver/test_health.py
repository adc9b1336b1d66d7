"""The health of a target: counts, and one event for the beginning and the end of a failure."""

from __future__ import annotations

import logging

import pytest

from forebay.deliver import Batch, Delivered, Reject, Retry, Totals
from forebay.deliver.health import ABANDONED_S, INTERVAL_S, TargetHealth
from tests.support.targets.memory_source import records

AWAY = Retry("HTTP 503")


class Case:
    """A target's health with a clock in the test's hand, and the events that were logged."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO, "forebay.deliver")
        self._caplog = caplog
        self.now = 100.0
        self.health = TargetHealth("orders", "default", clock=lambda: self.now)

    def send(self, outcome: Delivered | Retry | Reject, partition: int = 0) -> None:
        """One attempt of three records."""
        self.health.sent(Batch("orders", "ab", partition, tuple(records(3, first=10))), outcome)

    @property
    def events(self) -> list[str]:
        """Every event so far."""
        return self._caplog.messages


@pytest.fixture
def case(caplog: pytest.LogCaptureFixture) -> Case:
    """A healthy target."""
    return Case(caplog)


def test_an_outage_is_two_events_whatever_the_number_of_attempts_and_partitions(case: Case) -> None:
    for _ in range(50):
        case.send(AWAY, 0)
        case.send(AWAY, 1)
        case.now += 1.0
    case.send(Delivered(), 0)
    case.send(Delivered(), 1)

    assert case.events == [
        "target failed sink=orders subscription=default partition=0 offset=10 reason='HTTP 503'",
        "target recovered sink=orders subscription=default after_s=50.0 failed_attempts=100",
    ]
    assert case.health.totals == Totals(delivered=6, failures=100)


def test_a_target_recovers_only_when_every_partition_that_failed_was_sent(case: Case) -> None:
    case.send(AWAY, 0)
    case.send(AWAY, 1)
    case.send(Delivered(), 0)
    case.send(Delivered(), 2)
    case.now += 3.0

    assert (len(case.events), case.health.totals.failing_s) == (1, 3.0)


def test_a_partition_that_another_deliverer_took_over_does_not_fail_for_ever(case: Case) -> None:
    case.send(AWAY, 0)
    case.now += ABANDONED_S
    case.send(Delivered(), 1)

    assert case.events[-1].startswith("target recovered")
    assert case.health.totals.failing_s is None


def test_a_target_that_alternates_is_logged_once_in_an_interval(case: Case) -> None:
    for _ in range(5):
        case.send(AWAY)
        case.send(Delivered())
    assert len(case.events) == 2

    case.now += INTERVAL_S
    case.send(AWAY)

    assert len(case.events) == 3
    assert case.health.totals.failures == 6


def test_a_rejection_is_an_answer_of_a_target_that_works(case: Case) -> None:
    case.send(AWAY)
    case.send(Reject("HTTP 422", delivered=1))

    assert case.events[-1].startswith("target recovered")
    assert case.health.totals.delivered == 1


def test_rejected_records_are_counted_in_the_next_event(case: Case) -> None:
    case.health.rejected(0, 5, 5, "HTTP 422")
    case.health.rejected(0, 6, 8, "HTTP 422")
    case.now += INTERVAL_S
    case.health.rejected(1, 2, 2, "HTTP 400")

    place = "records were rejected sink=orders subscription=default"
    assert case.events == [
        f"{place} partition=0 first_offset=5 last_offset=5 records=1 reason='HTTP 422'",
        f"{place} partition=1 first_offset=2 last_offset=2 records=4 reason='HTTP 400'",
    ]
    assert case.health.totals.rejected == 5
