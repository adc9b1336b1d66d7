"""A batch is in the sink once and at once, whatever became of its attempts. Numbers are those of the cases."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from forebay.client import Client
from forebay.client.testing import TestBroker
from tests.support.spark.buffered import staged, values

ROWS = 40_000


def rows(spark: SparkSession, count: int = ROWS, tasks: int = 3) -> DataFrame:
    return spark.range(0, count, 1, tasks).select(f.rpad(f.col("id").cast("string"), 100, ".").alias("value"))


def expected(count: int = ROWS) -> list[bytes]:
    return sorted(str(n).ljust(100, ".").encode() for n in range(count))


def write(frame: DataFrame, broker: TestBroker, **options: str) -> None:
    """Append rows to the sink ``orders``, in small pages."""
    options = {"endpoint": broker.endpoint, "sink": "orders", "page_bytes": "65536", **options}
    frame.write.format("forebay").mode("append").options(**options).save()


def stumbling(endpoint: str, tries: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a step that fails in the first ``tries`` attempts of task 0, once rows of it are staged."""

    def stumble(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        yield from batches
        context = TaskContext.get()
        if context is not None and context.attemptNumber() < tries and context.partitionId() == 0:
            with Client(endpoint) as client:
                while not client.sinks.stats("orders").staged_records:
                    time.sleep(0.05)
            raise RuntimeError("an attempt fails when some of its rows are staged")

    return stumble


def test_a_task_that_fails_half_way_and_is_tried_again_leaves_each_row_once(
    spark: SparkSession, broker: TestBroker
) -> None:
    write(rows(spark).mapInArrow(stumbling(broker.endpoint, tries=1), "value string"), broker)

    assert values(broker.endpoint) == expected()
    assert staged(broker.endpoint) == 0


def test_a_batch_that_fails_leaves_nothing(spark: SparkSession, broker: TestBroker) -> None:
    with pytest.raises(PySparkException, match="an attempt fails"):
        write(rows(spark).mapInArrow(stumbling(broker.endpoint, tries=9), "value string"), broker)
    write(rows(spark, 10), broker)

    assert values(broker.endpoint) == expected(10)


def test_a_reader_sees_none_or_all_of_four_partitions(spark: SparkSession, broker: TestBroker) -> None:
    seen: set[int] = set()
    stop = threading.Event()

    def look() -> None:
        with broker.client() as client:
            while not stop.is_set():
                partitions = client.sinks.stats("orders").partitions
                seen.add(sum(one.next_offset for one in partitions))

    with broker.client() as client:
        client.sinks.update("orders", partitions=4)
    reader = threading.Thread(target=look)
    reader.start()
    try:
        for _ in range(3):
            write(rows(spark, tasks=4), broker)
    finally:
        stop.set()
        reader.join()

    assert seen <= {0, ROWS, 2 * ROWS, 3 * ROWS}
    assert len(seen) >= 3
    assert len(values(broker.endpoint)) == 3 * ROWS
    with broker.client() as client:
        assert all(one.next_offset for one in client.sinks.stats("orders").partitions)


def test_both_deliveries_may_be_mixed_in_one_sink(spark: SparkSession, broker: TestBroker) -> None:
    for delivery in ("exactly_once", "at_least_once", "exactly_once"):
        write(rows(spark, 100), broker, delivery=delivery)

    assert values(broker.endpoint) == sorted(expected(100) * 3)
    with broker.client() as client:
        assert client.sinks.stats("orders").identity_ok


def test_a_batch_without_a_row_leaves_no_trace(spark: SparkSession, broker: TestBroker) -> None:
    write(rows(spark).where("value = 'none'"), broker)
    write(spark.createDataFrame([], "value string"), broker)

    assert values(broker.endpoint) == []
    assert staged(broker.endpoint) == 0


def test_a_sink_in_memory_only_is_refused_with_the_way_out(spark: SparkSession, broker: TestBroker) -> None:
    with broker.client() as client:
        client.sinks.create("quick", buffer_mode="MEMORY")

    with pytest.raises(PySparkException, match="STAGING_UNSUPPORTED") as error:
        write(rows(spark, 10), broker, sink="quick")
    assert '.option("delivery", "at_least_once")' in str(error.value)
    write(rows(spark, 10), broker, sink="quick", delivery="at_least_once")

    assert values(broker.endpoint, "quick") == expected(10)


def test_a_batch_larger_than_its_sink_fails_and_leaves_nothing(spark: SparkSession, broker: TestBroker) -> None:
    with broker.client() as client:
        client.sinks.create("small", max_disk_cache=1_000)

    with pytest.raises(PySparkException, match="sink 'small' is full") as error:
        write(rows(spark, 2_000), broker, sink="small", delivery_timeout_s="1")
    assert "forebay lag small" in str(error.value)
    write(rows(spark, 900), broker, sink="small")

    assert values(broker.endpoint, "small") == expected(900)
