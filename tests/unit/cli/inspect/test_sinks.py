"""Commands about all sinks leave out a sink that is deleted while they ask."""

from __future__ import annotations

import pytest

from forebay.broker.embedded import BrokerServer
from forebay.cli import run
from forebay.cli.exits import ExitCode
from forebay.cli.inspect.sinks import stats_of
from forebay.client import Client, SinkNotFound
from forebay.client.admin.sinks import Sinks


def deleted_after_the_list(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Create two sinks, and delete one of them after the list of the next command."""
    client.sinks.create("orders")
    client.sinks.create("former")
    both = client.sinks.list()
    client.sinks.delete("former")
    monkeypatch.setattr(Sinks, "list", lambda _: both)


@pytest.mark.parametrize(
    "words", [["status"], ["lag"], ["lag", "--paths"], ["realtime", "status"], ["producers", "list"]]
)
def test_a_sink_that_is_deleted_meanwhile_is_left_out(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with BrokerServer.in_memory() as broker, Client(broker.endpoint) as client:
        deleted_after_the_list(client, monkeypatch)

        assert run([*words, "-e", broker.endpoint]) == ExitCode.OK

    shown = capsys.readouterr()
    assert "former" not in shown.out + shown.err


@pytest.mark.parametrize("words", [["lag"], ["realtime", "status"], ["producers", "list"]])
def test_a_sink_that_was_named_is_not_found(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with BrokerServer.in_memory() as broker:
        assert run([*words, "former", "-e", broker.endpoint]) == ExitCode.NOT_FOUND

    assert "former" in capsys.readouterr().err


def test_stats_are_those_of_the_named_sink_or_of_all_that_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    with BrokerServer.in_memory() as broker, Client(broker.endpoint) as client:
        deleted_after_the_list(client, monkeypatch)

        assert [one.name for one in stats_of(client, None)] == ["orders"]
        assert [one.name for one in stats_of(client, "orders")] == ["orders"]
        with pytest.raises(SinkNotFound):
            stats_of(client, "former")
