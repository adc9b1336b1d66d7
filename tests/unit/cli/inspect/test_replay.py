"""`forebay replay` shows its progress in a terminal, while the records go elsewhere."""

from __future__ import annotations

import re

import pytest

from forebay.broker.embedded import BrokerServer
from forebay.cli import run
from forebay.cli.exits import ExitCode
from forebay.client import Client, Record
from tests.support.terminal.answers import Terminal


@pytest.mark.parametrize(("words", "shown"), [([], "3/3"), (["--start", "1"], "2/?")], ids=["all records", "a part"])
def test_the_bar_has_a_total_where_it_is_known(
    words: list[str], shown: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with BrokerServer.in_memory() as broker:
        with Client(broker.endpoint) as client:
            client.sinks.create("orders", partitions=1)
            client.publish("orders", [Record(str(number).encode()) for number in range(3)])
        monkeypatch.setattr("sys.stderr", terminal := Terminal())

        assert run(["replay", "orders", *words, "-e", broker.endpoint]) == ExitCode.OK

    counts = re.findall(r"\d+/[\d?]+", re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", terminal.getvalue()))
    assert counts[-1] == shown
    assert "/" not in capsys.readouterr().out
