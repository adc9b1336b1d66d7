"""A write is resolved from one incarnation of its sink, and goes whole into that one or nowhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql.types import IntegerType, StructField, StructType

from forebay.client import Client, arrow
from forebay.client.testing import TestBroker
from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.write import Rows, WriteOptions, write_options
from forebay.spark.write import transaction
from forebay.spark.write.jobs import batch_job, stream_job
from forebay.spark.write.record_schema import RowPlan, plan_rows
from forebay.spark.write.schema_registration import register
from forebay.spark.write.writer import UnbegunJob, WriteJob, write_rows

ROWS = StructType([StructField("price", IntegerType()), StructField("quantity", IntegerType())])
SWAPPED = StructType([StructField("quantity", IntegerType()), StructField("price", IntegerType())])
Resolve = Callable[[WriteOptions, RowPlan, StructType], WriteJob | UnbegunJob]


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
