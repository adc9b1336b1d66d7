"""Repeated values are stored once in each page, and readers of the rows see no difference."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from forebay.client.testing import TestBroker
from forebay.spark.schema.row_schema import nullable_schema
from tests.support.spark.arrow_rows import pages, read, refusal, write

REPETITIVE = """
select id, concat('a rather long name of country ', id % 20) as country, uuid() as unique from range(0, 20000, 1, 2)
"""


@pytest.mark.parametrize("dictionary", ["country", "auto"])
def test_values_that_repeat_are_stored_once_in_each_page(
    spark: SparkSession, broker: TestBroker, dictionary: str, tmp_path: Path
) -> None:
    rows = spark.sql(REPETITIVE).localCheckpoint()
    write(rows, broker, arrow_compression="none")
    plain = sum(len(page.body) for page in pages(broker))
    end = {page.partition: page.last_offset + 1 for page in pages(broker)}

    write(rows, broker, arrow_dictionary=dictionary, arrow_compression="none")

    assert sum(len(page.body) for page in pages(broker)) - plain < 0.6 * plain
    back = read(spark, broker, startingOffsets=json.dumps({str(n): at for n, at in end.items()}))
    assert back.schema == nullable_schema(rows.schema)
    assert back.exceptAll(rows).count() == rows.exceptAll(back).count() == 0
    with broker.client() as client:
        assert client.schemas.latest("orders")[0] == 1

    stream = spark.readStream.format("forebay").options(endpoint=broker.endpoint, sink="orders").load()
    query = (
        stream.writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "out"))
    )
    query.awaitTermination()
    streamed = spark.read.parquet(str(tmp_path / "out"))
    assert streamed.count() == 40_000
    assert streamed.exceptAll(rows.union(rows)).count() == 0


@pytest.mark.parametrize(
    ("names", "why"),
    [
        ("id", "arrow_dictionary names id, which is bigint"),
        ("tags", "arrow_dictionary names tags, which is array<string>"),
        ("place.town", "arrow_dictionary names place.town, which is none of the columns"),
        ("auto, nobody", "arrow_dictionary names nobody, which is none of the columns"),
    ],
)
def test_columns_that_can_have_no_dictionary_are_refused_before_anything_is_written(
    spark: SparkSession, broker: TestBroker, names: str, why: str
) -> None:
    rows = spark.sql("select 1L as id, array('a') as tags, struct('b' as town) as place, 'c' as name")

    assert why in refusal(rows, broker, arrow_dictionary=names)
    with broker.client() as client:
        assert client.schemas.latest("orders") == (0, None)
    assert pages(broker) == []
