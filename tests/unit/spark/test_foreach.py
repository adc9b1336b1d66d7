"""Calls of Spark for each partition and row, and errors with a remedy."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import Row

from forebay.client import Client, Record, ReplayedRecord, testing
from forebay.client.testing import TestBroker
from forebay.spark.errors import ForebaySparkError
from forebay.spark.foreach import ForeachPublisher

EVENT_TIME = dt.datetime(2026, 1, 31, tzinfo=dt.UTC)


@pytest.fixture
def orders(broker: TestBroker) -> TestBroker:
    """A broker with the sink `orders`."""
    with broker.client() as client:
        client.sinks.create("orders")
    return broker


def publishing(broker: TestBroker, make: Any = lambda row: row.text, sink: str = "orders") -> ForeachPublisher:
    """Return a publisher as a task gets it: pickled."""
    made: ForeachPublisher = cloudpickle.loads(
        cloudpickle.dumps(ForeachPublisher(sink, make, {"endpoint": broker.endpoint}))
    )
    return made


def stored(broker: TestBroker) -> list[ReplayedRecord]:
    with broker.client() as client:
        found = client.replay("orders", partition=0)
        return [record for record in found if isinstance(record, ReplayedRecord)]


def test_a_row_makes_a_record_several_or_none(orders: TestBroker) -> None:
    whole = Record(b"whole", key=b"k", headers=[("h", b"1")], event_time=EVENT_TIME)
    made = {"text": "é", "bytes": b"\xff", "none": None, "several": ["a", b"b", Record(b"c")], "whole": whole}
    one = publishing(orders, lambda row: made[row.text])

    assert one.open(0, 0)
    for text in made:
        one.process(Row(text=text))
    one.close(None)

    records = stored(orders)
    assert [record.value for record in records] == ["é".encode(), b"\xff", b"a", b"b", b"c", b"whole"]
    assert (records[-1].key, records[-1].headers, records[-1].event_time) == (b"k", (("h", b"1"),), EVENT_TIME)


def test_a_partition_that_is_closed_is_on_the_brokers_disk(orders: TestBroker) -> None:
    one = publishing(orders)
    one.open(0, 0)
    one.process(Row(text="row"))

    one.close(None)

    with orders.client() as client:
        assert client.sinks.stats("orders").records == 1


def test_a_partition_that_failed_waits_for_nothing() -> None:
    with testing.broker() as broker:
        with broker.client() as client:
            client.sinks.create("orders")
        one = ForeachPublisher("orders", str, {"endpoint": broker.endpoint, "delivery_timeout_s": "1"})
        one.open(0, 0)
    one.process(Row(text="row"))

    one.close(RuntimeError("the system of my own is away"))

    with pytest.raises(ForebaySparkError, match="PUBLISHER_CLOSED"):
        one.process(Row(text="later"))


def test_a_partition_whose_records_are_not_durable_is_not_done() -> None:
    with testing.broker() as broker:
        with broker.client() as client:
            client.sinks.create("orders")
        one = ForeachPublisher("orders", str, {"endpoint": broker.endpoint, "delivery_timeout_s": "1"})
        one.open(0, 0)
    one.process(Row(text="row"))

    with pytest.raises(ForebaySparkError, match="Could not write to sink 'orders'"):
        one.close(None)


def test_a_partition_that_was_never_opened_is_closed_all_the_same(orders: TestBroker) -> None:
    publishing(orders).close(RuntimeError("open failed"))


def test_a_sink_that_is_missing_is_reported_with_the_command_that_makes_it(broker: TestBroker) -> None:
    with pytest.raises(ForebaySparkError, match="SINK_NOT_FOUND") as error:
        publishing(broker, sink="nowhere").open(0, 0)

    assert "forebay sink create nowhere" in error.value.remedy


def test_a_record_that_no_sink_takes_is_reported_with_its_bound(orders: TestBroker) -> None:
    one = publishing(orders)
    one.open(0, 0)

    with pytest.raises(ForebaySparkError, match="RECORD_TOO_LARGE"):
        one.process(Row(text="x" * (9 << 20)))

    one.close(RuntimeError("as Spark would"))


def test_rows_are_published_at_least_once_whatever_else_is_asked_for(orders: TestBroker) -> None:
    with pytest.raises(ForebaySparkError, match="Option wrong is unknown"):
        ForeachPublisher("orders", str, {"wrong": "x"})
    one = ForeachPublisher("orders", str, {"endpoint": orders.endpoint, "delivery": "exactly_once"})
    one.open(0, 7)
    one.process(Row(text="x"))
    one.close(None)

    with Client(orders.endpoint) as client:
        assert client.sinks.stats("orders").staged_records == 0
        assert list(client.epochs.list("orders")) == []
