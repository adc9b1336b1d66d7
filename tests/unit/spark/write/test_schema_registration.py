"""A write's schema is settled once, before a task starts, and holds while the broker is unreachable."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql.types import DataType, LongType, StringType, StructField, StructType

from forebay.arrow import encode_batches
from forebay.client import DropReason, Record, Stage, arrow, testing
from forebay.client.replay.rows import encode_rows
from forebay.client.testing import TestBroker
from forebay.spark.connection.cache import FRESH_S
from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.write import Rows, Target, write_options
from forebay.spark.schema.row_schema import MergeRules
from forebay.spark.write.record_schema import plan_rows
from forebay.spark.write.schema_registration import (
    RecordSinkCache,
    SchemaCache,
    check_takes_rows,
    register,
    schema_of_write,
)

ROWS = StructType([StructField("id", LongType(), nullable=False)])


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def target(broker: TestBroker, *, timeout_s: float = 10.0) -> Target:
    return Target((broker.endpoint,), "orders", timeout_s)


@pytest.fixture
def orders(broker: TestBroker) -> TestBroker:
    """A broker with the sink `orders`."""
    with broker.client() as client:
        client.sinks.create("orders")
    return broker


def test_a_registration_stores_the_arrow_schema_and_the_spark_schema(orders: TestBroker) -> None:
    found = register(target(orders), ROWS, patience_s=10)

    with orders.client() as client:
        schema = client.schemas.get("orders")
    assert (found.version, found.arrow_schema) == (1, schema.arrow_schema)
    assert schema.spark_schema == StructType([StructField("id", LongType())]).json()
    assert str(arrow.arrow_schema(schema)) == "id: int64"
    assert cloudpickle.loads(cloudpickle.dumps(found)) == found


def test_writers_that_begin_at_once_settle_on_one_growing_schema(orders: TestBroker) -> None:
    schemas = [StructType([*ROWS.fields, StructField(f"c{n}", StringType())]) for n in range(4)]
    register(target(orders), ROWS, patience_s=10)

    with ThreadPoolExecutor(4) as pool:
        versions = list(pool.map(lambda rows: register(target(orders), rows, patience_s=10).version, schemas))

    assert sorted(versions) == [2, 3, 4, 5]
    with orders.client() as client:
        assert set(arrow.arrow_schema(client.schemas.get("orders")).names) == {"id", "c0", "c1", "c2", "c3"}


def test_a_schema_with_columns_that_are_never_null_is_replaced_by_one_that_is_nullable(orders: TestBroker) -> None:
    stored = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    with orders.client() as client:
        client.schemas.register("orders", arrow.encode_schema(stored), previous=0, spark_schema=ROWS.json())

    assert [register(target(orders), ROWS, patience_s=10).version for _ in range(2)] == [2, 2]


def test_the_rules_of_a_write_are_part_of_what_was_settled(orders: TestBroker) -> None:
    cache = SchemaCache(Clock())
    more = StructType([*ROWS.fields, StructField("more", LongType())])
    cache.register(target(orders), ROWS)
    cache.register(target(orders), more)

    assert cache.register(target(orders), more, MergeRules(merge_schema=False)).version == 2
    with pytest.raises(ForebaySparkError, match=r"\+ other bigint    \(new\)"):
        cache.register(target(orders), StructType([StructField("other", LongType())]), MergeRules(merge_schema=False))


def test_a_schema_that_is_nested_deeper_than_readers_take_is_refused(orders: TestBroker) -> None:
    kind: DataType = LongType()
    for _ in range(70):
        kind = StructType([StructField("a", kind)])

    with pytest.raises(ForebaySparkError, match="a schema that no reader accepts"):
        register(target(orders), StructType([StructField("deep", kind)]), patience_s=10)

    with orders.client() as client:
        assert client.schemas.latest("orders") == (0, None)


def test_a_registered_schema_is_cached_and_outlives_the_broker_for_a_while() -> None:
    clock = Clock()
    cache = SchemaCache(clock)
    with testing.broker() as broker:
        with broker.client() as client:
            client.sinks.create("orders")
        gone = target(broker, timeout_s=0.3)
        first = cache.register(gone, ROWS)

    fresh = cache.register(gone, ROWS)
    clock.now_s = FRESH_S + 1
    later = cache.register(gone, ROWS)

    assert first == fresh == later
    with pytest.raises(ForebaySparkError, match="Could not ask for the schema of sink 'orders'"):
        SchemaCache(clock).register(gone, ROWS)


def test_a_sink_that_was_recreated_gets_its_schema_again(orders: TestBroker) -> None:
    clock = Clock()
    cache = SchemaCache(clock)
    cache.register(target(orders), ROWS)
    with orders.client() as client:
        client.sinks.delete("orders")
        client.sinks.create("orders")
    clock.now_s = FRESH_S + 1

    assert cache.register(target(orders), ROWS).version == 1

    with orders.client() as client:
        assert client.schemas.latest("orders")[0] == 1


def test_a_schema_registered_in_a_former_sink_is_not_a_version_of_its_successor(orders: TestBroker) -> None:
    clock = Clock()
    cache = SchemaCache(clock)
    with orders.client() as client:
        former = client.sinks.get("orders").incarnation
        cache.register(target(orders), ROWS, incarnation=former)
        client.sinks.delete("orders")
        made = client.sinks.create("orders").incarnation
        other = StructType([StructField("other", LongType()), *ROWS.fields])
        register(target(orders), other, patience_s=10)

        found = cache.register(target(orders), ROWS, incarnation=made)
        latest = client.schemas.get("orders")

    assert (found.version, found.arrow_schema) == (latest.version, latest.arrow_schema)
    assert str(arrow.arrow_schema(latest)) == "other: int64\nid: int64"
    with pytest.raises(ForebaySparkError, match="SINK_REPLACED"):
        SchemaCache(clock).register(target(orders), ROWS, incarnation=former)


def test_a_missing_sink_is_reported_with_advice(broker: TestBroker) -> None:
    with pytest.raises(ForebaySparkError, match="SINK_NOT_FOUND") as error:
        SchemaCache(Clock()).register(target(broker), ROWS)

    assert "forebay sink create orders" in error.value.remedy


def test_only_rows_with_a_schema_of_their_own_are_registered(orders: TestBroker) -> None:
    records = StructType([StructField("value", StringType())])
    options = write_options({"sink": "orders", "endpoint": orders.endpoint}, {})

    assert schema_of_write(options, plan_rows(records, Rows.AUTO), records, "") is None
    found = schema_of_write(options, plan_rows(ROWS, Rows.AUTO), ROWS, "")

    assert found is not None
    assert found.version == 1


def records_of(broker: TestBroker, names: StructType) -> None:
    options = write_options({"sink": "orders", "endpoint": broker.endpoint}, {}, is_stream=False)
    schema_of_write(options, plan_rows(names, Rows.AUTO), names, incarnation_of(broker))


def incarnation_of(broker: TestBroker) -> str:
    with broker.client() as client:
        return str(client.sinks.get("orders").incarnation)


def test_records_are_refused_by_a_sink_of_rows_before_anything_is_written(orders: TestBroker) -> None:
    register(target(orders), ROWS, patience_s=10)

    with pytest.raises(ForebaySparkError, match="holds rows with a schema, and these are records"):
        records_of(orders, StructType([StructField("value", StringType())]))


def test_rows_are_refused_by_a_sink_of_records_before_a_schema_is_registered(orders: TestBroker) -> None:
    with orders.client() as client:
        client.publish("orders", [Record(b"a record")])

    with pytest.raises(ForebaySparkError, match="holds records, and these are rows with a schema"):
        records_of(orders, ROWS)

    with orders.client() as client:
        assert client.schemas.latest("orders")[1] is None


def test_rows_are_refused_by_an_empty_sink_that_had_records(orders: TestBroker) -> None:
    with orders.client() as client:
        client.publish("orders", [Record(b"a record")])
        client.sinks.purge("orders")
        assert client.sinks.stats("orders").records == 0

        with pytest.raises(ForebaySparkError, match="has held records, which are settled or removed") as error:
            records_of(orders, ROWS)

        assert client.schemas.latest("orders") == (0, None)
    assert "value, key, headers" in error.value.remedy
    assert "forebay sink delete orders" in error.value.remedy
    records_of(orders, StructType([StructField("value", StringType())]))


@pytest.mark.parametrize("reason", [DropReason.RESTORED, DropReason.LOST_IN_CRASH])
def test_offsets_that_a_restore_or_a_crash_has_skipped_were_no_records(orders: TestBroker, reason: DropReason) -> None:
    with orders.client() as client:
        empty = client.sinks.stats("orders")
    [part] = empty.partitions
    moved = replace(empty, partitions=(replace(part, next_offset=1_000, dropped={reason: 1_000}),))
    used = replace(empty, partitions=(replace(part, next_offset=1_001, dropped={reason: 1_000}),))

    check_takes_rows(moved, "orders", 0)
    with pytest.raises(ForebaySparkError, match="has held records"):
        check_takes_rows(used, "orders", 0)


def test_rows_are_refused_while_a_write_of_records_is_not_committed(orders: TestBroker) -> None:
    with orders.client() as client:
        stage = Stage("batch", 0, run="batch", ticket=client.epochs.take_ticket("orders"))
        with client.publisher("orders", stage=stage) as publisher:
            publisher.send(b"a record")

        with pytest.raises(ForebaySparkError, match="holds records of a write that is not committed yet"):
            records_of(orders, ROWS)

        client.epochs.abort("orders", "batch", 0, [stage.token])
    records_of(orders, ROWS)


def test_a_sink_whose_rows_are_settled_takes_more_of_them(orders: TestBroker) -> None:
    first = register(target(orders), ROWS, patience_s=10)
    rows = pa.record_batch({"id": pa.array([1], pa.int64())})
    with orders.client() as client:
        page = encode_rows(first.version, 1, encode_batches([rows]))
        with client.publisher("orders") as publisher:
            publisher.send_page(page, partition=0).result()
        client.sinks.purge("orders")

    assert register(target(orders), ROWS, patience_s=10) == first


def test_a_sink_that_took_records_takes_them_while_its_broker_is_unreachable() -> None:
    clock = Clock()
    cache = RecordSinkCache(clock)
    with testing.broker() as broker:
        with broker.client() as client:
            client.sinks.create("orders")
        cache.check(target(broker), incarnation_of(broker))
        away = target(broker, timeout_s=0.2)
        incarnation = incarnation_of(broker)
    with pytest.raises(ForebaySparkError, match="ask for the schema of"):
        cache.check(away, incarnation)

    clock.now_s += FRESH_S + 1
    cache.check(Target(away.endpoints, "orders", 10.0), incarnation)
