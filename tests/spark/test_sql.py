"""SQL and tables: what Spark lets a Python data source do works, and the rest says what to use instead."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from forebay.client.testing import TestBroker


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
