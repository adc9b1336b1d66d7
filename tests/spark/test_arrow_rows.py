"""Rows go through a sink with their schema: values of every type round-trip, and a schema only grows."""

from __future__ import annotations

import datetime as dt
import json
import zlib
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from forebay.client import Encoding
from forebay.client.testing import TestBroker
from forebay.spark.read.schema import RECORD
from forebay.spark.schema.row_schema import nullable_schema
from tests.support.spark import buffered
from tests.support.spark.arrow_rows import pages, read, refusal, write

EVERYTHING = """
select
  id,
  cast(id as boolean) as bool, cast(id as tinyint) as i8, cast(id as smallint) as i16, cast(id as int) as i32,
  cast(id / 3 as float) as f32, cast(id / 7 as double) as f64,
  cast(id / 8 as decimal(38, 18)) as big, cast(id as decimal(5, 2)) as small,
  concat('text "', id, '" é') as s, collate(concat('C', id), 'UNICODE_CI') as collated,
  cast(concat('b', id) as binary) as bin,
  date_add(date'2026-01-31', cast(id as int)) as d,
  timestamp'2026-03-29 01:59:59.123456 UTC' + make_dt_interval(0, cast(id as int)) as ts,
  timestamp_ntz'2026-03-29 02:30:00.000001' as ntz,
  cast('23:59:59.123456' as time(6)) as t,
  make_dt_interval(1, 2, 3, 4.000005) as span,
  array(id, null, id + 1) as list, array(array('x'), null) as lists,
  map('k', id, 'none', null) as m, map(id, array(struct(id as a))) as deep,
  struct(id as a, struct('z' as b) as c) as st,
  parse_json(concat('{"a": ', id, ', "b": [1, "x"]}')) as v,
  void_column
from (select id, null as void_column from range(10))
"""


@pytest.fixture(scope="module")
def everything(spark: SparkSession) -> DataFrame:
    """Ten rows with every type that rows can have; every second one is null, but for its id."""
    spark.conf.set("spark.sql.timeType.enabled", "true")
    rows = spark.sql(EVERYTHING)
    return rows.select(
        "id", *[F.when(F.col("id") % 2 == 0, F.col(name)).alias(name) for name in rows.columns if name != "id"]
    )


def _collected(rows: DataFrame) -> list[T.Row]:
    """All rows by id; a variant in Python equals nothing, so it is compared as JSON."""
    return sorted(rows.withColumn("v", F.to_json("v")).collect(), key=lambda row: row.id)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"arrow_compression": "lz4"},
        {"arrow_compression": "zstd", "arrow_dictionary": "auto"},
        {"arrow_dictionary": "s, collated, bin"},
    ],
    ids=str,
)
def test_every_type_round_trips(
    spark: SparkSession, broker: TestBroker, everything: DataFrame, options: dict[str, str]
) -> None:
    write(everything, broker, **options)

    back = read(spark, broker)

    assert back.schema == nullable_schema(everything.schema)
    assert _collected(back) == _collected(everything)
    assert {page.encoding for page in pages(broker)} == {Encoding.ARROW}


def test_places_on_the_earth_round_trip(spark: SparkSession, broker: TestBroker) -> None:
    rows = spark.sql(
        "select id, st_geomfromwkb(X'0101000000000000000000F03F0000000000000040') as geom,"
        " st_geogfromwkb(X'0101000000000000000000F03F0000000000000040') as geog from range(3)"
    )
    write(rows, broker)

    back = read(spark, broker)

    assert back.schema == nullable_schema(rows.schema)
    wkb = back.selectExpr("id", "hex(st_asbinary(geom)) as a", "hex(st_asbinary(geog)) as b").orderBy("id")
    assert [tuple(row) for row in wkb.collect()] == [
        (n, *["0101000000000000000000F03F0000000000000040"] * 2) for n in range(3)
    ]


