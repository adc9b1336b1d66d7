"""`forebay subscription ...` and `forebay sink seek` against a broker."""

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
    """The sink ``orders`` with five records."""
    client.sinks.create("orders")
    client.publish("orders", [Record(b"x")] * 5)
    return client


def said(broker: BrokerServer, capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    """Return the JSON output of a command that succeeds."""
    assert run([*words, "--endpoint", broker.endpoint, "-o", "json"]) == ExitCode.OK
    return json.loads(capsys.readouterr().out)


def test_a_subscription_is_made_listed_moved_and_deleted(
    broker: BrokerServer, orders: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    made = said(broker, capsys, "subscription", "create", "orders", "audit", "--start", "0=3")
    again = said(broker, capsys, "subscription", "create", "orders", "audit", "--start", "0=3", "--exist-ok")
    listed = said(broker, capsys, "subscription", "list", "orders")
    moved = said(broker, capsys, "subscription", "seek", "orders", "audit", "--to", "1")
    default = said(broker, capsys, "sink", "seek", "orders", "--to", "latest", "-p", "0", "--yes")
    deleted = said(broker, capsys, "subscription", "delete", "orders", "audit", "--yes")

    assert (made["name"], made["start"], again) == ("audit", {"0": 3}, made)
    assert [one["name"] for one in listed] == ["audit", "default"]
    assert moved == [{"partition": 0, "start_offset": 1, "trimmed": None}]
    assert default[0]["start_offset"] == 5
    assert deleted == {"deleted": "audit", "sink": "orders"}
    assert [one.name for one in orders.subscriptions.list("orders")] == ["default"]


def test_people_get_tables(broker: BrokerServer, orders: Client, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (
        ["subscription", "create", "orders", "audit", "--start", "latest"],
        ["subscription", "list", "orders"],
        ["subscription", "seek", "orders", "audit", "--to", "earliest"],
        ["subscription", "delete", "orders", "audit", "-y"],
    ):
        assert run([*words, "--endpoint", broker.endpoint]) == ExitCode.OK

    out = capsys.readouterr().out
    assert "created audit at latest" in out
    assert "subscriptions of orders" in out
    assert "deleted audit" in out


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["subscription", "seek", "orders", "default", "--to", "9", "--yes"], ExitCode.REFUSED),
        (["subscription", "seek", "orders", "default", "--to", "soon"], ExitCode.USAGE),
        (["subscription", "seek", "orders", "nobody", "--to", "0"], ExitCode.NOT_FOUND),
        (["subscription", "create", "orders", "a b"], ExitCode.USAGE),
        (["subscription", "create", "orders", "default"], ExitCode.REFUSED),
        (["subscription", "delete", "orders", "default", "--yes"], ExitCode.REFUSED),
        (["subscription", "list", "nothing"], ExitCode.NOT_FOUND),
    ],
)
def test_a_refusal_ends_with_a_code_and_one_sentence(
    broker: BrokerServer, orders: Client, capsys: pytest.CaptureFixture[str], words: list[str], code: ExitCode
) -> None:
    assert run([*words, "--endpoint", broker.endpoint]) == code
    assert "Traceback" not in capsys.readouterr().err
