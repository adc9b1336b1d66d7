"""One screen about a broker, with an exit code for scripts."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from forebay.broker.embedded import BrokerServer
from forebay.cli import run
from forebay.cli.exits import ExitCode
from forebay.client import Client, Overflow, Record, ResourceExhausted


@pytest.fixture
def broker() -> Iterator[BrokerServer]:
    with BrokerServer.in_memory() as broker:
        yield broker


@pytest.fixture
def client(broker: BrokerServer) -> Iterator[Client]:
    with Client(broker.endpoint) as client:
        client.sinks.create("orders")
        yield client


def test_a_broker_without_needs_ends_with_0(
    broker: BrokerServer, client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["status", "--strict", "-e", broker.endpoint]) == ExitCode.OK
    out = capsys.readouterr().out

    assert "serving for" in out
    assert "none: no backup_target is set" in out
    assert "Nothing needs attention." in out


def test_records_that_wait_without_a_consumer_are_a_warning_that_fails_only_strict_runs(
    broker: BrokerServer, client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    client.publish("orders", [Record(b"x")] * 3)

    assert run(["status", "-e", broker.endpoint]) == ExitCode.OK
    assert "3 records wait for 'default'" in " ".join(capsys.readouterr().out.split())
    assert run(["status", "--strict", "-e", broker.endpoint]) == ExitCode.FAILED


def test_a_full_sink_ends_with_1_and_is_the_first_of_the_list(
    broker: BrokerServer, client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    client.sinks.create("small", max_total_bytes=1 << 20, overflow=Overflow.REJECT)
    client.publish("orders", [Record(b"x")])
    client.publish("small", [Record(bytes(900_000))])
    with pytest.raises(ResourceExhausted):
        client.publish("small", [Record(bytes(900_000))])

    assert run(["status", "-e", broker.endpoint, "-o", "json"]) == ExitCode.FAILED

    [found] = json.loads(capsys.readouterr().out)
    assert found["is_well"] is False
    assert (found["needs"][0]["sink"], found["needs"][0]["severity"]) == ("small", "critical")
    assert found["needs"][0]["command"] == "forebay lag small"
    assert (found["broker"]["state"], found["broker"]["sinks"], found["waiting"]) == ("serving", 2, 2)


def test_a_broker_that_does_not_answer_ends_with_4(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["status", "-e", "127.0.0.1:1"]) == ExitCode.UNAVAILABLE
    assert "no broker answers" in capsys.readouterr().err
