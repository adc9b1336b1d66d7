"""Threads of a driver that write and start queries side by side."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession

from forebay.client.testing import TestBroker
from forebay.spark.session import use_in_this_thread
from tests.support.spark.buffered import values
from tests.support.spark.streaming import Input, stream


def in_a_thread(work: Callable[[], None]) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()


def ten(spark: SparkSession) -> DataFrame:
    """Return ten rows, not by `createDataFrame`: that makes its session the active one by itself."""
    return spark.range(10).selectExpr("CAST(id AS STRING) AS value")


def save(rows: DataFrame, broker: TestBroker) -> None:
    rows.write.format("forebay").mode("append").options(endpoint=broker.endpoint, sink="orders").save()


def test_a_thread_of_its_own_writes_after_it_took_the_session(spark: SparkSession, broker: TestBroker) -> None:
    rows = ten(spark)

    def write() -> None:
        use_in_this_thread(spark)
        save(rows, broker)

    in_a_thread(write)

    assert sorted(values(broker.endpoint)) == [b"%d" % number for number in range(10)]


def test_a_thread_of_its_own_starts_a_query_after_it_took_the_session(
    spark: SparkSession, broker: TestBroker, input_files: Input, tmp_path: Path
) -> None:
    input_files.add(10)
    rows = input_files.rows(spark)

    def run() -> None:
        use_in_this_thread(spark)
        query = stream(rows, broker.endpoint, tmp_path).trigger(availableNow=True).start()
        assert query.awaitTermination(60)

    in_a_thread(run)

    assert sorted(values(broker.endpoint)) == sorted(input_files.written)


def test_spark_does_not_find_the_format_on_a_thread_that_did_not(spark: SparkSession, broker: TestBroker) -> None:
    """It is Spark that looks no further; when this fails, the advice in the README can go."""
    rows = ten(spark)

    with pytest.raises(Py4JJavaError, match="DATA_SOURCE_NOT_FOUND"):
        in_a_thread(lambda: save(rows, broker))

    assert values(broker.endpoint) == []