def test_instants_are_the_same_in_every_session_zone(spark: SparkSession, broker: TestBroker) -> None:
    zone = spark.conf.get("spark.sql.session.timeZone")
    rows = spark.sql("select timestamp'2026-01-31 12:00:00 UTC' as ts, timestamp_ntz'2026-01-31 12:00:00' as ntz")
    try:
        spark.conf.set("spark.sql.session.timeZone", "America/New_York")
        write(rows, broker)
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(zone))

    found = read(spark, broker).selectExpr("unix_micros(ts) as ts", "cast(ntz as string) as ntz").collect()

    assert [tuple(row) for row in found] == [(1769860800000000, "2026-01-31 12:00:00")]


def test_the_same_rows_again_are_the_same_version(spark: SparkSession, broker: TestBroker) -> None:
    for _ in range(2):
        write(spark.range(5), broker)

    assert read(spark, broker).count() == 10
    with broker.client() as client:
        assert client.schemas.latest("orders")[0] == 1


def test_a_new_column_is_null_in_older_rows_and_the_order_of_columns_does_not_matter(
    spark: SparkSession, broker: TestBroker
) -> None:
    write(spark.sql("select 1L as id, 'a' as name"), broker)
    newer = spark.createDataFrame([([2.5], "b", 2)], "more array<double>, name string, id long")

    write(newer, broker)

    back = read(spark, broker).orderBy("id")
    assert back.columns == ["id", "name", "more"]
    assert [tuple(row) for row in back.collect()] == [(1, "a", None), (2, "b", [2.5])]
    with broker.client() as client:
        assert [one.version for one in client.schemas.list("orders")] == [1, 2]


def test_rows_that_do_not_fit_are_refused_with_the_differences_and_nothing_is_written(
    spark: SparkSession, broker: TestBroker
) -> None:
    write(spark.createDataFrame([(1, 2.0, "x")], "id long, price double, gone string"), broker)
    other = spark.createDataFrame([("1", 2.0)], "id string, price double").withColumn("source", F.lit("s"))

    why = refusal(other, broker, mergeSchema="false")

    assert "The rows do not fit version 1 of the schema of sink 'orders':" in why
    assert "~ id bigint    (in the rows: string)" in why
    assert "+ source string    (new)" in why
    assert read(spark, broker).count() == 1


@pytest.mark.parametrize(
    ("column", "named"),
    [
        ("make_ym_interval(1, 2)", "Column c is interval year to month, which Arrow has no type for."),
        ("array(make_ym_interval(1, 2))", "Column c is array<interval year to month>, which Arrow has no type for."),
        ("make_interval(1, 2)", 'Cannot use "INTERVAL" type'),  # Spark's own words
    ],
)
def test_a_type_that_arrow_does_not_have_is_refused_before_anything_is_written(
    spark: SparkSession, broker: TestBroker, column: str, named: str
) -> None:
    why = refusal(spark.range(1).selectExpr("id", f"{column} as c"), broker)

    assert named in why
    with broker.client() as client:
        assert client.schemas.latest("orders") == (0, None)
    assert pages(broker) == []


def test_rows_can_be_read_as_records(spark: SparkSession, broker: TestBroker) -> None:
    write(spark.sql("select 1L as id, 'a' as name"), broker)

    [row] = read(spark, broker, row_format="record").collect()

    assert json.loads(row.value) == {"id": 1, "name": "a"}
    assert [(header.key, bytes(header.value)) for header in row.headers] == [("forebay.schema_version", b"1")]
    assert [record.value for record in buffered.records(broker.endpoint)] == [b'{"id":1,"name":"a"}']


def test_a_sink_without_rows_is_read_as_records_unless_rows_are_asked_for(
    spark: SparkSession, broker: TestBroker
) -> None:
    assert read(spark, broker).schema == RECORD
    with pytest.raises(PySparkException, match="has no schema of rows"):
        read(spark, broker, row_format="arrow")


