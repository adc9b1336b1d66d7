"""A range of a sink is a DataFrame, and reading it settles nothing."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from forebay.client import Record, ReplayedRecord
from forebay.client.testing import TestBroker

EVENT_TIME = dt.datetime(2026, 1, 31, 1, 2, 3, 4, dt.UTC)


@pytest.fixture
def filled(broker: TestBroker) -> TestBroker:
    """Ten records in partition 0 with all that a record can have, five bare ones in partition 2."""
    with broker.client() as client:
        full = [Record(b"v%d" % n, key=b"k%d" % n, headers={"h": b"%d" % n}, event_time=EVENT_TIME) for n in range(10)]
        client.publish("orders", full, partition=0)
        client.publish("orders", [Record(b"w%d" % n) for n in range(5)], partition=2)
    return broker


def read(spark: SparkSession, broker: TestBroker, **options: str) -> DataFrame:
    """Read the sink ``orders``."""
    return spark.read.format("forebay").options(endpoint=broker.endpoint, sink="orders", **options).load()


def places(rows: DataFrame) -> list[tuple[int, int]]:
    """Return where the records of a read are, sorted."""
    return sorted((row.partition, row.offset) for row in rows.select("partition", "offset").collect())


def test_a_record_round_trips(spark: SparkSession, filled: TestBroker) -> None:
    rows: list[dict[str, Any]] = [
        row.asDict(recursive=True) for row in read(spark, filled).orderBy("partition", "offset").collect()
    ]

    assert len(rows) == 15
    first, bare = rows[0], rows[-1]
    assert (first["partition"], first["offset"]) == (0, 0)
    assert (bytes(first["key"]), bytes(first["value"])) == (b"k0", b"v0")
    assert [(header["key"], bytes(header["value"])) for header in first["headers"]] == [("h", b"0")]
    assert first["event_time"].astimezone(dt.UTC) == EVENT_TIME
    assert abs(first["accepted_at"].astimezone(dt.UTC) - dt.datetime.now(dt.UTC)) < dt.timedelta(hours=1)
    assert (bare["partition"], bare["offset"], bytes(bare["value"])) == (2, 4, b"w4")
    assert (bare["key"], bare["headers"], bare["event_time"]) == (None, None, None)


def test_a_range_is_read_in_splits_and_nothing_is_settled(spark: SparkSession, filled: TestBroker) -> None:
    rows = read(
        spark,
        filled,
        startingOffsets='{"0": 3, "2": "latest"}',
        endingOffsets='{"0": 8}',
        max_records_per_split="2",
    )

    assert rows.rdd.getNumPartitions() == 3
    assert places(rows) == [(0, offset) for offset in range(3, 8)]
    with filled.client() as client:
        assert client.sinks.stats("orders").pending() == 15


def test_an_empty_range_is_an_empty_frame(spark: SparkSession, filled: TestBroker) -> None:
    assert read(spark, filled, startingOffsets="latest").collect() == []


def test_a_read_that_begins_at_a_trimmed_offset_fails_unless_the_loss_is_accepted(
    spark: SparkSession, filled: TestBroker
) -> None:
    with filled.client() as client:
        client.ack("orders", client.pull("orders", max_records=100))
        client.ack("orders", client.pull("orders", max_records=100))
        client.publish("orders", [Record(b"new")], partition=0)
        assert client.sinks.stats("orders").partitions[0].earliest_offset == 10

    with pytest.raises(PySparkException, match="earliest record is at 10"):
        read(spark, filled, startingOffsets='{"0": 3}').collect()
    assert places(read(spark, filled, startingOffsets='{"0": 3}', failOnDataLoss="false")) == [(0, 10)]


def test_records_trimmed_after_planning_fail_the_task_unless_the_loss_is_accepted(
    spark: SparkSession, filled: TestBroker
) -> None:
    strict = read(spark, filled)
    lenient = read(spark, filled, failOnDataLoss="false")
    for rows in (strict, lenient):
        assert rows.rdd.getNumPartitions() == 2  # planned now
    with filled.client() as client:
        for _ in range(2):
            client.ack("orders", client.pull("orders", max_records=100))

    with pytest.raises(PySparkException, match="failOnDataLoss"):
        strict.rdd.count()
    assert lenient.rdd.count() == 0


def test_rows_read_from_a_sink_can_be_written_to_another_sink(spark: SparkSession, filled: TestBroker) -> None:
    with filled.client() as client:
        client.sinks.create("copy", partitions=3)
    rows = read(spark, filled).select("value", "key", "headers", "partition", "event_time")

    rows.write.format("forebay").mode("append").options(endpoint=filled.endpoint, sink="copy").save()

    copied = spark.read.format("forebay").options(endpoint=filled.endpoint).load("copy")
    compared = ("partition", "value", "key", "headers", "event_time")
    assert copied.select(*compared).exceptAll(rows.select(*compared)).count() == 0
    assert copied.count() == 15


def test_columns_are_chosen_and_those_about_a_record_are_beside_them(spark: SparkSession, filled: TestBroker) -> None:
    rows = read(spark, filled, columns="value", metadata="true").where("_partition = 2").orderBy("_offset").collect()

    assert [bytes(row.value) for row in rows] == [b"w%d" % n for n in range(5)]
    assert rows[4].asDict() | {"value": None, "_accepted_at": None} == {
        "value": None,
        "_sink": "orders",
        "_partition": 2,
        "_offset": 4,
        "_accepted_at": None,
        "_attempt": None,
        "_headers": None,
    }


def test_a_gap_is_a_row_if_the_gap_column_is_requested(spark: SparkSession, filled: TestBroker) -> None:
    with filled.client() as client:
        client.sinks.purge("orders", partition=0)
        client.publish("orders", [Record(b"new")], partition=0)

    rows = (
        read(spark, filled, startingOffsets='{"0": 3}', failOnDataLoss="false", columns="offset,value", metadata="_gap")
        .where("offset >= 5 or _gap is not null")
        .orderBy("offset")
        .collect()
    )

    assert [(row.offset, row.value and bytes(row.value), row._gap and tuple(row._gap)) for row in rows] == [
        (3, None, (3, 9, "PURGED")),
        (10, b"new", None),
    ]


def test_a_range_of_time_is_read(spark: SparkSession, filled: TestBroker) -> None:
    with filled.client() as client:
        [border] = client.publish("orders", [Record(b"later")], partition=0)
        assert border.first_offset == 10
        [*_, last] = client.replay("orders", partition=0, start=10)
        assert isinstance(last, ReplayedRecord)
    later = last.accepted_at.isoformat()

    assert (0, 10) not in places(read(spark, filled, endingTimestamp=later))
    assert places(read(spark, filled, startingTimestamp=later))[-1] == (0, 10)


def test_the_records_of_a_month_are_read_whenever_they_were_accepted(spark: SparkSession, broker: TestBroker) -> None:
    rows = spark.sql(
        "select cast(id as string) as value, if(id % 10 = 0, null, timestamp'2025-12-01 00:00:00 UTC'"
        " + make_dt_interval(cast(id % 90 as int))) as event_time from range(900)"
    )
    rows.write.format("forebay").mode("append").options(endpoint=broker.endpoint, sink="orders").save()

    found = read(
        spark, broker, timestamps="event_time", startingTimestamp="2026-01-01", endingTimestamp="2026-02-01"
    ).selectExpr("int(string(value)) as id", "event_time")

    days = {row.id: row.event_time.astimezone(dt.UTC) for row in found.collect()}
    assert sorted(days) == [id for id in range(900) if 31 <= id % 90 < 62 and id % 10]
    assert (min(days.values()).day, max(days.values()).day, {day.month for day in days.values()}) == (1, 31, {1})


def test_times_of_events_are_for_records(spark: SparkSession, broker: TestBroker) -> None:
    rows = spark.sql("select 1 as id, now() as happened_at")
    rows.write.format("forebay").mode("append").options(endpoint=broker.endpoint, sink="orders").save()

    with pytest.raises(PySparkException, match="filter on a column"):
        read(spark, broker, timestamps="event_time", startingTimestamp="2026-01-01").collect()
