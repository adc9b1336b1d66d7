"""`forebay dlq redrive` shows its progress in a terminal, with a total where one call tells it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from forebay.broker.embedded import BrokerServer
from forebay.cli import run
from forebay.cli.exits import ExitCode
from forebay.client import Client, Record
from tests.support.terminal.answers import Terminal


@pytest.fixture
def endpoint() -> Iterator[str]:
    """A broker with a sink of three dead letters, and an empty sink."""
    with BrokerServer.in_memory() as broker, Client(broker.endpoint) as client:
        client.sinks.create("empty")
        client.sinks.create("orders", partitions=1)
        client.publish("orders", [Record(b"%d" % number) for number in range(3)])
        with client.subscriber("orders") as subscriber:
            left = 3
            while left:
                delivery = next(subscriber)
                left -= len(delivery)
                for record in delivery:
                    delivery.dead_letter("no such customer", offset=record.offset, wait=True)
        yield broker.endpoint


def shown(words: list[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """Return what a terminal gets of a redrive."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    assert run(["dlq", "redrive", *words]) == ExitCode.OK
    return terminal.plain()


@pytest.mark.parametrize(
    ("words", "bar"),
    [(["orders"], "3/3"), (["orders.dlq"], "3/3"), (["orders", "--error", "customer"], "3/?"), (["empty"], "0/?")],
    ids=["all", "all, by the dead-letter sink", "a filter", "none"],
)
def test_the_bar_has_a_total_where_it_is_known(
    words: list[str], bar: str, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert re.findall(r"\d+/[\d?]+", shown([*words, "-e", endpoint], monkeypatch))[-1] == bar


def test_a_program_gets_no_bar(
    endpoint: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shown(["orders", "-e", endpoint, "-o", "json"], monkeypatch) == ""
    assert '"redriven": 3' in capsys.readouterr().out
