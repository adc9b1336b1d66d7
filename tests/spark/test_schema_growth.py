"""A sink's schema grows while older frames and queries continue: no value is ever shown as another."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.streaming.query import StreamingQuery

from forebay.client.testing import TestBroker
from tests.support.spark.arrow_rows import read, refusal, write

NULLABLE = [
    ("1L", "cast(null as bigint)"),
    ("'x'", "cast(null as string)"),
    ("1.5BD", "cast(null as decimal(2,1))"),
    ("array(1)", "cast(null as array<int>)"),
    ("array(1)", "array(cast(null as int))"),
    ("true", "cast(null as boolean)"),
    ("named_struct('a', 1)", "cast(null as struct<a:int>)"),
    ("named_struct('a', 1)", "named_struct('a', cast(null as int))"),
    ("map('k', 1)", "map('k', cast(null as int))"),
    ("date'2026-01-01'", "cast(null as date)"),
    ("X'01'", "cast(null as binary)"),
]


def rows_of(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=str)


@pytest.mark.parametrize(("given", "null"), NULLABLE)
def test_a_frame_loaded_before_a_column_became_null_shows_nulls(
    spark: SparkSession, broker: TestBroker, given: str, null: str
) -> None:
    write(spark.sql(f"select {given} c, 1 k"), broker)
    before = read(spark, broker)
    later = spark.sql(f"select {null} c, 2 k")

    write(later, broker)

    assert before.where("k = 2").collect() == later.collect()
    assert before.where("c is null").count() == later.where("c is null").count()


def test_literal_columns_and_columns_that_are_left_out_are_no_matter(spark: SparkSession, broker: TestBroker) -> None:
    write(spark.sql("select 1 id, 'a' s"), broker)
    write(spark.sql("select 2 id, 'b' s").withColumn("lit", F.lit(5)), broker)
    write(spark.sql("select 3 ID"), broker)

    back = read(spark, broker)

    assert back.columns == ["id", "s", "lit"]
    assert all(field.nullable for field in back.schema)
    assert rows_of(back) == [(1, "a", None), (2, "b", 5), (3, None, None)]


def test_nested_fields_are_added_and_their_order_is_no_matter(spark: SparkSession, broker: TestBroker) -> None:
    write(spark.sql("select 1 id, named_struct('x', 1) st, array(named_struct('p', 1)) ar, map('k', 1) m"), broker)
    write(
        spark.sql(
            "select 2 id, named_struct('y', 'n', 'X', 2) st, array(named_struct('q', 2.5D, 'p', 2), null) ar,"
            " map('k', cast(null as int)) m"
        ),
        broker,
    )

    back = read(spark, broker).orderBy("id")

    assert back.select("st.*").collect() == [T.Row(x=1, y=None), T.Row(x=2, y="n")]
    assert [row.ar for row in back.collect()] == [[T.Row(p=1, q=None)], [T.Row(p=2, q=2.5), None]]
    assert [row.m for row in back.collect()] == [{"k": 1}, {"k": None}]


def test_types_become_wider_by_option_and_older_rows_are_read_with_them(
    spark: SparkSession, broker: TestBroker
) -> None:
    write(spark.sql("select 1 id, cast(0.5 as float) f, array(1) ar, 1.5BD d"), broker)
    wider = spark.sql(f"select {2**40}L id, 0.1D f, array({2**40}L) ar, 12.345BD d")

    assert '.option("type_widening", "true")' in refusal(wider, broker)
    write(wider, broker, typeWidening="true")
    write(spark.sql("select 3 id"), broker)

    back = read(spark, broker)
    assert back.schema.simpleString() == "struct<id:bigint,f:double,ar:array<bigint>,d:decimal(5,3)>"
    assert [row.id for row in back.orderBy("id").collect()] == [1, 3, 2**40]
    assert back.agg(F.sum("f"), F.sum(F.col("ar")[0]), F.sum("d")).collect()[0][:2] == (0.6, 2**40 + 1)


def test_columns_differ_by_case_only_where_case_counts(spark: SparkSession, broker: TestBroker) -> None:
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        rows = spark.sql("select 1 id, 'a' s, 'b' S")
        assert "Another column differs from S by case only" in refusal(rows, broker)
        write(rows, broker, case_sensitive="true")
        write(spark.sql("select 2 id, 'c' S"), broker, case_sensitive="true")
        assert rows_of(read(spark, broker)) == [(1, "a", "b"), (2, None, "c")]
    finally:
        spark.conf.set("spark.sql.caseSensitive", "false")


def test_names_in_options_and_schemas_are_found_as_spark_finds_them(spark: SparkSession, broker: TestBroker) -> None:
    write(spark.sql("select 1 id, 'a' Name, 2.5D price"), broker, partition_by="ID", arrow_dictionary="name")

    assert rows_of(read(spark, broker, columns="NAME,Id")) == [("a", 1)]
    source = spark.read.format("forebay").options(endpoint=broker.endpoint, sink="orders")
    assert rows_of(source.schema("ID bigint").load()) == [(1,)]


def test_a_schema_that_was_set_without_nulls_meets_one(spark: SparkSession, broker: TestBroker) -> None:
    write(spark.sql("select cast(null as int) a, 1 b"), broker)
    never = T.StructType([T.StructField("a", T.IntegerType(), nullable=False)])
    frame = spark.read.format("forebay").options(endpoint=broker.endpoint, sink="orders").schema(never).load()

    with pytest.raises(PySparkException, match="Column a is null within offsets 0 to 0"):
        frame.collect()


def test_a_frame_planned_before_a_column_became_wider_says_to_load_again(
    spark: SparkSession, broker: TestBroker
) -> None:
    write(spark.sql("select 1 id"), broker)
    before = read(spark, broker)
    write(spark.sql(f"select {2**40}L id"), broker, type_widening="true")

    with pytest.raises(PySparkException, match="rows of another schema") as told:
        before.collect()

    assert "Load the sink again" in str(told.value)
    assert read(spark, broker).count() == 2


@pytest.mark.parametrize(
    ("later", "problem"),
    [
        (f"select {2**40}L id, 'b' s", "column id is int64, and not int32"),
        ("select 2 id, 'b' s, 'new' more", "column more is new"),
        ("select 2 id, null s, named_struct('a', 1, 'b', 2) st", "column st.b is new"),
    ],
)
def test_a_running_query_meets_what_it_was_not_planned_for_and_continues_after_a_restart(
    spark: SparkSession, broker: TestBroker, tmp_path: Path, later: str, problem: str
) -> None:
    where = {"endpoint": broker.endpoint, "sink": "orders"}
    out = str(tmp_path / "out")

    def start() -> StreamingQuery:
        source = spark.readStream.format("forebay").options(**where).load()
        sink = source.select(F.to_json(F.struct("*")).alias("value")).writeStream.format("text")
        return sink.option("checkpointLocation", str(tmp_path / "checkpoint")).start(out)

    write(spark.sql("select 1 id, 'a' s, named_struct('a', 1) st"), broker)
    query = start()
    query.processAllAvailable()
    write(spark.sql("select cast(null as int) id, cast(null as string) s"), broker)
    query.processAllAvailable()

    write(spark.sql(later), broker, type_widening="true")
    with pytest.raises(StreamingQueryException, match=problem) as told:
        query.processAllAvailable()
    assert "restart the query from its checkpoint" in str(told.value)

    again = start()
    again.processAllAvailable()
    again.stop()
    assert spark.read.text(out).count() == 3
