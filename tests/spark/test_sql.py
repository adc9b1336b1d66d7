"""SQL and tables: what Spark lets a Python data source do works, and the rest says what to use instead."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from forebay.client.testing import TestBroker


@pytest.fixture
def numbers(broker: TestBroker) -> dict[str, str]:
    """Options of a sink that the first write creates."""
    return {"endpoint": broker.endpoint, "sink": "numbers", "create_sink": "true"}


@pytest.fixture
def table(spark: SparkSession) -> Iterator[str]:
    """Name of a table, which is dropped after the test."""
    yield "a_table"
    spark.sql("drop table if exists a_table")


def ids(rows: DataFrame) -> list[int]:
    return sorted(row.id for row in rows.collect())


def of_sink(options: dict[str, str]) -> dict[str, str]:
    """Return the options of a write that a read takes too."""
    return {name: options[name] for name in ("endpoint", "sink")}


def stored(spark: SparkSession, options: dict[str, str]) -> list[int]:
    return ids(spark.read.format("forebay").options(**of_sink(options)).load())


def save_as_table(rows: DataFrame, table: str, options: dict[str, str]) -> None:
    rows.write.format("forebay").mode("append").options(**options).saveAsTable(table)


def create(rows: DataFrame, table: str, options: dict[str, str]) -> None:
    rows.writeTo(table).using("forebay").options(**options).create()


@pytest.mark.parametrize("make", [save_as_table, create])
def test_a_table_is_made_and_appended_to_with_the_options_at_each_write(
    spark: SparkSession, numbers: dict[str, str], table: str, make: Callable[[DataFrame, str, dict[str, str]], None]
) -> None:
    make(spark.range(0, 1), table, numbers)
    save_as_table(spark.range(1, 2), table, numbers)
    spark.range(2, 3).write.format("forebay").mode("append").options(**numbers).insertInto(table)
    spark.range(3, 4).writeTo(table).options(**numbers).append()
    spark.sql(f"insert into {table} with (endpoint='{numbers['endpoint']}', sink='numbers') select 4L")

    assert stored(spark, numbers) == [0, 1, 2, 3, 4]


def test_a_stream_is_written_to_a_table_with_the_options_at_the_write(
    spark: SparkSession, numbers: dict[str, str], table: str, tmp_path: Path
) -> None:
    spark.range(3).write.parquet(str(tmp_path / "rows"))
    rows = spark.readStream.schema("id bigint").parquet(str(tmp_path / "rows"))
    query = (
        rows.writeStream.format("forebay")
        .options(**numbers, checkpointLocation=str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .toTable(table)
    )

    assert query.awaitTermination(60)
    assert stored(spark, numbers) == [0, 1, 2]


def test_a_table_is_read_with_the_options_at_the_read(spark: SparkSession, numbers: dict[str, str], table: str) -> None:
    save_as_table(spark.range(2), table, numbers)
    given = f"(endpoint='{numbers['endpoint']}', sink='numbers')"

    assert ids(spark.read.options(**of_sink(numbers)).table(table)) == [0, 1]
    assert ids(spark.sql(f"select id from {table} with {given}")) == [0, 1]
    assert spark.readStream.options(**of_sink(numbers)).table(table).isStreaming


def test_a_table_that_a_write_made_is_not_found_by_its_name_alone(
    spark: SparkSession, numbers: dict[str, str], table: str
) -> None:
    save_as_table(spark.range(2), table, numbers)
    by_name: list[Callable[[], object]] = [
        lambda: spark.table(table).collect(),
        lambda: spark.sql(f"select * from {table}").collect(),
        lambda: spark.sql(f"insert into {table} select 7L"),
        lambda: spark.range(7, 8).write.insertInto(table),
        lambda: spark.range(7, 8).writeTo(table).append(),
    ]

    for use in by_name:
        with pytest.raises(AnalysisException, match=r"(?s)Option sink is not set.*WITH \(endpoint='host:port'"):
            use()
    assert stored(spark, numbers) == [0, 1]


def test_a_temporary_view_is_written_and_read_by_sql(spark: SparkSession, broker: TestBroker) -> None:
    where = {"endpoint": broker.endpoint, "sink": "numbers", "create_sink": "true"}
    spark.range(2).write.format("forebay").mode("append").options(**where).save()
    spark.sql(
        f"create or replace temporary view numbers using forebay options (endpoint '{broker.endpoint}', sink 'numbers')"
    )

    spark.sql("insert into numbers select 7L")

    assert sorted(row.id for row in spark.sql("select id from numbers").collect()) == [0, 1, 7]


def test_a_table_of_the_catalog_says_that_a_view_is_to_be_used(spark: SparkSession, broker: TestBroker) -> None:
    spark.sql(f"create table a_table (n bigint) using forebay options (endpoint '{broker.endpoint}', sink 'orders')")
    try:
        for statement in ("select * from a_table", "insert into a_table select 1L"):
            with pytest.raises(AnalysisException, match="CREATE TEMPORARY VIEW v USING forebay"):
                spark.sql(statement).collect()
    finally:
        spark.sql("drop table a_table")


def test_a_write_without_a_mode_is_refused_by_spark_with_the_modes_that_there_are(
    spark: SparkSession, broker: TestBroker
) -> None:
    rows = spark.createDataFrame([("a",)], "value string")

    with pytest.raises(AnalysisException, match='"Append"'):
        rows.write.format("forebay").option("endpoint", broker.endpoint).option("sink", "orders").save()
