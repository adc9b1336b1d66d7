"""A stream puts its rows into the sink once, whatever is stopped, killed or lost. Numbers are those of the cases."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from forebay.client.testing import TestBroker
from forebay.spark import ForebayDataSource
from forebay.spark.write.writer import ForebayStreamWriter
from tests.support.spark.buffered import staged, values
from tests.support.spark.streaming import Input, stream


def run(rows: DataFrame, endpoint: str, folder: Path, **options: str) -> None:
    """Run a query until its input is used up. Raises what ended it."""
    stream(rows, endpoint, folder, **options).trigger(availableNow=True).start().awaitTermination()


def forget_last_commit(folder: Path) -> None:
    """Make Spark believe that it died between the sink's commit and its own log."""
    commits = folder / "checkpoint" / "commits"
    last = max(int(one.name) for one in commits.iterdir() if one.name.isdecimal())
    for name in (f"{last}", f".{last}.crc"):
        (commits / name).unlink(missing_ok=True)


def test_a_task_that_fails_half_way_and_is_tried_again_leaves_each_row_once(
    spark: SparkSession, broker: TestBroker, tmp_path: Path, input_files: Input
) -> None:
    def stumble(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        yield from batches
        context = TaskContext.get()
        if context is not None and context.attemptNumber() == 0:
            raise RuntimeError("the first attempt fails")

    for count in (500, 1, 20):
        input_files.add(count)
    left_out = input_files.written.pop(500)
    rows = input_files.rows(spark).where(f"value <> '{left_out.decode()}'")  # the second batch has no row
    run(rows.mapInArrow(stumble, "value string"), broker.endpoint, tmp_path)

    assert values(broker.endpoint) == sorted(input_files.written)
    with broker.client() as client:
        [producer] = client.epochs.list("orders")
        assert (producer.write_name, producer.last_epoch, producer.staged_tokens) == ("orders", 2, 0)


def test_a_batch_that_is_run_again_after_its_commit_adds_nothing(
    spark: SparkSession, broker: TestBroker, tmp_path: Path, input_files: Input
) -> None:
    input_files.add(30_000)
    run(input_files.rows(spark), broker.endpoint, tmp_path)
    for _ in range(2):
        forget_last_commit(tmp_path)
        input_files.add(5)
        run(input_files.rows(spark), broker.endpoint, tmp_path)

        assert values(broker.endpoint) == sorted(input_files.written)


def forget_last_entries(folder: Path) -> None:
    """Take the last micro-batch out of all logs of the checkpoint, as a power cut of the driver's disk can."""
    checkpoint = folder / "checkpoint"
    last = max(int(one.name) for one in (checkpoint / "offsets").iterdir() if one.name.isdecimal())
    for log in (checkpoint / "offsets", checkpoint / "commits", checkpoint / "sources" / "0"):
        for name in (f"{last}", f".{last}.crc"):
            (log / name).unlink(missing_ok=True)


def test_a_micro_batch_that_is_planned_again_with_more_rows_is_refused_until_an_operator_decides(
    spark: SparkSession, broker: TestBroker, tmp_path: Path, input_files: Input
) -> None:
    for count in (100, 50):
        input_files.add(count)
        run(input_files.rows(spark), broker.endpoint, tmp_path)
    before = sorted(input_files.written)
    forget_last_entries(tmp_path)
    input_files.add(7)

    for _ in range(2):  # a restart changes nothing
        with pytest.raises(StreamingQueryException, match="EPOCH_CONTENT_CONFLICT") as error:
            run(input_files.rows(spark, files_max=9), broker.endpoint, tmp_path)
        assert "committed with 50 records, and the repeat has 57" in str(error.value)
        assert values(broker.endpoint) == before
    run(input_files.rows(spark, files_max=9), broker.endpoint, tmp_path, epoch_check="none")
    input_files.add(3)
    run(input_files.rows(spark), broker.endpoint, tmp_path)

    assert values(broker.endpoint) == sorted([*before, *input_files.written[-3:]])


def test_a_micro_batch_that_is_run_again_by_other_tasks_in_another_order_adds_nothing(
    spark: SparkSession, broker: TestBroker, tmp_path: Path, input_files: Input
) -> None:
    input_files.add(5_000)
    run(input_files.rows(spark).repartition(3), broker.endpoint, tmp_path)
    forget_last_commit(tmp_path)

    def turned(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.take(pa.array(range(batch.num_rows - 1, -1, -1)))

    rows = input_files.rows(spark).repartition(2).mapInArrow(turned, "value string")
    run(rows, broker.endpoint, tmp_path, epoch_check="content")

    assert values(broker.endpoint) == sorted(input_files.written)


@pytest.mark.parametrize("when", ["before", "after"], ids=["q5_before_it_is_made", "s5_its_answer_is_lost"])
def test_a_commit_that_fails_is_made_again_by_the_next_run(
    spark: SparkSession, broker: TestBroker, tmp_path: Path, input_files: Input, when: str
) -> None:
    broken = str(tmp_path / "broken")
    Path(broken).touch()

    class Breaking(ForebayStreamWriter):
        """Fails around its first commit; Spark calls abort then."""

        def commit(self, messages: list[Any], batchId: int) -> None:
            import os

            if when == "after":
                super().commit(messages, batchId)
            if os.path.exists(broken):
                os.unlink(broken)
                raise RuntimeError("the commit fails")
            super().commit(messages, batchId)

    class Source(ForebayDataSource):
        @classmethod
        def name(cls) -> str:
            return "breaking"

        def streamWriter(self, schema: StructType, overwrite: bool) -> ForebayStreamWriter:
            return Breaking(super().streamWriter(schema, overwrite).job)

    spark.dataSource.register(Source)
    input_files.add(100)
    writer = stream(input_files.rows(spark), broker.endpoint, tmp_path).format("breaking").trigger(availableNow=True)
    with pytest.raises(StreamingQueryException, match="the commit fails"):
        writer.start().awaitTermination()
    assert len(values(broker.endpoint)) == (100 if when == "after" else 0)
    assert staged(broker.endpoint) == 0

    writer.start().awaitTermination()

    assert values(broker.endpoint) == sorted(input_files.written)


def test_records_staged_by_a_killed_attempt_are_never_visible_and_harm_no_later_run(
    spark: SparkSession, broker: TestBroker, tmp_path: Path, input_files: Input
) -> None:
    slow = tmp_path / "slow"
    slow.touch()

    def linger(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os

        for batch in batches:
            yield batch
            while os.path.exists(str(slow)):
                time.sleep(0.05)
                yield batch  # on and on: only a kill ends it

    input_files.add(1_000)
    padded = input_files.rows(spark).selectExpr("rpad(value, 1000, '.') as value")
    rows = padded.mapInArrow(linger, "value string")
    query = stream(rows, broker.endpoint, tmp_path, page_bytes="65536").start()
    with broker.client() as client:
        next(stats for stats in client.sinks.watch("orders", interval_s=0.1) if stats.staged_records)
    query.stop()
    assert values(broker.endpoint) == []
    slow.unlink()

    run(rows, broker.endpoint, tmp_path)

    assert values(broker.endpoint) == sorted(line.ljust(1000, b".") for line in input_files.written)
    assert staged(broker.endpoint) == 0


def test_a_copy_of_the_checkpoint_that_is_behind_is_refused(
    spark: SparkSession, broker: TestBroker, tmp_path: Path, input_files: Input
) -> None:
    input_files.add(10)
    run(input_files.rows(spark), broker.endpoint, tmp_path)
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "behind" / "checkpoint")
    for _ in range(2):
        input_files.add(10)
        run(input_files.rows(spark), broker.endpoint, tmp_path)

    with pytest.raises(StreamingQueryException, match="EPOCH_FENCED") as error:
        run(input_files.rows(spark), broker.endpoint, tmp_path / "behind")

    assert "its checkpoint is behind what was written" in str(error.value)
    assert values(broker.endpoint) == sorted(input_files.written)


def test_a_deleted_checkpoint_is_refused_until_the_name_is_taken_over_or_another(
    spark: SparkSession, broker: TestBroker, tmp_path: Path, input_files: Input
) -> None:
    input_files.add(10)
    run(input_files.rows(spark), broker.endpoint, tmp_path)
    shutil.rmtree(tmp_path / "checkpoint")

    with pytest.raises(StreamingQueryException, match="PRODUCER_CHANGED") as error:
        run(input_files.rows(spark), broker.endpoint, tmp_path)
    assert '.option("takeover", "true")' in str(error.value)
    assert '.option("write_name", "<name>")' in str(error.value)
    assert values(broker.endpoint) == sorted(input_files.written)

    run(input_files.rows(spark), broker.endpoint, tmp_path, takeover="true")
    assert values(broker.endpoint) == sorted(input_files.written * 2)  # as the message says

    run(input_files.rows(spark), broker.endpoint, tmp_path / "other", write_name="other")
    assert values(broker.endpoint) == sorted(input_files.written * 3)


def test_the_same_checkpoint_on_another_sink_continues_there_with_whole_batches(
    spark: SparkSession, broker: TestBroker, tmp_path: Path, input_files: Input
) -> None:
    input_files.add(10)
    run(input_files.rows(spark), broker.endpoint, tmp_path)
    forget_last_commit(tmp_path)  # Spark does not know that its first batch is written
    input_files.add(10)
    with broker.client() as client:
        client.sinks.create("others", partitions=2)

    rows = input_files.rows(spark)
    run(rows, broker.endpoint, tmp_path, sink="others")

    assert values(broker.endpoint) == sorted(input_files.written[:10])
    assert values(broker.endpoint, "others") == sorted(input_files.written)
