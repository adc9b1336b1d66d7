"""Without a terminal the progress is lines that can be read later."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from forebay.cli.demo.report.progress import Progress, figures
from forebay.cli.demo.report.samples import Event, Sample


def sample(at_s: float) -> Sample:
    return Sample(at_s, 1200, 1000, 400, 2.5, broker_up=True, target_up=False)


def test_the_figures_name_what_was_written_buffered_and_delivered_and_the_lag() -> None:
    assert figures(sample(0)) == "produced 1,200, written 1,000, buffered 600, delivered 400, lag 2.5 s"


def test_a_log_has_every_event_and_now_and_then_the_figures() -> None:
    log = StringIO()
    with Progress(Console(file=log, width=200)) as progress:
        progress.show(sample(0.0))
        progress.show(sample(0.25))
        progress.happened(Event(1.0, "the broker is killed (-9)"))
        progress.show(sample(6.0))

    lines = log.getvalue().splitlines()
    assert len(lines) == 3
    assert lines[1].endswith("the broker is killed (-9)")


def test_a_terminal_shows_which_broker_is_unreachable() -> None:
    screen = StringIO()
    with Progress(Console(file=screen, force_terminal=True, width=200)) as progress:
        progress.show(sample(0.0))

    assert "AWAY" in screen.getvalue()
