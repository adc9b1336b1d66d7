"""Several writes of one micro-batch, visible at one instant. Numbers are those of the cases."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from forebay.client import Client
from forebay.client.testing import TestBroker
from forebay.spark.atomic_write import Write, write_atomically
from forebay.spark.errors import ForebaySparkError
from forebay.spark.progress import Progress, QueryProgress
from tests.support.spark.buffered import staged, values
from tests.support.spark.streaming import Input


@pytest.fixture
def two_sinks(broker: TestBroker) -> TestBroker:
    with broker.client() as client:
        client.sinks.create("others", partitions=2)
    return broker


def run_batches(spark: SparkSession, input_files: Input, folder: Path, write: object) -> None:
    """Run a query over all input, with ``write`` for each micro-batch."""
    query = (
        input_files.rows(spark)
        .writeStream.foreachBatch(write)  # type: ignore[arg-type]
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def test_all_writes_of_a_micro_batch_are_there_once_also_when_it_is_run_again(
    spark: SparkSession, two_sinks: TestBroker, input_files: Input, tmp_path: Path
) -> None:
    input_files.add(50)
    runs = []

    def write(batch: DataFrame, batch_id: int) -> None:
        writes = [
            Write(batch, "orders", {"write_name": "all"}),
            Write(batch.limit(7), "orders", {"write_name": "some"}),
            Write(batch, "others"),
        ]
        done = write_atomically(writes, from_query=True, endpoint=two_sinks.endpoint)
        runs.append(done.already_committed)
        if len(runs) == 1:
            raise RuntimeError("the driver loses its way after the commit")

    with pytest.raises(PySparkException):
        run_batches(spark, input_files, tmp_path, write)
    run_batches(spark, input_files, tmp_path, write)

    assert runs == [False, True]
    assert len(values(two_sinks.endpoint)) == 57
    assert values(two_sinks.endpoint, "others") == sorted(input_files.written)
    assert staged(two_sinks.endpoint) == staged(two_sinks.endpoint, "others") == 0


def test_no_record_of_any_write_is_visible_if_one_write_fails(spark: SparkSession, two_sinks: TestBroker) -> None:
    rows = spark.range(100).selectExpr("cast(id AS string) AS value")
    wrong = spark.range(3).selectExpr("cast(NULL AS string) AS value")

    with pytest.raises(PySparkException, match="value is null"):
        write_atomically([Write(rows, "orders"), Write(wrong, "others")], from_query=False, endpoint=two_sinks.endpoint)

    assert values(two_sinks.endpoint) == []
    assert staged(two_sinks.endpoint) == 0


def test_writes_that_are_no_part_of_a_query_are_a_batch_of_their_own(
    spark: SparkSession, two_sinks: TestBroker
) -> None:
    rows = spark.range(10).selectExpr("cast(id AS string) AS value")

    for _ in range(2):
        write_atomically([Write(rows, "orders"), Write(rows, "others")], from_query=False, endpoint=two_sinks.endpoint)

    assert len(values(two_sinks.endpoint)) == len(values(two_sinks.endpoint, "others")) == 20
    with pytest.raises(ForebaySparkError, match="list of writes is empty"):
        write_atomically([], from_query=False)


def test_progress_tells_the_rows_of_a_micro_batch_and_what_the_sink_still_has_to_deliver(
    spark: SparkSession, broker: TestBroker, input_files: Input, tmp_path: Path
) -> None:
    input_files.add(30)
    told: list[Progress] = []
    came = threading.Event()

    def tell(progress: Progress) -> None:
        if progress.rows:
            told.append(progress)
            came.set()

    listener = QueryProgress(["orders"], tell, {"endpoint": broker.endpoint})
    spark.streams.addListener(listener)
    try:
        query = (
            input_files.rows(spark)
            .writeStream.format("forebay")
            .options(endpoint=broker.endpoint, sink="orders")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        assert came.wait(30)
    finally:
        spark.streams.removeListener(listener)

    [progress] = told
    assert (progress.rows, progress.batch_id, progress.query_id) == (30, 0, str(query.id))
    [state] = progress.sinks
    assert (state.last_epoch, state.pending, state.staged_records) == (0, 30, 0)
    with Client(broker.endpoint) as client:
        assert client.sinks.stats("orders").records == 30
