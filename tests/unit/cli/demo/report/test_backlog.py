"""The backlog's peak and the time to drain it follow from the samples alone."""

from __future__ import annotations

from forebay.cli.demo.report.backlog import down_spans, drain_s, peak_waiting
from forebay.cli.demo.report.samples import History, Sample


def sample(at_s: float, waiting: int = 50, *, target_up: bool = True, broker_up: bool = True) -> Sample:
    return Sample(at_s, 100, 40 + waiting, 40, 1.5, broker_up=broker_up, target_up=target_up)


def test_buffered_records_are_those_that_the_broker_has_and_the_target_has_not() -> None:
    assert sample(0).buffered == 50


def test_an_absence_lasts_from_its_first_sample_to_the_return() -> None:
    samples = [sample(0), sample(1, target_up=False), sample(2, target_up=False), sample(3), sample(4, target_up=False)]

    assert down_spans(samples, "target_up") == [(1, 3), (4, 4)]
    assert down_spans(samples, "broker_up") == []


def test_the_backlog_is_drained_when_no_more_waits_than_before_the_outage() -> None:
    found = History([sample(0, 2), sample(1, 3), sample(2, 30, target_up=False), sample(3, 60), sample(5, 4)])
    assert drain_s(found) is None

    found.add(sample(7.5, 3))

    assert drain_s(found) == 4.5
    assert peak_waiting(found) == 60


def test_a_figure_from_before_a_kill_does_not_count_as_drained() -> None:
    found = History([sample(0, 0), sample(1, 9, target_up=False), sample(2, 0, broker_up=False), sample(3, 0)])

    assert drain_s(found) == 1.0


def test_a_run_without_an_outage_has_no_time_to_drain() -> None:
    assert drain_s(History([sample(0), sample(1)])) is None
    assert drain_s(History()) is None
    assert peak_waiting(History()) == 0
