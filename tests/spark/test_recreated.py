"""A sink that is deleted and recreated under a program of Spark's: no value is ever taken for one of another column."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from forebay.client.testing import TestBroker
from forebay.spark.options.write import write_options
from forebay.spark.write.schema_registration import register
from tests.support.spark.arrow_rows import read, refusal, write
from tests.support.spark.buffered import staged
from tests.support.spark.streaming import Input, stream

BOTH = "select 12345 price, 67 quantity"


def made_anew(spark: SparkSession, broker: TestBroker, columns: str) -> None:
    """Delete the sink, and make it with a schema of these columns, as another program would."""
    with broker.client() as client:
        client.sinks.delete("orders", force=True)
        client.sinks.create("orders", partitions=2)
    options = write_options({"endpoint": broker.endpoint, "sink": "orders"}, {})
    register(options.target, spark.sql(f"select {columns}").schema, patience_s=10)


def test_rows_written_after_the_sink_was_recreated_have_its_order_of_columns(
    spark: SparkSession, broker: TestBroker
) -> None:
    write(spark.sql(BOTH), broker)
    made_anew(spark, broker, "1 quantity, 2 price")

    write(spark.sql(BOTH), broker)

    back = read(spark, broker)
    assert back.columns == ["quantity", "price"]
    assert [row.asDict() for row in back.collect()] == [{"quantity": 67, "price": 12345}]


def test_rows_that_do_not_fit_the_sink_that_was_recreated_are_refused_before_anything_is_staged(
    spark: SparkSession, broker: TestBroker
) -> None:
    write(spark.sql(BOTH), broker)
    made_anew(spark, broker, "array(1) price, 2 quantity")

    told = refusal(spark.sql(BOTH), broker)

    assert "price" in told
    assert staged(broker.endpoint) == 0
    assert read(spark, broker).collect() == []


def test_a_query_continues_with_the_next_micro_batch_in_the_sink_that_was_recreated(
    spark: SparkSession, broker: TestBroker, tmp_path: Path, input_files: Input
) -> None:
    rows = input_files.rows(spark).selectExpr("length(value) price", "67 quantity")
    query = stream(rows, broker.endpoint, tmp_path).start()
    try:
        input_files.add(3)
        query.processAllAvailable()
        made_anew(spark, broker, "1 quantity, 2 price")
        input_files.add(4)
        query.processAllAvailable()
    finally:
        query.stop()

    lengths = [len(value) for value in input_files.written[3:]]
    back = [(row.quantity, row.price) for row in read(spark, broker).collect()]
    assert sorted(back) == sorted((67, length) for length in lengths)


def test_a_micro_batch_whose_sink_is_recreated_under_it_ends_and_goes_into_the_new_one_after_a_restart(
    spark: SparkSession, broker: TestBroker, tmp_path: Path, input_files: Input
) -> None:
    begun, go_on = str(tmp_path / "begun"), str(tmp_path / "go-on")
    os.mkfifo(begun)
    os.mkfifo(go_on)
    input_files.add(3)

    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os
        from pathlib import Path

        if os.path.exists(begun):
            Path(begun).write_bytes(b"")
            Path(go_on).read_bytes()
        yield from batches

    rows = input_files.rows(spark).mapInArrow(wait, "value string").selectExpr("length(value) price", "67 quantity")
    query = stream(rows, broker.endpoint, tmp_path).trigger(availableNow=True).start()
    Path(begun).read_bytes()
    made_anew(spark, broker, "1 quantity, 2 price")
    Path(begun).unlink()
    Path(go_on).write_bytes(b"")
    with pytest.raises(StreamingQueryException, match="SINK_REPLACED") as ended:
        query.awaitTermination()
    before = read(spark, broker).collect()
    stream(rows, broker.endpoint, tmp_path).trigger(availableNow=True).start().awaitTermination()

    assert "Run this again" in str(ended.value)
    assert before == []
    lengths = [len(value) for value in input_files.written]
    assert sorted((row.quantity, row.price) for row in read(spark, broker).collect()) == sorted(
        (67, length) for length in lengths
    )


def test_the_error_of_a_query_that_reads_says_to_begin_again(
    spark: SparkSession, broker: TestBroker, tmp_path: Path
) -> None:
    write(spark.sql(BOTH), broker)
    checkpoint = str(tmp_path / "checkpoint")
    source = spark.readStream.format("forebay").options(endpoint=broker.endpoint, sink="orders")
    for _ in range(2):
        query = (
            source.load()
            .writeStream.format("noop")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    made_anew(spark, broker, "1 price, 2 quantity")
    write(spark.sql(BOTH), broker)

    query = (
        source.load()
        .writeStream.format("noop")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    with pytest.raises(StreamingQueryException, match="new checkpoint location"):
        query.awaitTermination()
