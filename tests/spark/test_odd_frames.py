"""Unusual frames: odd names, extreme values, thousands of columns or none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from forebay.client.testing import TestBroker
from tests.support.spark import buffered
from tests.support.spark.arrow_rows import read, refusal, write

ODD_NAMES = [
    "a.b",
    "a b",
    "a,b",
    "a`b",
    'a"b',
    " lead",
    "",
    "größe",
    "名前",
    "😀",
    "_offset",
    "_sink",
    "offset",
    "Value",
]
ENDS = """
select double('NaN') nan, double('-Infinity') low, -0.0D zero, 5e-324D least, 1.7976931348623157e308D most,
  float('NaN') nan32, cast(1.4e-45 as float) least32,
  timestamp'0001-01-01 00:00:00' ts, timestamp'+290000-12-31 00:00:00' later, timestamp'-290000-01-01 00:00:00' sooner,
  timestamp_ntz'9999-12-31 23:59:59.999999' ntz, date'1582-10-10' julian, date'-200000-01-01' day,
  cast('99999999999999999999999999999999999999' as decimal(38, 0)) wide,
  cast('-0.00000000000000000000000000000000000001' as decimal(38, 38)) small,
  concat('a', char(0), 'b') nul, '' empty, X'' no_bytes, 9223372036854775807L i64, tinyint(-128) i8
"""


@contextmanager
def configured(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    """Set a value of the session, and what it was before at the end."""
    before = str(spark.conf.get(name))
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, before)


def odd(spark: SparkSession) -> DataFrame:
    return spark.range(3).select(*[(F.col("id") + n).alias(name) for n, name in enumerate(ODD_NAMES)])


def test_columns_of_any_name_round_trip(spark: SparkSession, broker: TestBroker) -> None:
    rows = odd(spark)
    write(rows, broker, partition_by="a.b,größe")

    back = read(spark, broker)

    assert back.columns == ODD_NAMES
    assert sorted(map(tuple, back.collect())) == sorted(map(tuple, rows.collect()))
    assert sorted(read(spark, broker, columns="a.b, a b").columns) == ["a b", "a.b"]


def test_a_column_whose_name_no_option_can_hold_is_chosen_by_a_schema(spark: SparkSession, broker: TestBroker) -> None:
    write(odd(spark), broker)
    some = odd(spark).select("`a,b`", "` lead`").schema

    source = spark.read.format("forebay").options(endpoint=broker.endpoint, sink="orders")

    assert sorted(map(tuple, source.schema(some).load().collect())) == [(2, 5), (3, 6), (4, 7)]


def test_values_at_the_ends_of_their_types_round_trip(spark: SparkSession, broker: TestBroker) -> None:
    # As text: Python has no time so early or late.
    as_text = [F.col(name).cast("string") for name in spark.sql(ENDS).columns]
    rows = spark.sql(ENDS)
    write(rows, broker)

    back = read(spark, broker)

    assert back.dtypes == rows.dtypes
    assert back.select(as_text).collect() == rows.select(as_text).collect()


def test_frames_of_two_thousand_columns_round_trip(spark: SparkSession, broker: TestBroker) -> None:
    rows = spark.range(3).select(
        *[(F.col("id") + n).cast("string" if n % 2 else "double").alias(f"c{n}") for n in range(2_000)]
    )
    write(rows, broker)

    assert sorted(map(tuple, read(spark, broker).collect())) == sorted(map(tuple, rows.collect()))


def test_a_schema_larger_than_a_sink_takes_is_refused_with_its_size(spark: SparkSession, broker: TestBroker) -> None:
    rows = spark.range(1).select(*[F.col("id").alias(f"{'c' * 1_000}{n}") for n in range(1_100)])

    said = refusal(rows, broker)

    assert "to 1048576" in said
    assert "Write fewer columns, or shorter names." in said
    with broker.client() as client:
        assert client.schemas.latest("orders") == (0, None)


@pytest.mark.parametrize("wide", ["write", "read"])
def test_large_types_of_arrow_are_the_usual_ones_in_the_sink(
    spark: SparkSession, broker: TestBroker, wide: str
) -> None:
    setting = "spark.sql.execution.arrow.useLargeVarTypes"
    rows = spark.sql("select 1 id, 'a' s, X'01' b, array('x') a")

    with configured(spark, setting, str(wide == "write").lower()):
        write(rows, broker)
    with configured(spark, setting, str(wide == "read").lower()):
        assert read(spark, broker).collect() == rows.collect()


@pytest.mark.parametrize("zone", ["+05:30", "GMT+2", "America/New_York"])
def test_a_session_in_any_zone_writes_the_instants_that_it_shows(
    spark: SparkSession, broker: TestBroker, zone: str
) -> None:
    with configured(spark, "spark.sql.session.timeZone", zone):
        rows = spark.sql("select timestamp'2026-03-08 02:30:00' ts, timestamp_ntz'2026-03-08 02:30:00' ntz")
        expected = rows.selectExpr("unix_micros(ts)", "cast(ntz as string)").collect()
        write(rows, broker)

    assert read(spark, broker).selectExpr("unix_micros(ts)", "cast(ntz as string)").collect() == expected


def test_a_sink_is_written_into_itself_once(spark: SparkSession, broker: TestBroker) -> None:
    write(spark.range(10), broker)

    write(read(spark, broker), broker)

    assert read(spark, broker).groupBy("id").count().where("count <> 2").count() == 0
    assert read(spark, broker).count() == 20


def test_frames_without_rows_or_partitions_are_written(spark: SparkSession, broker: TestBroker) -> None:
    write(spark.createDataFrame([], "id int, s string"), broker)
    write(spark.createDataFrame(spark.sparkContext.emptyRDD(), "id int"), broker)
    write(spark.range(100).limit(0).selectExpr("cast(id as int) id"), broker)

    assert read(spark, broker).schema.simpleString() == "struct<id:int,s:string>"
    assert read(spark, broker).count() == 0
    assert buffered.records(broker.endpoint) == []
