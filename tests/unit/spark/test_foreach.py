"""Calls of Spark for each partition and row, and errors with a remedy."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import Row

from forebay.client import Client, Record, ReplayedRecord, arrow, testing
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


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview], ids=lambda kind: str(kind.__name__))
def test_a_binary_value_of_any_type_is_one_record_an_empty_one_too(orders: TestBroker, kind: Any) -> None:
    made = {
        "value": kind(b"abc"),
        "empty": kind(b""),
        "several": [kind(b"a"), "b"],
        "record": Record(kind(b"whole"), key=kind(b"k"), headers=[("h", kind(b"1")), Row(key="i", value=kind(b"2"))]),
        "mapped": Record(kind(b""), headers={"h": kind(b"3"), "text": "é"}),
    }
    one = ForeachPublisher("orders", lambda row: made[row.text], {"endpoint": orders.endpoint})
    one.open(0, 0)

    for text in made:
        one.process(Row(text=text))
    one.close(None)

    records = stored(orders)
    assert [record.value for record in records] == [b"abc", b"", b"a", b"b", b"whole", b""]
    assert (records[4].key, records[4].headers) == (b"k", (("h", b"1"), ("i", b"2")))
    assert records[5].headers == (("h", b"3"), ("text", "é".encode()))


def test_a_binary_value_that_the_function_changes_later_is_published_as_it_was(orders: TestBroker) -> None:
    value = bytearray(b"before")
    one = ForeachPublisher("orders", lambda row: value, {"endpoint": orders.endpoint, "linger_ms": "60000"})
    one.open(0, 0)
    one.process(Row())

    value[:] = b"after"
    one.close(None)

    assert [record.value for record in stored(orders)] == [b"before"]


@pytest.mark.parametrize("made", [7, 1.5, [b"a", 7], Record("text"), Record(b"a", key=7)], ids=str)  # type: ignore[arg-type]
def test_a_value_that_is_no_record_is_reported_with_its_type(orders: TestBroker, made: Any) -> None:
    one = publishing(orders, lambda row: made)
    one.open(0, 0)

    with pytest.raises(ForebaySparkError, match=r"returned a value of type (int|float|str)") as error:
        one.process(Row())

    assert "json.dumps" in error.value.remedy
    one.close(RuntimeError("as Spark would"))


def test_headers_that_no_record_has_are_reported_as_before(orders: TestBroker) -> None:
    one = publishing(orders, lambda row: Record(b"a", headers=[("alone",)]))  # type: ignore[list-item]
    one.open(0, 0)

    with pytest.raises(ForebaySparkError, match="INVALID_PAGE"):
        one.process(Row())

    one.close(RuntimeError("as Spark would"))


def test_a_sink_is_created_if_the_options_say_so(broker: TestBroker) -> None:
    options = {"endpoint": broker.endpoint, "create_sink": "true", "partitions": "3"}
    for epoch in range(2):
        one = ForeachPublisher("orders", str, options)
        one.open(0, epoch)
        one.process(Row(text="x"))
        one.close(None)

    with broker.client() as client:
        assert client.sinks.get("orders").settings.partitions == 3
        assert client.sinks.stats("orders").records == 2


def test_the_size_of_a_page_is_that_of_the_options(orders: TestBroker) -> None:
    with orders.client() as client:
        client.sinks.update("orders", buffer_page_size=1)  # the broker stores pages of one commit together otherwise
    options = {"endpoint": orders.endpoint, "linger_ms": "60000", "page_bytes": "1024"}
    one = ForeachPublisher("orders", lambda row: b"x" * 600, options)
    one.open(0, 0)

    for _ in range(20):
        one.process(Row())
    one.close(None)

    with orders.client() as client:
        assert client.sinks.stats("orders").partitions[0].pages >= 20 // 2


def test_an_incomplete_page_waits_as_long_as_the_options_say(orders: TestBroker) -> None:
    patient, usual = (
        ForeachPublisher("orders", lambda row: b"x", {"endpoint": orders.endpoint, **options})
        for options in ({"linger_ms": "60000"}, {})
    )
    with orders.client() as client:
        for one in (patient, usual):
            one.open(0, 0)
            one.process(Row())

        watched = client.sinks.watch("orders", interval_s=0.1)
        stored = next(stats.records for stats in watched if stats.records)
        assert stored == 1, "only the later row is durable"

        for one in (patient, usual):
            one.close(None)
        assert client.sinks.stats("orders").records == 2


def test_records_are_not_published_to_a_sink_of_rows(orders: TestBroker) -> None:
    with orders.client() as client:
        client.schemas.register("orders", arrow.encode_schema(pa.schema([("id", pa.int64())])), previous=0)

    with pytest.raises(ForebaySparkError, match="holds rows with a schema, and these are records"):
        publishing(orders).open(0, 0)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"wrong": "x"}, "Option wrong is unknown"),
        ({"partition_by": "id"}, "Option partition_by has no effect on ForeachPublisher"),
        ({"writeName": "x"}, "Option write_name has no effect"),
        ({"connect_timeout_s": "5"}, "Option connect_timeout_s has no effect"),
        ({"delivery": "exactly_once"}, "ForeachPublisher publishes at least once"),
        ({"partitions": "3"}, "only for a sink that this write creates"),
    ],
    ids=str,
)
def test_an_option_without_an_effect_is_refused_in_the_driver(options: dict[str, str], why: str) -> None:
    with pytest.raises(ForebaySparkError, match=why):
        ForeachPublisher("orders", str, options)


def test_rows_are_published_at_least_once(orders: TestBroker) -> None:
    one = ForeachPublisher("orders", str, {"endpoint": orders.endpoint, "delivery": "at_least_once"})
    one.open(0, 7)
    one.process(Row(text="x"))
    one.close(None)

    with Client(orders.endpoint) as client:
        assert client.sinks.stats("orders").staged_records == 0
        assert list(client.epochs.list("orders")) == []
