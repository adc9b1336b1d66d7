"""Strings that are not UTF-8 are everyday in Spark: refused before anything is staged, or replaced."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from forebay.client.testing import TestBroker
from tests.support.spark.arrow_rows import pages, read, refusal, write

LATIN_1 = "cast(X'4dfc6c6c6572' as string)"


@pytest.mark.parametrize("row_format", ["arrow", "json"])
def test_one_bad_string_among_good_rows_is_refused_and_nothing_becomes_visible(
    spark: SparkSession, broker: TestBroker, row_format: str
) -> None:
    good = spark.range(10_000).selectExpr("id", "concat('row ', id) s")
    rows = good.union(spark.sql(f"select 10000L id, {LATIN_1} s")).coalesce(1)

    told = refusal(rows, broker, row_format=row_format)

    assert "Row 10000 of this task cannot be written: column s: the string is not UTF-8, byte 0xfc" in told
    assert pages(broker) == []


@pytest.mark.parametrize(
    ("column", "path"),
    [
        (f"map({LATIN_1}, 1)", "c (keys)"),
        (f"map(1, {LATIN_1})", "c (values)"),
        (f"named_struct('a', array({LATIN_1}))", "c.a[]"),
    ],
)
def test_nested_strings_are_found(spark: SparkSession, broker: TestBroker, column: str, path: str) -> None:
    assert f"column {path}: the string is not UTF-8" in refusal(spark.sql(f"select 1 id, {column} c"), broker)


def test_a_latin_1_file_is_written_with_replacement(spark: SparkSession, broker: TestBroker, tmp_path: Path) -> None:
    (tmp_path / "names.csv").write_bytes("name,n\nZürich,1\nBern,2\n".encode("latin-1"))
    rows = spark.read.option("header", True).csv(str(tmp_path))

    write(rows, broker, invalid_utf8="replace", partition_by="name", arrow_dictionary="name")

    found = read(spark, broker).orderBy("n").collect()
    assert [tuple(row) for row in found] == [("Z\ufffdrich", "1"), ("Bern", "2")]


def test_the_name_of_a_header_is_checked_too(spark: SparkSession, broker: TestBroker) -> None:
    rows = spark.sql(f"select 'v' value, array(named_struct('key', {LATIN_1}, 'value', X'01')) headers")

    assert "column headers[].key: the string is not UTF-8" in refusal(rows, broker)
