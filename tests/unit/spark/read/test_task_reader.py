"""A task reads what it was given, and says what is gone."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from forebay.client import Record
from forebay.client.testing import TestBroker
from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.read import read_options
from forebay.spark.read.ranges import Span
from forebay.spark.read.rows import page_reader
from forebay.spark.read.schema import read_schema
from forebay.spark.read.task_reader import Split, read_split


def read(broker: TestBroker, span: Span, incarnation: str = "", **given: str) -> list[dict[str, Any]]:
    """Return the rows of a split."""
    options = read_options({"endpoint": broker.endpoint, "sink": "orders", **given}, {})
    schema = read_schema(options.columns, options.metadata)
    batches = list(read_split(options, page_reader(options, schema), Split(span, incarnation)))
    assert all(batch.schema == to_arrow_schema(schema, timezone="UTC") for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


def fill(broker: TestBroker, records: int) -> None:
    """Publish records, each in a page of its own."""
    with broker.client() as client:
        for number in range(records):
            client.publish("orders", [Record(b"%d" % number, key=b"k", headers={"h": b"x"})], partition=0)


@pytest.fixture
def dropping(broker: TestBroker) -> TestBroker:
    """A broker with a sink that has dropped its first three records and kept four."""
    with broker.client() as client:
        client.sinks.create("orders", buffer_page_size=1, max_disk_cache=4, overflow="DROP_OLDEST")
    fill(broker, 7)
    return broker


def test_only_the_columns_that_are_asked_for_are_there(dropping: TestBroker) -> None:
    [row] = read(dropping, Span(0, 5, 6), columns="value, offset")

    assert row == {"value": b"5", "offset": 5}


def test_metadata_of_a_record_is_beside_it(dropping: TestBroker) -> None:
    [row] = read(dropping, Span(0, 5, 6), columns="value", metadata="true")

    assert (row["_sink"], row["_partition"], row["_offset"], row["_attempt"]) == ("orders", 0, 5, None)
    assert row["_headers"] == [{"key": "h", "value": b"x"}]
    assert row["_accepted_at"].tzinfo is not None


def test_a_gap_fails_the_task_with_its_offsets_and_its_reason(dropping: TestBroker) -> None:
    with pytest.raises(
        ForebaySparkError, match=r"Offsets 1 to 2 of partition 0 of sink 'orders' are gone \(OVERFLOW\)"
    ):
        read(dropping, Span(0, 1, 7))


def test_a_gap_is_left_out_and_logged_where_the_loss_is_accepted(
    dropping: TestBroker, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        rows = read(dropping, Span(0, 1, 7), failOnDataLoss="false")

    assert [row["offset"] for row in rows] == [3, 4, 5, 6]
    assert "first_offset=1 last_offset=2 reason=OVERFLOW" in caplog.text


def test_a_gap_is_a_row_where_that_was_asked_for(dropping: TestBroker) -> None:
    gap, *rest = read(dropping, Span(0, 1, 7), failOnDataLoss="false", columns="offset,value", metadata="_gap")

    assert gap == {
        "offset": 1,
        "value": None,
        "_gap": {"first_offset": 1, "last_offset": 2, "reason": "OVERFLOW"},
    }
    assert [(row["offset"], row["_gap"]) for row in rest] == [(3, None), (4, None), (5, None), (6, None)]


def test_a_gap_is_reported_no_further_than_the_split(dropping: TestBroker) -> None:
    [gap] = read(dropping, Span(0, 0, 2), failOnDataLoss="false", metadata="_gap")

    assert gap["_gap"] == {"first_offset": 0, "last_offset": 1, "reason": "OVERFLOW"}


def test_records_that_all_subscriptions_had_settled_are_gone_for_a_reason_of_their_own(dropping: TestBroker) -> None:
    with dropping.client() as client:
        client.ack("orders", client.pull("orders", max_records=2))

    with pytest.raises(ForebaySparkError, match=r"are gone \(TRIMMED\)"):
        read(dropping, Span(0, 3, 7))
    gap, *rest = read(dropping, Span(0, 3, 7), failOnDataLoss="false", metadata="_gap")
    assert gap["_gap"] == {"first_offset": 3, "last_offset": 4, "reason": "TRIMMED"}
    assert [row["offset"] for row in rest] == [5, 6]


def test_records_of_a_time_are_read_wherever_they_stand(broker: TestBroker) -> None:
    with broker.client() as client:
        client.sinks.create("orders")
        for day in (3, 1, 2, None, 1, 4):
            time = None if day is None else datetime(2026, 6, day, 12, tzinfo=UTC)
            client.publish("orders", [Record(b"%d" % (day or 0), event_time=time), Record(b"bare")], partition=0)
    month = {"timestamps": "event_time", "startingTimestamp": "2026-06-01T12:00:00Z", "columns": "offset,value"}

    found = read(broker, Span(0, 0, 12), **month, endingTimestamp="2026-06-03T12:00:00Z")

    assert found == [{"offset": 2, "value": b"1"}, {"offset": 4, "value": b"2"}, {"offset": 8, "value": b"1"}]
    assert [row["offset"] for row in read(broker, Span(0, 5, 12), **month)] == [8, 10]
    assert read(broker, Span(0, 0, 12), timestamps="event_time", endingTimestamp="2026-06-01") == []


def test_a_gap_is_reported_although_a_time_range_is_requested(dropping: TestBroker) -> None:
    times = {"timestamps": "event_time", "startingTimestamp": "2026-06-01"}

    with pytest.raises(ForebaySparkError, match="Offsets 0 to 2 of partition 0"):
        read(dropping, Span(0, 0, 7), **times)
    [gone] = read(dropping, Span(0, 0, 7), **times, metadata="_gap", failOnDataLoss="false")

    assert gone["_gap"]["last_offset"] == 2


def test_a_split_of_a_sink_that_was_recreated_is_refused_and_names_both(broker: TestBroker) -> None:
    with broker.client() as client:
        former = client.sinks.create("orders")
    fill(broker, 2)
    with broker.client() as client:
        client.sinks.delete("orders", force=True)
        made = client.sinks.create("orders")
    fill(broker, 2)

    with pytest.raises(ForebaySparkError, match="new checkpoint location") as refused:
        read(broker, Span(0, 0, 2), former.incarnation)

    assert former.incarnation in str(refused.value)
    assert made.incarnation in str(refused.value)
    assert len(read(broker, Span(0, 0, 2), made.incarnation)) == 2