def test_a_few_columns_of_the_rows_may_be_asked_for(spark: SparkSession, broker: TestBroker) -> None:
    write(spark.sql("select 1L as id, 'a' as name, 2 as n"), broker)
    source = spark.read.format("forebay").options(endpoint=broker.endpoint, sink="orders")

    assert [tuple(row) for row in source.schema("name string, id long").load().collect()] == [("a", 1)]
    with pytest.raises(PySparkException, match="rows of another schema"):
        source.schema("name int").load().collect()


def test_json_rows_are_written_where_that_is_asked_for(spark: SparkSession, broker: TestBroker) -> None:
    write(spark.range(2), broker, row_format="json")

    assert buffered.values(broker.endpoint) == [b'{"id":0}', b'{"id":1}']


def test_rows_with_equal_values_go_where_a_record_with_that_key_goes(spark: SparkSession, broker: TestBroker) -> None:
    rows = spark.sql("select concat('k', id % 20) as k, id from range(0, 1000, 1, 3)")

    write(rows, broker, partition_by="k")

    found = buffered.records(broker.endpoint)
    assert len(found) == 1000
    for record in found:
        assert record.partition == zlib.crc32(json.loads(record.value)["k"].encode()) % 3
    assert {record.partition for record in found} == {0, 1, 2}


def test_rows_without_a_key_are_spread_in_pages_within_their_bounds(spark: SparkSession, broker: TestBroker) -> None:
    rows = spark.sql("select id, repeat(cast(id as string), cast(id % 50 as int)) as text from range(0, 20000, 1, 2)")

    write(rows, broker, page_bytes="65536")

    found = pages(broker)
    assert sum(page.record_count for page in found) == 20000
    assert {page.partition for page in found} == {0, 1, 2}
    assert max(len(page.body) for page in found) <= 65536
    assert len(found) < 2 * sum(len(page.body) for page in found) / 65536 + 4
    assert read(spark, broker).agg(F.sum("id")).collect()[0][0] == sum(range(20000))


def test_a_stream_of_rows_keeps_one_schema(spark: SparkSession, broker: TestBroker, tmp_path: Path) -> None:
    def run() -> None:
        source = spark.readStream.schema("id long, name string").json(str(tmp_path / "in"))
        where = {"endpoint": broker.endpoint, "sink": "orders", "checkpointLocation": str(tmp_path / "checkpoint")}
        query = source.writeStream.format("forebay").options(**where).trigger(availableNow=True).start()
        query.awaitTermination(60)

    (tmp_path / "in").mkdir()
    for number in range(2):
        (tmp_path / "in" / f"{number}.json").write_text(json.dumps({"id": number, "name": f"n{number}"}))
        run()

    assert sorted(tuple(row) for row in read(spark, broker).collect()) == [(0, "n0"), (1, "n1")]
    with broker.client() as client:
        assert client.schemas.latest("orders")[0] == 1


VALUES: list[Any] = [Decimal("1.5"), dt.date(2026, 1, 1)]


def test_python_values_round_trip(spark: SparkSession, broker: TestBroker) -> None:
    schema = T.StructType([T.StructField("a", T.DecimalType(5, 1)), T.StructField("b", T.DateType())])
    write(spark.createDataFrame([tuple(VALUES)], schema), broker)

    assert [list(row) for row in read(spark, broker).collect()] == [VALUES]


def test_rows_that_become_half_as_large_are_compressed_by_default(spark: SparkSession, broker: TestBroker) -> None:
    rows = spark.sql("select id, repeat('quite the same text ', 5) as text from range(0, 20000, 1, 2)")
    write(rows, broker)
    compressed = sum(len(page.body) for page in pages(broker))

    write(rows, broker, arrow_compression="none")

    assert 2 * compressed < sum(len(page.body) for page in pages(broker)) - compressed
    back = read(spark, broker)
    assert back.count() == 40_000
    assert back.exceptAll(rows.union(rows)).count() == 0
