"""`forebay lag` against a broker: the state in words, from what the broker knows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from forebay.cli import run
from forebay.cli.exits import ExitCode
from forebay.client import Client, Overflow, Record


def lag(client: Client, capsys: pytest.CaptureFixture[str]) -> Any:
    """Return the entry of the only partition."""
    assert run(["lag", "orders", "--endpoint", client.endpoints[0], "-o", "json"]) == ExitCode.OK
    [entry] = json.loads(capsys.readouterr().out)
    return entry


def test_the_state_follows_the_consumer(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    client.sinks.create("orders")
    empty = lag(client, capsys)
    client.publish("orders", [Record(b"x")] * 3)
    waiting = lag(client, capsys)
    with client.subscriber("orders") as deliveries:
        next(deliveries).ack(wait=True)
        flowing = lag(client, capsys)

    assert [entry["sink_flow"] for entry in (empty, waiting, flowing)] == ["idle", "no consumer", "flowing"]
    assert (waiting["consumers"], flowing["consumers"]) == (0, 1)
    assert waiting["appended_per_s"] > 0
    assert waiting["empty_s"] is None
    assert flowing["settled_per_s"] > 0


def test_a_sink_that_drops_records_for_want_of_room_is_full(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    client.sinks.create("orders", max_disk_cache=1, overflow=Overflow.DROP_OLDEST)
    client.publish("orders", [Record(b"x")])
    client.publish("orders", [Record(b"x")])

    assert lag(client, capsys)["sink_flow"] == "full"
    assert run(["lag", "--endpoint", client.endpoints[0]]) == ExitCode.OK
    assert "full" in capsys.readouterr().out


def test_a_watch_of_no_sink_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lag", "--watch"]) == ExitCode.USAGE
    assert "--watch requires a sink" in capsys.readouterr().err
