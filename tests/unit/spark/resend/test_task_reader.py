"""A task reads exactly the records of its set, with how often each has failed."""

from __future__ import annotations

import logging
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from forebay.arrow import encode_batches, encode_schema
from forebay.client import Record, ResendRanges
from forebay.client.replay.rows import encode_rows
from forebay.client.testing import TestBroker
from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.read import read_options
from forebay.spark.read.rows import page_reader
from forebay.spark.read.schema import read_schema
from forebay.spark.resend.task_reader import read_resends
from tests.support.pages.invalid_text import unchecked_strings


def read(
    broker: TestBroker, *ranges: tuple[int, int], attempts: tuple[tuple[int, int], ...] = (), **given: str
) -> list[dict[str, Any]]:
    """Return the rows of a split."""
    options = read_options({"endpoint": broker.endpoint, "sink": "orders", **given}, {})
    schema = read_schema(options.columns, options.metadata)
    part = ResendRanges(0, 0, ranges, attempts)
    batches = list(read_resends(options, page_reader(options, schema), part))
    assert all(batch.schema == to_arrow_schema(schema, timezone="UTC") for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.fixture
def orders(broker: TestBroker) -> TestBroker:
    """A broker with a sink of three pages of ten records."""
    with broker.client() as client:
        client.sinks.create("orders", buffer_page_size=10)
        for first in (0, 10, 20):
            client.publish("orders", [Record(b"%d" % n) for n in range(first, first + 10)])
    return broker


def test_a_set_is_read_whatever_lies_between_its_ranges(orders: TestBroker) -> None:
    found = read(orders, (3, 4), (8, 11), (29, 29), columns="value")

    assert [row["value"] for row in found] == [b"3", b"4", b"8", b"9", b"10", b"11", b"29"]


def test_each_record_says_how_often_it_has_failed(orders: TestBroker) -> None:
    found = read(orders, (3, 4), (8, 8), attempts=((3, 2), (8, 1)), columns="offset", metadata="_attempt")

    assert [(row["offset"], row["_attempt"]) for row in found] == [(3, 2), (4, 0), (8, 1)]


def test_missing_records_that_other_processes_settled_are_no_loss(
    orders: TestBroker, caplog: pytest.LogCaptureFixture
) -> None:
    with orders.client() as client:
        client.subscriptions.settle("orders", offsets={0: 10})
        for _ in client.sinks.watch("orders", interval_s=0.1):
            if client.sinks.stats("orders").partitions[0].earliest_offset == 10:
                break

    with caplog.at_level(logging.WARNING):
        found = read(orders, (3, 4), (8, 11), columns="offset")

    assert [row["offset"] for row in found] == [10, 11]
    assert "settled by another process sink=orders partition=0 first_offset=8 last_offset=9" in caplog.text


def test_dropped_records_fail_the_task_and_only_those_of_the_set_are_reported(orders: TestBroker) -> None:
    with orders.client() as client:
        client.sinks.purge("orders", partition=0, until_offset=20)

    with pytest.raises(ForebaySparkError, match=r"Offsets 8 to 11 of partition 0 .* are gone \(PURGED\)"):
        read(orders, (8, 11), (29, 29))
    accepted = read(orders, (8, 11), (29, 29), columns="offset", metadata="_gap", failOnDataLoss="false")

    assert [(row["offset"], row["_gap"] and row["_gap"]["last_offset"]) for row in accepted] == [(8, 11), (29, None)]


def test_rows_of_a_set_that_cannot_be_decoded_are_reported_and_the_others_are_read(broker: TestBroker) -> None:
    rows = pa.record_batch({"s": unchecked_strings([b"a", b"\xff", b"c", b"\xfe", b"e"])})
    with broker.client() as client:
        client.sinks.create("orders")
        client.schemas.register("orders", encode_schema(rows.schema), previous=0)
        with client.publisher("orders") as publisher:
            publisher.send_page(encode_rows(1, 5, encode_batches([rows])), partition=0).result(20)

    with pytest.raises(ForebaySparkError, match="offset 1 of partition 0 cannot be decoded"):
        read(broker, (0, 2), (4, 4), row_format="record")
    found = read(
        broker,
        *((0, 2), (4, 4)),
        attempts=((2, 3), (4, 1)),
        failOnDataLoss="false",
        columns="offset,value",
        metadata="_attempt,_gap",
        row_format="record",
    )

    readable = [(row["offset"], row["value"], row["_attempt"]) for row in found if row["_gap"] is None]
    assert readable == [(0, b'{"s":"a"}', 0), (2, b'{"s":"c"}', 3), (4, b'{"s":"e"}', 1)]
    [gap] = [row["_gap"] for row in found if row["_gap"] is not None]
    assert gap == {"first_offset": 1, "last_offset": 1, "reason": "UNREADABLE"}
