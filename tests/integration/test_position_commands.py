"""`forebay position ...` against a broker."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from forebay.broker.embedded import BrokerServer
from forebay.cli import run
from forebay.cli.exits import ExitCode
from forebay.client import Client, InvalidArgument, Record
from forebay.client.positions.position import WRITE_MARK, PositionKey, SavedPosition
from forebay.client.positions.stores import memory
from forebay.client.positions.stores.memory import MemoryPositions


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


def test_positions_are_listed_with_the_records_after_them_and_deleted(
    broker: BrokerServer, orders: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    [listed] = said(broker, capsys, "position", "list")
    none = said(broker, capsys, "position", "list", "default/audit/")
    deleted = said(broker, capsys, "position", "delete", "orders", "billing", "--yes")

    assert (listed["consumer"], listed["sink"], listed["partition"]) == ("billing", "orders", 0)
    assert (listed["kind"], listed["offset"], listed["behind"], listed["epoch"]) == ("position", 3, 2, 1)
    assert none == []
    assert deleted == {"deleted": ["default/billing/orders/0"]}
    assert said(broker, capsys, "position", "list") == []


def test_damaged_positions_are_listed_and_deleted_and_other_files_are_left_out(
    broker: BrokerServer, orders: Client, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = f"file://{tmp_path}"
    with orders.consumer("orders", "billing", store=store, follow=False) as consumer:
        assert sum(len(batch) for batch in consumer) == 5
    [position] = tmp_path.glob("default/billing/orders/*")
    position.write_bytes(b"no document")
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "default" / "billing" / "orders" / "notes").write_text("mine")

    [listed] = said(broker, capsys, "position", "list", "--store", store)
    shown = run(["position", "list", "--store", store, "--endpoint", broker.endpoint])
    text = capsys.readouterr().out
    deleted = said(broker, capsys, "position", "delete", "orders", "billing", "--store", store, "--yes")

    assert (listed["kind"], listed["consumer"]) == ("damaged", "billing")
    assert (listed["offset"], listed["saved_at"]) == (None, None)
    assert (shown, "damaged: delete it" in text) == (ExitCode.OK, True)
    assert deleted == {"deleted": ["default/billing/orders/0"]}
    assert (position.parent / "notes").exists()


def test_a_position_of_a_deleted_sink_is_listed_as_one_of_another_sink(
    broker: BrokerServer, orders: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    orders.sinks.delete("orders", force=True)

    assert run(["position", "list", "--endpoint", broker.endpoint]) == ExitCode.OK
    assert "other sink" in capsys.readouterr().out


def test_a_query_that_writes_is_listed_as_such_and_without_an_offset(
    broker: BrokerServer, orders: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    key = str(PositionKey("spark", "ingest" + WRITE_MARK, "orders", 0))
    query = SavedPosition(orders.sinks.get("orders").incarnation, 41, 2, "query-7", datetime.now(UTC))
    orders.position_store("broker:").compare_and_write(key, query.encode(), None)

    [listed] = said(broker, capsys, "position", "list", "spark/")
    run(["position", "list", "spark/", "--endpoint", broker.endpoint])
    table = capsys.readouterr().out

    assert (listed["kind"], listed["consumer"]) == ("write", "ingest.write")
    assert (listed["offset"], listed["behind"]) == (None, None)
    assert (listed["query"], listed["first_micro_batch"], listed["epoch"]) == ("query-7", 41, 2)
    assert "query-7, from micro-batch 41 on" in " ".join(table.split())
    assert said(broker, capsys, "position", "delete", "orders", "ingest.write", "--namespace", "spark", "-y") == {
        "deleted": [key]
    }


def test_no_consumer_has_the_name_of_a_query_that_writes(orders: Client) -> None:
    with pytest.raises(InvalidArgument, match="a name that does not end in"):
        orders.consumer("orders", "ingest.write")


def test_a_store_with_an_unknown_scheme_is_wrong_usage(
    broker: BrokerServer, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["position", "list", "--store", "ftp://host", "--endpoint", broker.endpoint]

    assert run(words) == ExitCode.USAGE
    assert "must be a URL that begins with" in capsys.readouterr().err


class Closable(MemoryPositions):
    """Store that counts how often it was closed."""

    closed = 0

    def close(self) -> None:
        self.closed += 1


def test_a_command_closes_the_store_that_it_opens(
    broker: BrokerServer, orders: Client, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Closable()
    monkeypatch.setitem(memory._SHARED, "commands", store)

    said(broker, capsys, "position", "list", "--store", "memory:commands")
    assert store.closed == 1
    said(broker, capsys, "position", "delete", "orders", "billing", "--store", "memory:commands", "--dry-run")
    assert store.closed == 2
