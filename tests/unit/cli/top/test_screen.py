"""The screen follows from the figures, the keys and the size of the terminal."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from forebay.broker.embedded import BrokerServer
from forebay.cli.top.figures import Figures, collect
from forebay.cli.top.poller import Poller, Sample
from forebay.cli.top.screen import State, pressed, rendered, rows_of, view_of
from forebay.client import BrokerUnavailable, Client, Record
from forebay.errors.reasons import Reason


@pytest.fixture(scope="module")
def figures() -> Iterator[Figures]:
    """Three sinks: one waits without a consumer, one is paused, one is idle."""
    with BrokerServer.in_memory() as broker, Client(broker.endpoint) as client:
        for name in ("alpha", "beta", "gamma"):
            client.sinks.create(name, partitions=2)
        client.subscriptions.create("beta", "audit")
        client.publish("beta", [Record(b"x")] * 7)
        client.publish("gamma", [Record(b"x")] * 3)
        client.sinks.pause("gamma", "maintenance")
        with client.publisher("alpha", writer_id="w1"):
            yield collect(client)


@pytest.fixture
def sample(figures: Figures) -> Sample:
    return Sample(figures)


def after(keys: list[str], sample: Sample, width: int = 80) -> State:
    """Return the state after some keys."""
    state = State()
    for key in keys:
        state = pressed(state, key, sample, width)
    return state


def names(sample: Sample, state: State) -> list[str]:
    return [view_of(state).name_of(row) for row in rows_of(sample, state)]


def text(sample: Sample, state: State, width: int = 80, height: int = 20, now: datetime | None = None) -> list[str]:
    """Return the lines of the screen."""
    console = Console(width=width, height=height, file=io.StringIO(), force_terminal=False)
    at = now or datetime.now(UTC)
    console.print(rendered(sample, state, endpoint="127.0.0.1:7461", now=at, width=width, height=height))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_the_sinks_that_need_attention_are_first(sample: Sample) -> None:
    assert names(sample, State()) == ["gamma", "beta", "alpha"]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (["s"], ["beta", "gamma", "alpha"]),
        (["s", "r"], ["alpha", "gamma", "beta"]),
        (["S"], ["alpha", "beta", "gamma"]),
        (["S", "r"], ["gamma", "beta", "alpha"]),
        (["/", "b", "e"], ["beta"]),
        (["/", "b", "x", "backspace", "enter", "s"], ["beta"]),
        (["/", "b", "escape"], ["gamma", "beta", "alpha"]),
        (["2", "/", "a", "u", "d"], ["beta/audit"]),
        (["tab", "tab", "tab"], ["gamma", "beta", "alpha"]),
        (["left", "left", "2", "1"], ["gamma", "beta", "alpha"]),
    ],
)
def test_keys_choose_view_order_and_filter(sample: Sample, keys: list[str], expected: list[str]) -> None:
    assert names(sample, after(keys, sample)) == expected


def test_enter_opens_the_selected_row_and_escape_returns(sample: Sample) -> None:
    opened = after(["down", "enter"], sample)

    assert opened.about == "beta"
    assert names(sample, opened) == ["audit:0", "audit:1", "default:0", "default:1"]
    assert names(sample, pressed(opened, "escape", sample, 80)) == ["gamma", "beta", "alpha"]
    assert pressed(opened, "enter", sample, 80) == opened


def test_a_connection_opens_its_streams(sample: Sample) -> None:
    state = after(["3", "/", "p", "u", "b", "enter", "enter"], sample)

    assert [row.stream.client_id for row in rows_of(sample, state) if row.stream is not None] == ["w1"]
    assert "w1" in "\n".join(text(sample, state, width=150))


def test_a_row_stays_selected_when_the_order_changes(sample: Sample) -> None:
    assert after(["end", "s", "down"], sample).selected == "alpha"
    assert after(["end", "up"], sample).selected == "beta"
    assert after(["page down", "home"], sample).selected == "gamma"


@pytest.mark.parametrize("width", [80, 150])
@pytest.mark.parametrize("keys", [[], ["2"], ["3"], ["enter"], ["/"], ["p"]])
def test_the_screen_fits_the_terminal(sample: Sample, keys: list[str], width: int) -> None:
    lines = text(sample, after(keys, sample), width=width)

    assert len(lines) == 20
    assert max(map(len, lines)) <= width
    assert "forebay top" in lines[0]


def test_numbers_are_whole_and_names_are_cut_where_the_terminal_is_narrow(sample: Sample) -> None:
    figures = sample.figures
    assert figures is not None
    long = replace(figures, sinks=[replace(one, name=one.name * 12) for one in figures.sinks])
    lines = text(Sample(long), State())

    assert "empty in" in lines[3]
    assert [line.split()[-1] for line in lines[4:6]] == ["never", "never"]
    assert "…" in lines[4]


def test_a_list_that_is_longer_than_the_screen_scrolls_to_the_selected_row(sample: Sample) -> None:
    shown = "\n".join(text(sample, after(["end"], sample), height=6))

    assert "alpha" in shown
    assert "gamma" not in shown


def test_an_outage_is_named_with_its_time_beside_the_last_figures(sample: Sample) -> None:
    now = datetime.now(UTC)
    gone = replace(sample, problem="connection refused", problem_since=now - timedelta(seconds=12))
    lines = text(gone, State(), now=now)

    assert "no answer for 12.0 s: connection refused" in lines[0]
    assert "gamma" in "\n".join(lines)


def test_the_end_does_not_wait_for_a_call_that_hangs() -> None:
    started, released = threading.Event(), threading.Event()

    def hang() -> Figures:
        started.set()
        released.wait(60.0)
        raise BrokerUnavailable("the client was closed", reason=Reason.UNREACHABLE)

    with Poller(hang, 60.0, lambda: None) as poller:
        started.wait(60.0)
        began = time.monotonic()
    took_s = time.monotonic() - began
    released.set()

    assert took_s < 30.0
    assert poller.sample.figures is None


def test_before_the_first_answer_the_screen_is_empty() -> None:
    assert "waiting for the first answer" in text(Sample(), State())[0]
    assert pressed(State(), "down", Sample(), 80) == State()


def test_q_ends_and_unknown_keys_change_nothing(sample: Sample) -> None:
    assert after(["q"], sample).is_over
    assert after(["x", "page up"], sample).view == "sinks"
    assert after(["p"], sample).is_paused


def test_a_failed_update_keeps_the_figures_and_the_time_of_the_first_failure(figures: Figures) -> None:
    answers: list[Figures | None] = [figures, None, None, figures]

    def answer() -> Figures:
        found = answers.pop(0)
        if found is None:
            raise BrokerUnavailable("connection refused", reason=Reason.UNREACHABLE)
        return found

    poller = Poller(answer, 60.0, lambda: None)
    poller.poll()
    poller.poll()
    first = poller.sample
    poller.poll()

    assert (first.figures, first.problem) == (figures, "connection refused")
    assert poller.sample.problem_since == first.problem_since
    poller.poll()
    assert poller.sample == Sample(figures)
