"""Commands that destroy ask at a terminal, need ``--yes`` without one, and show their effect with ``--dry-run``."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from forebay.broker.embedded import BrokerServer
from forebay.cli import run
from forebay.cli.exits import ExitCode
from forebay.client import Client, Record
from tests.support.terminal.answers import BusyTerminal, Terminal

EVERY = {
    "sink delete": ["sink", "delete", "orders", "--force"],
    "sink purge": ["sink", "purge", "orders", "--all"],
    "sink purge until": ["sink", "purge", "orders", "--until-time", "now"],
    "dlq purge": ["dlq", "purge", "orders", "--all"],
    "subscription delete": ["subscription", "delete", "orders", "audit"],
    "subscription seek": ["subscription", "seek", "orders", "audit", "--to", "latest"],
    "subscription seek to a time": ["subscription", "seek", "orders", "audit", "--to", "now"],
    "sink seek": ["sink", "seek", "orders", "--to", "3"],
    "position delete": ["position", "delete", "orders", "billing"],
}


@pytest.fixture
def orders(client: Client) -> Client:
    """Five records, a subscription, a saved position and a dead letter."""
    client.sinks.create("orders")
    client.subscriptions.create("orders", "audit")
    client.publish("orders", [Record(b"x")] * 5)
    rejected(client, "orders", "no such customer")
    with client.consumer("orders", "billing", start="earliest") as consumer:
        next(consumer).finish()
        consumer.save()
    return client


def rejected(client: Client, sink: str, error: str) -> None:
    """Reject the next record of a sink."""
    with client.subscriber(sink) as subscriber:
        delivery = next(subscriber)
        delivery.dead_letter(error, offset=delivery.first_offset, wait=True)


def facts(client: Client) -> Any:
    """Return everything that one of the commands could have destroyed."""
    sinks = {one.name: client.sinks.stats(one.name) for one in client.sinks.list()}
    return (
        {name: stats.records for name, stats in sinks.items()},
        {name: [(one.name, stats.pending(one.name)) for one in stats.subscriptions] for name, stats in sinks.items()},
        list(client.position_store().list("")),
    )


@pytest.mark.parametrize("words", EVERY.values(), ids=EVERY)
def test_without_a_terminal_nothing_is_destroyed_unless_it_is_confirmed(
    broker: BrokerServer, orders: Client, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    before = facts(orders)

    assert run([*words, "-e", broker.endpoint]) == ExitCode.USAGE
    assert "--yes" in capsys.readouterr().err
    assert run([*words, "-e", broker.endpoint, "-o", "json"]) == ExitCode.USAGE
    assert json.loads(capsys.readouterr().err)["reason"] == "NOT_CONFIRMED"
    assert facts(orders) == before

    assert run([*words, "--yes", "-e", broker.endpoint]) == ExitCode.OK
    assert facts(orders) != before


@pytest.mark.parametrize("words", [*EVERY.values(), ["dlq", "redrive", "orders"]], ids=[*EVERY, "dlq redrive"])
def test_a_dry_run_shows_the_effect_and_changes_nothing(
    broker: BrokerServer, orders: Client, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    before = facts(orders)

    assert run([*words, "--dry-run", "-e", broker.endpoint]) == ExitCode.OK
    assert "nothing was changed" in capsys.readouterr().out
    assert run([*words, "--dry-run", "-e", broker.endpoint, "-o", "json"]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out)["dry_run"] is True
    assert facts(orders) == before


@pytest.mark.parametrize(("answer", "code"), [("y\n", ExitCode.OK), ("n\n", ExitCode.FAILED), ("", ExitCode.FAILED)])
def test_at_a_terminal_the_answer_decides(
    broker: BrokerServer,
    orders: Client,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    code: ExitCode,
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    monkeypatch.setattr("sys.stderr", asked := Terminal())

    assert run(["sink", "delete", "orders", "--force", "-e", broker.endpoint]) == code

    assert "delete the sink orders with 5 stored records, 5 of them unsettled. Continue? [y/N]" in asked.getvalue()
    assert ("orders" in {one.name for one in orders.sinks.list()}) is (code is ExitCode.FAILED)


@pytest.mark.parametrize("words", [["--all"], ["--until-time", "2199-01-01T00:00:00+00:00"]])
def test_a_purge_leaves_what_was_published_while_it_asked(
    broker: BrokerServer, orders: Client, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    def publish() -> None:
        orders.publish("orders", [Record(b"new")] * 2)

    monkeypatch.setattr("sys.stdin", BusyTerminal(publish))
    monkeypatch.setattr("sys.stderr", asked := Terminal())

    assert run(["sink", "purge", "orders", *words, "-e", broker.endpoint]) == ExitCode.OK

    assert "5 records" in asked.getvalue()
    assert [record.value for record in orders.peek("orders")] == ["new"] * 2


@pytest.mark.parametrize("name", ["orders", "orders.dlq"])
def test_a_purge_of_dead_letters_leaves_what_was_rejected_while_it_asked(
    broker: BrokerServer, orders: Client, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("sys.stdin", BusyTerminal(lambda: rejected(orders, "orders", "later")))
    monkeypatch.setattr("sys.stderr", asked := Terminal())

    assert run(["dlq", "purge", name, "--all", "-e", broker.endpoint]) == ExitCode.OK

    assert f"drop 1 dead letter of {name}" in asked.getvalue()
    assert [one.error for one in orders.dead_letters.list("orders")] == ["later"]


def test_a_purge_of_dead_letters_leaves_the_first_one_of_a_sink_that_had_none(
    broker: BrokerServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.sinks.create("orders")
    client.publish("orders", [Record(b"x")])
    monkeypatch.setattr("sys.stdin", BusyTerminal(lambda: rejected(client, "orders", "later")))
    monkeypatch.setattr("sys.stderr", Terminal())

    assert run(["dlq", "purge", "orders", "--all", "-e", broker.endpoint]) == ExitCode.OK

    assert [one.error for one in client.dead_letters.list("orders")] == ["later"]


def test_dead_letters_of_a_sink_that_was_replaced_while_it_asked_stay(
    broker: BrokerServer, orders: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replace() -> None:
        orders.sinks.delete("orders", force=True, dead_letters=True)
        orders.sinks.create("orders")
        orders.publish("orders", [Record(b"x")])
        rejected(orders, "orders", "later")

    monkeypatch.setattr("sys.stdin", BusyTerminal(replace))
    monkeypatch.setattr("sys.stderr", asked := Terminal())

    assert run(["dlq", "purge", "orders", "--all", "-e", broker.endpoint]) == ExitCode.REFUSED

    assert "SINK_REPLACED" in asked.getvalue()
    assert [one.error for one in orders.dead_letters.list("orders")] == ["later"]


def test_a_seek_to_latest_skips_what_was_confirmed_and_nothing_that_came_later(
    broker: BrokerServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.sinks.create("orders", partitions=2)
    client.subscriptions.create("orders", "audit")
    client.publish("orders", [Record(b"x")] * 5, partition=0)

    def meanwhile() -> None:
        client.publish("orders", [Record(b"later")] * 3, partition=0)
        client.publish("orders", [Record(b"later")] * 2, partition=1)
        with client.subscriber("orders", subscription="audit") as subscriber:
            for delivery in subscriber:
                if delivery.partition == 1:
                    delivery.ack(wait=True)
                    break

    monkeypatch.setattr("sys.stdin", BusyTerminal(meanwhile))
    monkeypatch.setattr("sys.stderr", asked := Terminal())
    seek = ["subscription", "seek", "orders", "audit", "--to", "latest", "-e", broker.endpoint]

    assert run(seek) == ExitCode.OK

    [audit] = [one for one in client.sinks.stats("orders").subscriptions if one.name == "audit"]
    assert "skipping up to 5 records" in asked.getvalue()
    assert [(lane.watermark, lane.pending) for lane in audit.partitions] == [(5, 3), (2, 0)]


def test_a_seek_to_latest_of_one_partition_leaves_the_others(
    broker: BrokerServer, client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    client.sinks.create("orders", partitions=2)
    for partition in range(2):
        client.publish("orders", [Record(b"x")] * 2, partition=partition)
    seek = ["sink", "seek", "orders", "--to", "latest", "-p", "1", "--yes", "-e", broker.endpoint, "-o", "json"]

    assert run(seek) == ExitCode.OK

    assert [(one["partition"], one["start_offset"]) for one in json.loads(capsys.readouterr().out)] == [(1, 2)]


def test_a_seek_that_skips_nothing_needs_no_confirmation(broker: BrokerServer, orders: Client) -> None:
    assert run(["subscription", "seek", "orders", "audit", "--to", "earliest", "-e", broker.endpoint]) == ExitCode.OK


def test_a_dry_run_of_a_redrive_counts_by_cause(
    broker: BrokerServer, orders: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["dlq", "redrive", "orders", "--dry-run", "-e", broker.endpoint, "-o", "json"]) == ExitCode.OK

    found = json.loads(capsys.readouterr().out)
    assert (found["count"], found["complete"], found["causes"]) == (1, True, {"no such customer": 1})


def test_a_dry_run_of_a_seek_shows_each_partition(
    broker: BrokerServer, orders: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    seek = ["subscription", "seek", "orders", "audit", "--dry-run", "-e", broker.endpoint, "-o", "json", "--to"]

    assert run([*seek, "0=3"]) == ExitCode.OK
    [offset] = json.loads(capsys.readouterr().out)["partitions"]
    assert run([*seek, datetime.now(UTC).isoformat()]) == ExitCode.OK
    [time] = json.loads(capsys.readouterr().out)["partitions"]

    assert offset == {"partition": 0, "from": 0, "to": 3, "skipped_max": 3}
    assert time == {"partition": 0, "from": 0, "to": None, "skipped_max": 5}
