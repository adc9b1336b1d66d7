"""`forebay top` without a terminal: its figures as JSON, or a refusal."""

from __future__ import annotations

import json

import pytest

from forebay.broker.embedded import BrokerServer
from forebay.cli import run
from forebay.cli.exits import ExitCode
from forebay.client import Client, Record


def test_each_update_is_one_json_object(capsys: pytest.CaptureFixture[str]) -> None:
    with BrokerServer.in_memory() as broker, Client(broker.endpoint) as client:
        client.sinks.create("orders")
        client.publish("orders", [Record(b"x")])

        assert run(["top", "-e", broker.endpoint, "-o", "json", "-n", "2", "--interval", "200ms"]) == ExitCode.OK

    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert [one["sink"] for one in first["deliveries"]] == ["orders"]
    assert (first["brokers"][0]["state"], second["deliveries"][0]["records"]) == ("SERVING", 1)


def test_the_screen_needs_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["top"]) == ExitCode.USAGE
    assert "needs a terminal" in capsys.readouterr().err
