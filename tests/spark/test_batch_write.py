"""A batch of rows becomes records; nothing has to be registered."""

from __future__ import annotations

import datetime as dt
import json
import zlib
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from forebay.client import Client
from forebay.client.testing import TestBroker
from forebay.spark import ForebayDataSource
from tests.support.spark.buffered import records, values


def write(rows: DataFrame, broker: TestBroker, **options: str) -> None:
    """Append rows to the sink ``orders``."""
    options = {"endpoint": broker.endpoint, "sink": "orders", **options}
    rows.write.format("forebay").mode("append").options(**options).save()


def test_strings_are_written_as_utf8(spark: SparkSession, broker: TestBroker) -> None:
    write(spark.createDataFrame([("é",), ("",), ("c",)], "value string"), broker)

    assert values(broker.endpoint) == sorted(["é".encode(), b"", b"c"])


def test_many_binaries_are_spread_over_the_partitions(spark: SparkSession, broker: TestBroker) -> None:
    rows = spark.range(60_000).select(f.rpad(f.col("id").cast("string"), 100, ".").cast("binary").alias("value"))

    write(rows, broker)

    assert values(broker.endpoint) == sorted(str(n).ljust(100, ".").encode() for n in range(60_000))
    with broker.client() as client:
        assert all(one.records > 0 for one in client.sinks.stats("orders").partitions)


def test_keys_headers_partitions_and_event_times_arrive(spark: SparkSession, broker: TestBroker) -> None:
    time = dt.datetime(2026, 1, 31, 23, 59, 59, 123456, dt.UTC)
    schema = (
        "value binary, key string, headers array<struct<key:string,value:binary>>, partition int, event_time timestamp"
    )
    rows: list[tuple[Any, ...]] = [
        (b"named", None, [("a", b"1"), ("a", b"2")], 2, time),
        (b"keyed", "k", None, None, None),
        (b"both", "k", [], 1, None),
    ]

    write(spark.createDataFrame(rows, schema).coalesce(1), broker)

    found = {record.value: record for record in records(broker.endpoint)}
    named, keyed, both = (found[value] for value in (b"named", b"keyed", b"both"))
    assert (named.partition, named.key, named.headers) == (2, None, (("a", b"1"), ("a", b"2")))
    assert named.event_time == time
    assert (keyed.partition, keyed.key, keyed.headers) == (zlib.crc32(b"k") % 3, b"k", ())
    assert keyed.event_time is None
    assert (both.partition, both.key) == (1, b"k")


@pytest.mark.parametrize("row_format", ["auto", "arrow", "json"])
def test_other_rows_are_read_as_json_one_by_one_however_they_were_written(
    spark: SparkSession, broker: TestBroker, row_format: str
) -> None:
    rows = spark.sql(
        """select 7L as id, 'a"b' as name, cast(1.5 as decimal(6,2)) as price, 1d as ratio, double('NaN') as none,
                  timestamp '2026-01-31 23:59:59.5 UTC' as at, timestamp_ntz '2026-01-31 01:02:03' as wall,
                  date '2026-01-31' as day, time '01:02:03' as clock, interval '1 02:00:00' day to second as span,
                  binary('x') as raw, array(1, null) as list, map('k', true) as map,
                  named_struct('in', array(named_struct('deep', 1Y))) as tree, cast(null as string) as nothing"""
    )

    write(rows, broker, row_format=row_format)

    [value] = values(broker.endpoint)
    assert json.loads(value) == {
        "id": 7,
        "name": 'a"b',
        "price": 1.5,
        "ratio": 1.0,
        "none": "NaN",
        "at": "2026-01-31T23:59:59.500000Z",
        "wall": "2026-01-31T01:02:03.000000",
        "day": "2026-01-31",
        "clock": "01:02:03.000000",
        "span": "PT93600.000000S",
        "raw": "eA==",
        "list": [1, None],
        "map": {"k": True},
        "tree": {"in": [{"deep": 1}]},
        "nothing": None,
    }
    assert b'"price":1.50,' in value


def test_a_batch_without_a_limit_of_rows_is_sliced(spark: SparkSession, broker: TestBroker) -> None:
    rows = spark.range(0, 150_000, 1, 1).select(f.col("id").cast("string").alias("value"))
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "0")
    try:
        write(rows, broker)
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")

    assert len(values(broker.endpoint)) == 150_000


def test_a_sink_is_made_on_the_way_and_named_by_the_path(spark: SparkSession, broker: TestBroker) -> None:
    options = {"endpoint": broker.endpoint, "createSink": "true", "partitions": "2"}

    spark.range(3).write.format("forebay").mode("append").options(**options).save("made")

    assert values(broker.endpoint, "made") == [b'{"id":0}', b'{"id":1}', b'{"id":2}']
    with broker.client() as client:
        assert client.sinks.get("made").settings.partitions == 2


def test_at_least_once_a_task_that_fails_is_tried_again_and_every_row_is_there(
    spark: SparkSession, broker: TestBroker
) -> None:
    endpoint = broker.endpoint

    def stumble(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        yield from batches
        context = TaskContext.get()
        if context is not None and context.attemptNumber() == 0:
            with Client(endpoint) as client:
                next(stats for stats in client.sinks.watch("orders", interval_s=0.1) if stats.records)
            raise RuntimeError("the first attempt fails when some of its rows are written")

    rows = spark.range(0, 40_000, 1, 1).select(f.rpad(f.col("id").cast("string"), 100, ".").alias("value"))

    write(rows.mapInArrow(stumble, "value string"), broker, page_bytes="65536", delivery="at_least_once")

    found = values(broker.endpoint)
    assert set(found) == {str(n).ljust(100, ".").encode() for n in range(40_000)}
    assert len(found) > 40_000  # what the first attempt wrote stays


def test_it_can_be_registered_too(spark: SparkSession, broker: TestBroker) -> None:
    session = spark.newSession()
    session.dataSource.register(ForebayDataSource)

    write(session.createDataFrame([("x",)], "value string"), broker)

    assert values(broker.endpoint) == [b"x"]
