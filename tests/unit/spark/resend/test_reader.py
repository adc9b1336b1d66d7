"""Driven as Spark drives it: what was nacked is leased, read and settled by committing, over restarts of both sides."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxRows

from forebay.broker.embedded import BrokerServer
from forebay.broker.storage.store.memory import MemoryStore
from forebay.client import Client, Record
from forebay.client.testing import TestBroker
from forebay.spark import ForebayDataSource, ForebaySparkError
from forebay.spark.resend.reader import ForebayResendReader

ALL = ReadAllAvailable()


def reader(endpoint: str, **options: str) -> ForebayResendReader:
    """Return what a query gets when it starts, or starts again."""
    given = {"endpoint": endpoint, "sink": "orders", "mode": "resend", "subscription": "default"} | options
    source = ForebayDataSource(given)
    found = source.streamReader(source.schema())
    assert isinstance(found, ForebayResendReader)
    return found


def failed(client: Client, *nacked: int, records: int = 10, **settings: Any) -> None:
    """A consumer has nacked some records, and acked the others."""
    client.sinks.create("orders", exist_ok=True, ordering="RELAXED", **settings)
    client.publish("orders", [Record(b"%d" % n) for n in range(records)], partition=0)
    again(client, *nacked)


def again(client: Client, *nacked: int) -> None:
    """A consumer has nacked some of what there is for it, and acked the others."""
    pulled = client.pull("orders", max_records=1_000)
    client.nack("orders", [record for record in pulled if record.offset in nacked], delay_s=0.0)
    client.ack("orders", [record for record in pulled if record.offset not in nacked])


def latest(query: ForebayResendReader, start: dict[str, Any], limit: ReadLimit = ALL) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(query.latestOffset(json.loads(json.dumps(start)), limit)))
    return found


def rows(query: ForebayResendReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    """Return the offsets that the tasks of a micro-batch read."""
    parts = query.partitions(start, end)
    return [row["offset"] for part in parts for batch in query.read(part) for row in batch.to_pylist()]


def account(client: Client) -> tuple[int, int, int]:
    """Return acked, pending and leased records of the partition; the account balances."""
    stats = client.sinks.stats("orders")
    assert stats.identity_ok
    part = stats.subscriptions[0].partitions[0]
    return part.acked, part.pending, part.leased_records


@pytest.fixture
def client(broker: TestBroker) -> Iterator[Client]:
    with broker.client() as one:
        yield one


def test_nacked_records_are_read_withheld_from_the_consumer_and_settled_by_the_commit(
    broker: TestBroker, client: Client
) -> None:
    failed(client, 2, 3, 7)
    query = reader(broker.endpoint)
    start = query.initialOffset()
    first = latest(query, start)

    assert rows(query, start, first) == [2, 3, 7]
    assert account(client) == (7, 3, 3)
    assert client.pull("orders") == []
    assert latest(query, first) == first
    query.commit(first)

    assert account(client) == (10, 0, 0)
    assert query.initialOffset() == start
    assert query.partitions(first, first) == []


def test_a_set_holds_as_much_as_the_limit_allows_and_tasks_as_much_as_they_may(
    broker: TestBroker, client: Client
) -> None:
    failed(client, *range(8))
    query = reader(broker.endpoint, maxRecordsPerTrigger="5", max_records_per_split="2")
    start = query.initialOffset()

    first = latest(query, start, query.getDefaultReadLimit())
    second = latest(query, first, query.getDefaultReadLimit())

    assert query.getDefaultReadLimit() == ReadMaxRows(5)
    assert reader(broker.endpoint).getDefaultReadLimit() == ReadMaxRows(10_000)
    assert reader(broker.endpoint, maxBytesPerTrigger="5").getDefaultReadLimit() == ReadMaxBytes(5)
    assert len(query.partitions(start, first)) == 3
    assert rows(query, start, first) + rows(query, first, second) == list(range(8))


def test_a_batch_that_is_run_again_by_another_process_has_the_same_records_and_holds_them(
    broker: TestBroker, client: Client
) -> None:
    failed(client, 2, 7)
    before = reader(broker.endpoint)
    end = latest(before, before.initialOffset())
    query = reader(broker.endpoint)

    start = query.initialOffset()

    assert start != before.initialOffset()
    assert rows(query, start, end) == [2, 7]
    assert latest(query, end) == end
    assert account(client) == (10, 0, 0)


def test_a_set_that_was_leased_and_not_planned_is_the_one_that_is_leased_next(
    broker: TestBroker, client: Client
) -> None:
    """The driver died before it wrote down where the batch ends."""
    failed(client, 2, 7)
    before = reader(broker.endpoint, maxRecordsPerTrigger="1")
    first = latest(before, before.initialOffset(), ReadMaxRows(1))
    planned = latest(before, first, ReadMaxRows(1))

    assert latest(reader(broker.endpoint), first) == planned


def test_a_set_that_another_process_has_settled_meanwhile_is_still_read_and_said(
    broker: TestBroker, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    failed(client, 2, 7)
    before = reader(broker.endpoint)
    end = latest(before, before.initialOffset())
    client.resends.release("orders", holder=f"{end['query']}:1")
    taken = client.pull("orders", max_records=1)
    query = reader(broker.endpoint)

    with caplog.at_level(logging.WARNING):
        found = rows(query, query.initialOffset(), end)
        query.commit(end)

    assert found == [2, 7]
    assert (
        "of a batch are settled or leased by another holder sink=orders subscription=default records=1" in caplog.text
    )
    assert "are leased by another holder and will be processed again" in caplog.text
    assert [one.outcome for one in client.ack("orders", taken)] == ["OK"]
    assert account(client) == (10, 0, 0)


def test_available_now_reads_what_was_in_the_retry_queue_at_the_start(broker: TestBroker, client: Client) -> None:
    failed(client, 2, 3, 7)
    query = reader(broker.endpoint)
    start = query.initialOffset()
    query.prepareForTriggerAvailableNow()
    client.publish("orders", [Record(b"x")] * 5, partition=0)
    again(client, 2, 3, 7, 11, 12)

    first = latest(query, start, ReadMaxRows(2))
    second = latest(query, first, ReadMaxRows(2))

    assert rows(query, start, first) + rows(query, first, second) == [2, 3, 7]
    assert latest(query, second) == second
    assert account(client) == (13, 2, 0)


def test_a_record_delayed_by_its_nack_is_read_before_it_is_due_only_on_request(
    broker: TestBroker, client: Client
) -> None:
    client.sinks.create("orders", ordering="RELAXED")
    client.publish("orders", [Record(b"0")])
    client.nack("orders", client.pull("orders"), delay_s=3_600.0)
    waiting, asking = reader(broker.endpoint), reader(broker.endpoint, resend_before_due="true")
    start = waiting.initialOffset()

    assert latest(waiting, start) == start
    assert rows(asking, start, latest(asking, start)) == [0]


def test_over_a_restart_of_the_broker_a_batch_continues(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore()
    with BrokerServer.in_memory(store) as server, Client(server.endpoint) as client:
        failed(client, 2, 7)
        before = reader(server.endpoint)
        end = latest(before, before.initialOffset())
        before.stop()
    with BrokerServer.in_memory(store.reopen()) as server, Client(server.endpoint) as client:
        query = reader(server.endpoint)

        assert rows(query, query.initialOffset(), end) == [2, 7]
        assert client.pull("orders") == []
        query.commit(end)
        query.stop()

        assert account(client) == (10, 0, 0)
    assert not caplog.records


def test_a_commit_waits_for_a_broker_that_is_unreachable_and_is_made_good_before_the_next_set() -> None:
    store = MemoryStore()
    with BrokerServer.in_memory(store) as server, Client(server.endpoint) as client:
        failed(client, 2, 7)
        query = reader(server.endpoint, connect_timeout_s="0.1")
        end = latest(query, query.initialOffset())
    query.commit(end)
    with pytest.raises(ForebaySparkError, match="UNREACHABLE"):
        latest(query, end)
    query.stop()
    with BrokerServer.in_memory(store.reopen()) as server, Client(server.endpoint) as client:
        later = reader(server.endpoint)

        assert latest(later, end) == end
        assert account(client) == (10, 0, 0)


def test_sinks_subscriptions_and_offsets_that_cannot_be_read_are_reported_with_the_remedy(
    broker: TestBroker, client: Client
) -> None:
    client.sinks.create("orders")
    strict = reader(broker.endpoint)
    start = strict.initialOffset()
    nobody = reader(broker.endpoint, subscription="nobody")

    with pytest.raises(ForebaySparkError, match="ordering=RELAXED") as refused:
        latest(strict, start)
    assert "ORDERING_STRICT" in str(refused.value)
    with pytest.raises(ForebaySparkError, match="forebay subscription list"):
        latest(nobody, start)
    with pytest.raises(ForebaySparkError, match="none of mode resend"):
        latest(strict, {"incarnation": "i", "partitions": {"0": 3}})
    client.sinks.delete("orders")
    client.sinks.create("orders", ordering="RELAXED")
    with pytest.raises(ForebaySparkError, match="deleted and recreated"):
        latest(strict, start)
