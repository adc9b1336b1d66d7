"""`forebay position ...` against a broker."""

from __future__ import annotations

import json
from typing import Any

import pytest

from forebay.broker.embedded import BrokerServer
from forebay.cli import run
from forebay.cli.exits import ExitCode
from forebay.client import Client, Record


@pytest.fixture
def orders(client: Client) -> Client:
    """The sink ``orders`` with five records, of which the consumer ``billing`` has read three."""
    client.sinks.create("orders")
    client.publish("orders", [Record(b"x")] * 3)
    with client.consumer("orders", "billing", follow=False) as consumer:
        assert sum(len(batch) for batch in consumer) == 3
    client.publish("orders", [Record(b"x")] * 2)
    return client


def said(broker: BrokerServer, capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    """Return the JSON output of a command that succeeds."""
    assert run([*words, "--endpoint", broker.endpoint, "-o", "json"]) == ExitCode.OK
    return json.loads(capsys.readouterr().out)


def test_positions_are_listed_with_the_records_behind_them_and_deleted(
    broker: BrokerServer, orders: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    [listed] = said(broker, capsys, "position", "list")
    none = said(broker, capsys, "position", "list", "default/audit/")
    deleted = said(broker, capsys, "position", "delete", "orders", "billing")

    assert (listed["consumer"], listed["sink"], listed["partition"]) == ("billing", "orders", 0)
    assert (listed["offset"], listed["behind"], listed["epoch"]) == (3, 2, 1)
    assert none == []
    assert deleted == {"deleted": ["default/billing/orders/0"]}
    assert said(broker, capsys, "position", "list") == []


def test_a_position_of_a_deleted_sink_is_listed_as_one_of_another_sink(
    broker: BrokerServer, orders: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    orders.sinks.delete("orders", force=True)

    assert run(["position", "list", "--endpoint", broker.endpoint]) == ExitCode.OK
    assert "other sink" in capsys.readouterr().out


def test_a_store_with_an_unknown_scheme_is_wrong_usage(
    broker: BrokerServer, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["position", "list", "--store", "ftp://host", "--endpoint", broker.endpoint]

    assert run(words) == ExitCode.USAGE
    assert "must be a URL that begins with" in capsys.readouterr().err
