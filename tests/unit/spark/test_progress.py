"""Spark's metrics of a micro-batch appear with the sink's; an unreachable broker stops no query."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from forebay.client import Client, Record, Stage
from forebay.client.testing import TestBroker
from forebay.spark import progress
from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.write import write_options
from forebay.spark.progress import Progress, QueryProgress, SinkProgress, sink_progress
from forebay.spark.write import transaction
from forebay.spark.write.epochs import StagedAttempt

QUERY = "b1946ac9-2492-4d23-9f0e-0123456789ab"
OTHER = QUERY.replace("b", "c")


@pytest.fixture
def client(broker: TestBroker) -> Iterator[Client]:
    with broker.client() as made:
        made.sinks.create("orders", partitions=2)
        yield made


def stage(client: Client, query: str, epoch: int, *rows: bytes, name: str = "orders") -> StagedAttempt:
    """Stage rows of a micro-batch."""
    ticket = client.epochs.take_ticket("orders")
    where = Stage(producer=f"{query}:{name}", write_name=name, epoch=epoch, run="run", ticket=ticket)
    with client.publisher("orders", stage=where) as publisher:
        publisher.send_many(rows, partition=0)
        publisher.flush()
        return StagedAttempt(where, publisher.staged().parts)


def commit(broker: TestBroker, *staged: StagedAttempt) -> None:
    target = write_options({"sink": "orders", "endpoint": broker.endpoint}, {}).target
    transaction.commit([(target, staged)], patience_s=5)


def event(**changed: Any) -> Any:
    """Event that Spark passes to a listener after a micro-batch."""
    found = {
        "id": QUERY,
        "name": "birds",
        "batchId": 4,
        "numInputRows": 30,
        "processedRowsPerSecond": 12.5,
        "durationMs": {"triggerExecution": 160},
        **changed,
    }
    return SimpleNamespace(progress=SimpleNamespace(**found))


def unused_endpoint() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def test_an_empty_sink_has_no_epoch_and_no_lag(client: Client) -> None:
    assert sink_progress(client, "orders", QUERY) == SinkProgress("orders", None, 0, 0, 0.0)


def test_the_last_epoch_is_that_of_the_query_under_all_its_names(broker: TestBroker, client: Client) -> None:
    commit(broker, stage(client, QUERY, 3, b"a", b"b"))
    commit(broker, stage(client, QUERY, 5, b"c", name="second"))
    commit(broker, stage(client, OTHER, 9, b"d", name="third"))
    stage(client, QUERY, 6, b"e", b"f", b"g")

    found = sink_progress(client, "orders", QUERY)

    assert (found.last_epoch, found.staged_records, found.pending) == (5, 3, 4)
    assert sink_progress(client, "orders", OTHER).last_epoch == 9


def test_the_lag_is_that_of_the_slowest_subscription_over_all_partitions(client: Client) -> None:
    client.subscriptions.create("orders", "slow")
    for partition in (0, 1):
        client.publish("orders", [Record(b"x")] * 3, partition=partition)
    client.ack("orders", client.pull("orders", max_records=100))

    found = sink_progress(client, "orders", QUERY)

    assert found.pending == 6
    assert found.pending_age_s > 0


def test_a_micro_batch_is_reported_with_the_named_sinks(broker: TestBroker, client: Client) -> None:
    client.sinks.create("others")
    commit(broker, stage(client, QUERY, 4, b"a"))
    told: list[Progress] = []

    QueryProgress(["orders", "others"], told.append, {"endpoint": broker.endpoint}).onQueryProgress(event())

    [one] = told
    assert (one.query_id, one.name, one.batch_id, one.rows) == (QUERY, "birds", 4, 30)
    assert (one.rows_per_s, one.duration_ms) == (12.5, 160)
    assert [(state.sink, state.last_epoch, state.pending) for state in one.sinks] == [
        ("orders", 4, 1),
        ("others", None, 0),
    ]


def test_a_sink_that_cannot_be_asked_is_left_out_and_logged(
    broker: TestBroker, client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(progress, "PATIENCE_S", 0.2)
    told: list[Progress] = []

    with caplog.at_level(logging.WARNING, "forebay.spark"):
        QueryProgress(["orders", "gone"], told.append, {"endpoint": broker.endpoint}).onQueryProgress(event())
        QueryProgress(["orders"], told.append, {"endpoint": unused_endpoint()}).onQueryProgress(event(durationMs={}))

    assert [[state.sink for state in one.sinks] for one in told] == [["orders"], []]
    assert told[1].duration_ms == 0
    assert "sink=gone reason=SINK_NOT_FOUND" in caplog.text
    assert "sink=orders reason=" in caplog.text


def test_a_listener_with_wrong_options_is_not_made() -> None:
    with pytest.raises(ForebaySparkError, match="Option endpont is unknown"):
        QueryProgress(["orders"], print, {"endpont": "x:1"})
