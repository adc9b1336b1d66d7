"""`forebay replay` shows its progress in a terminal, while the records go elsewhere."""

from __future__ import annotations

import re

import pytest

from forebay.broker.embedded import BrokerServer
from forebay.cli import run
from forebay.cli.exits import ExitCode
from forebay.cli.inspect.replay import records_within
from forebay.client import Client, Durability, Record
from forebay.client.values.sinks import PartitionStats
from tests.support.terminal.answers import Terminal

BARS = [
    ([], "3/3"),
    (["--start", "1"], "2/2"),
    (["--end", "2"], "2/2"),
    (["--start", "1", "--end", "2"], "1/1"),
    (["--start-time", "2000-01-01T00:00"], "3/?"),
    (["--follow", "--end", "3"], "3/?"),
]


@pytest.mark.parametrize(("words", "shown"), BARS, ids=[" ".join(words) or "all records" for words, _ in BARS])
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

    assert re.findall(r"\d+/[\d?]+", terminal.plain())[-1] == shown
    assert "/" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("start", "end", "known"),
    [(None, None, 100), (130, None, 70), (0, 150, 50), (120, 1_000, 80), (180, 120, 0), (500, None, 0)],
)
def test_bounds_leave_what_is_stored_within_them(start: int | None, end: int | None, known: int) -> None:
    assert records_within([partition(records=100)], start, end) == known


@pytest.mark.parametrize(("start", "end"), [(130, None), (None, 150)])
def test_the_number_within_bounds_is_not_known_where_records_are_missing(start: int | None, end: int | None) -> None:
    assert records_within([partition(records=90)], start, end) is None
    assert records_within([partition(records=90)], None, None) == 90


def partition(records: int) -> PartitionStats:
    """A partition with the offsets 100 to 199."""
    return PartitionStats(
        partition=0,
        earliest_offset=100,
        next_offset=200,
        records=records,
        bytes=1_000,
        pages=2,
        dropped={},
        memory_records=0,
        memory_bytes=0,
        durability=Durability.DISK,
    )
