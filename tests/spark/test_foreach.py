"""Publishing from ``foreach``."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from forebay.client import Record
from forebay.client.testing import TestBroker
from forebay.spark.foreach import ForeachPublisher
from tests.support.spark.buffered import records, values
from tests.support.spark.streaming import Input


def run(spark: SparkSession, input_files: Input, folder: Path, publishing: ForeachPublisher) -> None:
    """Run a query over all input."""
    query = (
        input_files.rows(spark)
        .writeStream.foreach(publishing)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def test_all_records_that_a_function_makes_of_the_rows_are_published_when_the_query_ends(
    spark: SparkSession, broker: TestBroker, input_files: Input, tmp_path: Path
) -> None:
    input_files.add(20)

    def make(row):  # type: ignore[no-untyped-def]
        if row.value.endswith("3"):
            return None
        return [row.value, Record(row.value.encode() + b"!", key=b"k", headers=[("from", b"foreach")])]

    run(spark, input_files, tmp_path, ForeachPublisher("orders", make, {"endpoint": broker.endpoint}))

    wanted = [line for line in input_files.written if not line.endswith(b"3")]
    assert values(broker.endpoint) == sorted([*wanted, *(line + b"!" for line in wanted)])
    keyed = [record for record in records(broker.endpoint) if record.key == b"k"]
    assert len(keyed) == len(wanted)
    assert keyed[0].headers == (("from", b"foreach"),)


def test_a_row_that_cannot_be_made_into_a_record_fails_the_batch_with_its_reason(
    spark: SparkSession, broker: TestBroker, input_files: Input, tmp_path: Path
) -> None:
    input_files.add(5)

    def make(row):  # type: ignore[no-untyped-def]
        raise RuntimeError("the system of my own is away")

    with pytest.raises(PySparkException, match="the system of my own is away"):
        run(spark, input_files, tmp_path, ForeachPublisher("orders", make, {"endpoint": broker.endpoint}))


def test_a_missing_sink_is_reported_with_a_remedy(
    spark: SparkSession, broker: TestBroker, input_files: Input, tmp_path: Path
) -> None:
    input_files.add(5)

    with pytest.raises(PySparkException, match="forebay sink"):
        run(spark, input_files, tmp_path, ForeachPublisher("nobody", str, {"endpoint": broker.endpoint}))
