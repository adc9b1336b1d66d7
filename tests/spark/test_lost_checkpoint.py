"""A query whose checkpoint was deleted continues from its saved position, and keeps its write name."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from forebay.client import Record
from forebay.client.testing import TestBroker
from tests.support.calls.eventually import values_of
from tests.support.spark.streaming import Input, stream


def fill(broker: TestBroker, first: int, end: int) -> None:
    with broker.client() as client:
        client.publish("orders", [Record(b"%d" % n) for n in range(first, end)], partition=0)


class Reading:
    """A query that reads ``orders`` and remembers the values of each micro-batch."""

    def __init__(self, spark: SparkSession, broker: TestBroker, folder: Path, store: str) -> None:
        self._spark = spark
        self._options = {
            "endpoint": broker.endpoint, "sink": "orders", "checkpoint_store": store, "checkpoint_name": "billing",
        }  # fmt: skip
        self._folder = folder
        self.checkpoint = folder / "checkpoint"
        self.taken: list[list[int]] = []

    def run(self, **options: str) -> list[list[int]]:
        """Read to the end of the sink; return the values of each micro-batch."""
        self.taken.clear()
        rows = self._spark.readStream.format("forebay").options(**{**self._options, **options}).load()
        query = rows.writeStream.foreachBatch(self._take).option("checkpointLocation", str(self.checkpoint))
        query.trigger(availableNow=True).start().awaitTermination()
        return list(self.taken)

    def _take(self, rows: DataFrame, number: int) -> None:
        folder = self._folder / f"batch-{number}"
        rows.selectExpr("cast(value as string) as value").write.mode("overwrite").json(str(folder))
        lines = [line for part in folder.glob("*.json") for line in part.read_text().splitlines()]
        self.taken.append(sorted(int(json.loads(line)["value"]) for line in lines))


@pytest.mark.parametrize("store", ["broker:", "file"])
def test_a_query_without_its_checkpoint_continues_at_its_saved_position(
    spark: SparkSession, broker: TestBroker, tmp_path: Path, store: str
) -> None:
    reading = Reading(spark, broker, tmp_path, f"file://{tmp_path}/positions" if store == "file" else store)
    fill(broker, 0, 10)
    assert reading.run() == [list(range(10))]
    fill(broker, 10, 14)

    shutil.rmtree(reading.checkpoint)

    assert reading.run() == [[10, 11, 12, 13]]


def test_a_checkpoint_that_was_put_back_from_a_copy_skips_what_was_processed_since(
    spark: SparkSession, broker: TestBroker, tmp_path: Path
) -> None:
    reading = Reading(spark, broker, tmp_path, "broker:")
    fill(broker, 0, 5)
    reading.run()
    shutil.copytree(reading.checkpoint, tmp_path / "copy")
    fill(broker, 5, 9)
    assert reading.run() == [[5, 6, 7, 8]]
    fill(broker, 9, 12)

    shutil.rmtree(reading.checkpoint)
    shutil.copytree(tmp_path / "copy", reading.checkpoint)

    assert reading.run() == [[9, 10, 11]]
    assert reading.run() == []


def test_a_query_whose_first_micro_batch_failed_continues_after_it_when_it_gets_a_store(
    spark: SparkSession, broker: TestBroker, tmp_path: Path
) -> None:
    def refuse(rows: DataFrame, number: int) -> None:
        raise ValueError("the target refuses micro-batch 0")

    reading = Reading(spark, broker, tmp_path, "broker:")
    fill(broker, 0, 3)
    rows = spark.readStream.format("forebay").options(endpoint=broker.endpoint, sink="orders")
    writer = rows.option("startingOffsets", "latest").load().writeStream.foreachBatch(refuse)
    with pytest.raises(StreamingQueryException, match="refuses micro-batch 0"):
        writer.option("checkpointLocation", str(reading.checkpoint)).start().awaitTermination()
    fill(broker, 3, 7)

    assert reading.run(startingOffsets="latest") == [[], [3, 4, 5, 6]]


def test_a_query_that_has_its_checkpoint_needs_nothing_of_the_store(
    spark: SparkSession, broker: TestBroker, tmp_path: Path
) -> None:
    reading = Reading(spark, broker, tmp_path, f"file://{tmp_path}/positions")
    fill(broker, 0, 5)
    reading.run()
    fill(broker, 5, 7)

    shutil.rmtree(tmp_path / "positions")

    assert reading.run() == [[5, 6]]


def test_a_write_whose_query_lost_its_checkpoint_takes_its_name_over_and_the_former_one_is_refused(
    spark: SparkSession, broker: TestBroker, tmp_path: Path, input_files: Input
) -> None:
    options = {"checkpoint_store": "broker:", "checkpoint_name": "ingest"}

    def write(**more: str) -> None:
        query = stream(input_files.rows(spark), broker.endpoint, tmp_path, **more)
        query.trigger(availableNow=True).start().awaitTermination()

    input_files.add(4)
    write(**options)
    (tmp_path / "checkpoint").rename(tmp_path / "former")
    for file in input_files.folder.iterdir():
        file.unlink()
    input_files.add(3)

    with pytest.raises(StreamingQueryException, match="PRODUCER_CHANGED"):
        write()
    shutil.rmtree(tmp_path / "checkpoint")
    write(**options)

    with broker.client() as client:
        found = [value for part in range(3) for value in values_of(client, "orders", part)]
    assert sorted(found) == sorted(input_files.written)
    shutil.rmtree(tmp_path / "checkpoint")
    (tmp_path / "former").rename(tmp_path / "checkpoint")
    input_files.add(2)
    with pytest.raises(StreamingQueryException, match="was replaced: query"):
        write(**options)
