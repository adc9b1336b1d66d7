"""A write is resolved from one incarnation of its sink, and goes whole into that one or nowhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql.types import IntegerType, StructField, StructType

from forebay.client import BrokerUnavailable, Client, ForebayError, arrow
from forebay.client.testing import TestBroker
from forebay.spark.connection.broker import SINKS
from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.write import Rows, Target, WriteOptions, write_options
from forebay.spark.write import jobs, transaction
from forebay.spark.write.epochs import WriteRun
from forebay.spark.write.jobs import batch_job, stream_job
from forebay.spark.write.record_schema import RowPlan, plan_rows
from forebay.spark.write.schema_registration import register
from forebay.spark.write.writer import DeferredJob, WriteJob, write_rows
from tests.support.proxies.tcp import TcpProxy

ROWS = StructType([StructField("price", IntegerType()), StructField("quantity", IntegerType())])
SWAPPED = StructType([StructField("quantity", IntegerType()), StructField("price", IntegerType())])
Resolve = Callable[[WriteOptions, RowPlan, StructType], WriteJob | DeferredJob]


@pytest.fixture
def orders(broker: TestBroker) -> TestBroker:
    """A broker with the sink `orders`."""
    with broker.client() as client:
        client.sinks.create("orders")
    return broker


def begun(broker: TestBroker, resolve: Resolve, **given: str) -> WriteJob:
    """Begin a write of price and quantity."""
    is_stream = resolve is stream_job
    options = write_options({"endpoint": broker.endpoint, "sink": "orders", **given}, {}, is_stream=is_stream)
    job = resolve(options, plan_rows(ROWS, Rows.AUTO), ROWS)
    assert isinstance(job, WriteJob)
    return job


def streamed(endpoint: str, **given: str) -> WriteJob | DeferredJob:
    """Begin a micro-batch of price and quantity."""
    values = {"endpoint": endpoint, "sink": "orders", "connect_timeout_s": "1", "delivery_timeout_s": "30", **given}
    return stream_job(write_options(values, {}, is_stream=True), plan_rows(ROWS, Rows.AUTO), ROWS)


def made_anew(client: Client, broker: TestBroker, rows: StructType = SWAPPED, **settings: int) -> str:
    """Delete the sink, make it with a schema of others, and return its incarnation."""
    client.sinks.delete("orders", force=True)
    made = client.sinks.create("orders", partitions=settings.get("partitions", 1))
    options = write_options({"endpoint": broker.endpoint, "sink": "orders"}, {})
    register(options.target, rows, patience_s=10)
    return made.incarnation


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
@pytest.mark.parametrize("resolve", [batch_job, stream_job])
def test_a_write_that_begins_after_its_sink_was_recreated_has_the_new_sinks_partitions_and_schema(
    orders: TestBroker, resolve: Resolve, delivery: str
) -> None:
    begun(orders, resolve, delivery=delivery)
    with orders.client() as client:
        made = made_anew(client, orders, partitions=3)
        schema = client.schemas.get("orders")

    job = begun(orders, resolve, delivery=delivery)

    assert (job.facts.incarnation, job.facts.partitions) == (made, 3)
    assert job.rows is not None
    assert (job.rows.version, job.rows.arrow_schema) == (schema.version, schema.arrow_schema)
    assert arrow.arrow_schema(schema).names == ["quantity", "price"]
    assert job.run is None or job.run.incarnation == made


@pytest.mark.parametrize("resolve", [batch_job, stream_job])
def test_a_write_that_does_not_fit_the_sink_that_was_recreated_is_refused_before_anything_is_staged(
    orders: TestBroker, resolve: Resolve
) -> None:
    begun(orders, resolve)
    text = StructType([StructField("price", StructType([StructField("amount", IntegerType())]))])
    with orders.client() as client:
        made_anew(client, orders, text)

        with pytest.raises(ForebaySparkError, match="price"):
            begun(orders, resolve)

        assert client.sinks.stats("orders").staged_tokens == 0


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_a_task_of_a_sink_that_was_recreated_since_the_write_began_writes_nothing(
    orders: TestBroker, delivery: str
) -> None:
    job = begun(orders, batch_job, delivery=delivery)
    with orders.client() as client:
        made = made_anew(client, orders)

        with pytest.raises(Exception, match="deleted and recreated") as refused:
            write_rows(job, iter(()), task_partition=0, clock=lambda: 0.0)

        assert job.facts.incarnation in str(refused.value)
        assert made in str(refused.value)
        assert client.sinks.stats("orders").records == 0


def test_a_failed_batch_closes_nothing_in_the_sink_that_was_recreated(
    orders: TestBroker, caplog: pytest.LogCaptureFixture
) -> None:
    job = begun(orders, batch_job)
    with orders.client() as client:
        made_anew(client, orders)
        assert job.run is not None

        transaction.close(job.options.target, job.run)

        assert list(client.epochs.list("orders")) == []
    assert "reason=SINK_REPLACED" in caplog.text


def test_a_sink_that_a_stream_has_seen_and_that_is_gone_is_made_again_where_the_options_say_so(
    orders: TestBroker,
) -> None:
    begun(orders, stream_job, create_sink="true")
    with orders.client() as client:
        client.sinks.delete("orders")

        job = begun(orders, stream_job, create_sink="true")

        assert job.facts.incarnation == client.sinks.get("orders").incarnation


def test_a_sink_that_a_stream_has_seen_and_that_is_gone_is_reported_with_advice(orders: TestBroker) -> None:
    begun(orders, stream_job)
    with orders.client() as client:
        client.sinks.delete("orders")

    with pytest.raises(ForebaySparkError, match="SINK_NOT_FOUND"):
        begun(orders, stream_job)


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_a_stream_whose_broker_was_never_known_fails_at_once(orders: TestBroker, delivery: str) -> None:
    with TcpProxy(orders.endpoint) as proxy:
        proxy.close()

        with pytest.raises(ForebaySparkError, match="Could not ask for sink 'orders'") as refused:
            streamed(proxy.endpoint, delivery=delivery)

    assert isinstance(refused.value.__cause__, BrokerUnavailable)


def test_a_stream_whose_broker_is_unavailable_after_its_sink_was_seen_begins_later(
    orders: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    def begin(options: WriteOptions, incarnation: str, *, patience_s: float) -> WriteRun | None:
        waits.append(patience_s)
        if len(waits) == 1:
            raise ForebaySparkError("The broker is away.", "Wait.") from BrokerUnavailable("away")
        return transaction.begin_stream(options, incarnation, patience_s=patience_s)

    monkeypatch.setattr(jobs, "begin_stream", begin)

    deferred = streamed(orders.endpoint)

    assert isinstance(deferred, DeferredJob)
    with orders.client() as client:
        assert deferred.begin().facts.incarnation == client.sinks.get("orders").incarnation
    assert waits == [5.0, 25.0]


def test_a_stream_whose_sink_was_recreated_and_whose_broker_is_lost_then_fails_at_once(
    orders: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with TcpProxy(orders.endpoint) as proxy:
        streamed(proxy.endpoint)
        with orders.client() as client:
            made_anew(client, orders)
        forget = SINKS.invalidate

        def lose(target: Target, gone: ForebayError) -> bool:
            proxy.close()
            return forget(target, gone)

        monkeypatch.setattr(SINKS, "invalidate", lose)

        with pytest.raises(ForebaySparkError, match="Could not ask for sink 'orders'"):
            streamed(proxy.endpoint)
