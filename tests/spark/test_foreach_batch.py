"""Batches inside of ``foreachBatch``: each on its own, or once per micro-batch where that is asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from forebay.client.testing import TestBroker
from tests.spark.test_exactly_once_stream import forget_last_commit
from tests.support.spark.buffered import values
from tests.support.spark.streaming import Input


def run(rows: DataFrame, folder: Path, write: Callable[[DataFrame, int], None]) -> None:
    """Run a query until its input is used up."""
    checkpoint = str(folder / "checkpoint")
    query = rows.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint).trigger(availableNow=True)
    query.start().awaitTermination()


def append(rows: DataFrame, endpoint: str, **options: str) -> None:
    """Append to the sink ``orders``."""
    options = {"endpoint": endpoint, "sink": "orders", **options}
    rows.write.format("forebay").mode("append").options(**options).save()


def test_two_writes_of_one_micro_batch_under_two_names_are_both_there_and_once(
    spark: SparkSession, broker: TestBroker, tmp_path: Path, input_files: Input
) -> None:
    def write(rows: DataFrame, batch_id: int) -> None:
        append(rows, broker.endpoint, epoch_from_query="true", write_name="left")
        append(rows.selectExpr("concat(value, '!') as value"), broker.endpoint, epochFromQuery="true")

    input_files.add(20)
    run(input_files.rows(spark), tmp_path, write)
    forget_last_commit(tmp_path)
    input_files.add(5)
    run(input_files.rows(spark), tmp_path, write)

    both = [*input_files.written, *(row + b"!" for row in input_files.written)]
    assert values(broker.endpoint) == sorted(both)
    with broker.client() as client:
        assert sorted(one.write_name for one in client.epochs.list("orders")) == ["left", "orders"]


def test_two_writes_of_one_micro_batch_under_one_name_are_refused(
    spark: SparkSession, broker: TestBroker, tmp_path: Path, input_files: Input
) -> None:
    def write(rows: DataFrame, batch_id: int) -> None:
        append(rows, broker.endpoint, epoch_from_query="true")
        append(rows, broker.endpoint, epoch_from_query="true")

    input_files.add(20)
    with pytest.raises(StreamingQueryException, match="EPOCH_CONFLICT") as error:
        run(input_files.rows(spark), tmp_path, write)

    assert "a name of its own" in str(error.value)
    assert values(broker.endpoint) == sorted(input_files.written)


def test_a_second_write_under_one_name_is_refused_after_every_restart_and_no_micro_batch_is_logged_as_done(
    spark: SparkSession, broker: TestBroker, tmp_path: Path, input_files: Input
) -> None:
    def write(rows: DataFrame, batch_id: int) -> None:
        append(rows, broker.endpoint, epoch_from_query="true")
        append(rows.selectExpr("concat(value, '!') as value"), broker.endpoint, epoch_from_query="true")

    input_files.add(20)
    for _ in range(3):
        with pytest.raises(StreamingQueryException, match="EPOCH_CONFLICT") as error:
            run(input_files.rows(spark), tmp_path, write)
        assert "a name of its own" in str(error.value)

    assert not list((tmp_path / "checkpoint").glob("commits/[0-9]*"))
    assert values(broker.endpoint) == sorted(input_files.written)


def test_a_batch_that_says_nothing_is_a_batch_of_its_own(
    spark: SparkSession, broker: TestBroker, tmp_path: Path, input_files: Input
) -> None:
    def write(rows: DataFrame, batch_id: int) -> None:
        append(rows, broker.endpoint)
        append(rows, broker.endpoint)

    input_files.add(20)
    run(input_files.rows(spark), tmp_path, write)

    assert values(broker.endpoint) == sorted(input_files.written * 2)
