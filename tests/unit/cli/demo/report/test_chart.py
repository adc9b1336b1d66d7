"""The chart is one file that needs nothing else, and shows when who was away."""

from __future__ import annotations

from pathlib import Path

from forebay.cli.demo.report.chart import down_spans, write_chart
from forebay.cli.demo.report.samples import SAMPLES_MAX, History, Sample


def sample(at_s: float, *, target_up: bool = True, broker_up: bool = True) -> Sample:
    return Sample(at_s, 100, 90, 40, 1.5, broker_up=broker_up, target_up=target_up)


def test_what_is_buffered_is_what_the_broker_has_and_the_target_has_not() -> None:
    assert sample(0).buffered == 50


def test_an_absence_lasts_from_its_first_sample_to_the_return() -> None:
    samples = [sample(0), sample(1, target_up=False), sample(2, target_up=False), sample(3), sample(4, target_up=False)]

    assert down_spans(samples, "target_up") == [(1, 3), (4, 4)]
    assert down_spans(samples, "broker_up") == []


def test_the_file_is_whole_and_loads_nothing(tmp_path: Path) -> None:
    history = History()
    for at_s in range(5):
        history.add(sample(at_s, target_up=at_s != 2, broker_up=at_s != 3))

    path = write_chart(history, tmp_path / "deep" / "chart.html", title="title", subtitle="subtitle")

    text = path.read_text(encoding="utf-8")
    assert "<script src=" not in text
    assert "remote system down" in text
    assert "broker away" in text


def test_a_long_run_is_thinned_and_not_cut() -> None:
    history = History()
    for at_s in range(SAMPLES_MAX + 10):
        history.add(sample(at_s))

    assert len(history.samples) < SAMPLES_MAX
    assert history.samples[-1].at_s == SAMPLES_MAX + 9
