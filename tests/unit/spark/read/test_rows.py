"""Pages of any version become batches of one schema, and everything that is no row is reported."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from forebay.arrow import encode_batches
from forebay.client import Record, StoredPage, arrow
from forebay.client.replay.rows import encode_rows
from forebay.client.testing import TestBroker
from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.read import EventTimes, read_options, schema_options
from forebay.spark.read.ranges import Missing, Span
from forebay.spark.read.rows import RecordPages, columns_of, page_reader
from forebay.spark.read.schema import RECORD
from forebay.spark.read.task_reader import Split, read_split
from forebay.spark.write.schema_registration import SchemaCache
from tests.support.pages.invalid_text import unchecked_strings

FIRST = StructType([StructField("id", LongType())])
SECOND = StructType([*FIRST.fields, StructField("name", StringType())])
OPTIONS = {"sink": "orders"}


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def orders(broker: TestBroker) -> TestBroker:
    """A broker whose sink `orders` has two rows of each of two versions."""
    with broker.client() as client:
        client.sinks.create("orders")
        cache = SchemaCache(Clock())
        target = read_options({**OPTIONS, "endpoint": broker.endpoint}, {}).target
        assert [cache.register(target, schema).version for schema in (FIRST, SECOND)] == [1, 2]
        with client.publisher("orders") as publisher:
            for version, rows in ((1, {"id": [1, 2]}), (2, {"id": [3, 4], "name": ["c", None]})):
                batch = pa.record_batch({name: pa.array(column) for name, column in rows.items()})
                publisher.send_page(arrow.page(batch, version), partition=0).result(20)
    return broker


def rows(broker: TestBroker, schema: StructType, start: int = 0) -> list[dict[str, object]]:
    """All rows of `orders`, read with a schema."""
    options = read_options({**OPTIONS, "endpoint": broker.endpoint}, {})
    reader = pickle.loads(pickle.dumps(page_reader(options, schema)))
    with broker.client() as client:
        pages = [
            page for page in client.replay_pages("orders", partition=0, start=start) if isinstance(page, StoredPage)
        ]
        return [row for page in pages for row in reader.batch(page).to_pylist()]


def columns(broker: TestBroker, **options: str) -> StructType:
    return columns_of(schema_options({**OPTIONS, "endpoint": broker.endpoint, **options}, {}))


def test_pages_of_all_versions_are_read_with_the_latest(orders: TestBroker) -> None:
    assert columns(orders) == SECOND
    assert rows(orders, SECOND) == [
        {"id": 1, "name": None},
        {"id": 2, "name": None},
        {"id": 3, "name": "c"},
        {"id": 4, "name": None},
    ]


def test_only_the_wanted_rows_of_a_page_and_the_wanted_columns_come(orders: TestBroker) -> None:
    assert rows(orders, FIRST, start=1) == [{"id": 2}, {"id": 3}, {"id": 4}]


def test_a_stream_of_every_column_refuses_a_page_with_more_and_a_stream_of_some_does_not(orders: TestBroker) -> None:
    plain = {**OPTIONS, "endpoint": orders.endpoint}
    reader = page_reader(read_options(plain, {}), columns(orders), is_stream=True)
    chosen = page_reader(read_options({**plain, "columns": "id,name"}, {}), columns(orders), is_stream=True)
    more = StructType([*SECOND.fields, StructField("more", LongType())])
    assert SchemaCache(Clock()).register(read_options(plain, {}).target, more).version == 3
    with orders.client() as client:
        with client.publisher("orders") as publisher:
            batch = pa.record_batch({"id": [5], "name": ["e"], "more": [1]})
            publisher.send_page(arrow.page(batch, 3), partition=0).result(20)
        [page] = [page for page in client.replay_pages("orders", partition=0, start=4) if isinstance(page, StoredPage)]
        with pytest.raises(ForebaySparkError, match=r"Offsets 4 to 4 of partition 0 .* column more is new") as refused:
            reader.batch(page)

        assert chosen.batch(page).to_pylist() == [{"id": 5, "name": "e"}]
    assert "Load the sink again" in refused.value.remedy


BAD_TEXT = pa.record_batch({"id": [5, 6, 7], "name": unchecked_strings([b"e", b"\xff", b"g"])})


def read_all(broker: TestBroker, schema: StructType, **options: str) -> list[dict[str, Any]]:
    """All rows of `orders`, read as a task reads them."""
    read = read_options({**OPTIONS, "endpoint": broker.endpoint, **options}, {})
    with broker.client() as client:
        incarnation = client.sinks.get("orders").incarnation
    batches = read_split(read, page_reader(read, schema), Split(Span(0, 0, 100), incarnation))
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.fixture
def damaged(orders: TestBroker) -> TestBroker:
    """The broker with a page whose second row cannot be decoded, one that is none at all, and a good one."""
    with orders.client() as client, client.publisher("orders") as publisher:
        for page in (
            encode_rows(2, 3, encode_batches([BAD_TEXT])),
            encode_rows(2, 2, b"nonsense"),
            arrow.page(pa.record_batch({"id": [10], "name": ["j"]}), 2),
        ):
            publisher.send_page(page, partition=0).result(20)
    return orders


def test_rows_that_cannot_be_decoded_fail_the_task_with_their_place_and_what_to_do(damaged: TestBroker) -> None:
    with pytest.raises(ForebaySparkError, match=r"Offsets 4 to 6 of partition 0 .* cannot be decoded") as refused:
        read_all(damaged, SECOND)

    assert '.option("failOnDataLoss", "false")' in refused.value.remedy


@pytest.mark.parametrize("schema", [SECOND, RECORD])
def test_only_the_rows_that_cannot_be_decoded_are_left_out_if_loss_is_accepted(
    damaged: TestBroker, schema: StructType
) -> None:
    found = read_all(damaged, schema, failOnDataLoss="false", row_format="auto" if schema is SECOND else "record")

    ids = [row["id"] if schema is SECOND else json.loads(row["value"])["id"] for row in found]
    assert ids == [1, 2, 3, 4, 5, 7, 10]
    if schema is RECORD:
        assert [row["offset"] for row in found] == [0, 1, 2, 3, 4, 6, 9]


def test_each_part_that_cannot_be_decoded_is_a_row_of_its_own_where_gaps_were_asked_for(damaged: TestBroker) -> None:
    options = {"failOnDataLoss": "false", "metadata": "_offset,_gap"}

    found = read_all(damaged, columns(damaged, **options), **options)

    assert [row["_offset"] for row in found] == [0, 1, 2, 3, 4, 6, 5, 7, 9]
    assert [row["_gap"] for row in found if row["_gap"]] == [
        {"first_offset": 5, "last_offset": 5, "reason": "UNREADABLE"},
        {"first_offset": 7, "last_offset": 8, "reason": "UNREADABLE"},
    ]


def test_a_record_among_rows_is_left_out_where_loss_is_accepted(orders: TestBroker) -> None:
    with orders.client() as client:
        client.publish("orders", [Record(b"no row")], partition=0)

    assert [row["id"] for row in read_all(orders, SECOND, failOnDataLoss="false")] == [1, 2, 3, 4]


def test_rows_read_as_records_are_json_objects(orders: TestBroker) -> None:
    found = rows(orders, RECORD, start=3)

    assert [(row["offset"], row["value"], row["key"]) for row in found] == [(3, b'{"id":4,"name":null}', None)]


def test_a_row_that_was_a_dead_letter_and_was_sent_again_is_a_row(orders: TestBroker) -> None:
    with orders.client() as client:
        taken = client.subscriber("orders")
        delivery = taken.take(20)
        assert delivery is not None
        delivery.dead_letter("not now", offset=1, wait=True)
        client.dead_letters.redrive("orders")

    assert rows(orders, SECOND, start=4) == [{"id": 2, "name": None}]


def test_a_record_among_rows_is_named_by_its_place(orders: TestBroker) -> None:
    with orders.client() as client:
        client.publish("orders", [Record(b"no row")], partition=0)

    with pytest.raises(ForebaySparkError, match="Offset 4 of partition 0 is a record and not a row") as error:
        rows(orders, SECOND)

    assert '.option("row_format", "record")' in error.value.remedy


def test_a_schema_that_another_writer_has_registered_is_not_guessed_at(broker: TestBroker) -> None:
    with broker.client() as client:
        client.sinks.create("orders")
        client.schemas.register("orders", b"arrow", previous=0)

    assert columns(broker) == RECORD
    with pytest.raises(ForebaySparkError, match="registered by another program"):
        SchemaCache(Clock()).register(read_options({**OPTIONS, "endpoint": broker.endpoint}, {}).target, FIRST)


def test_records_are_read_where_there_are_no_rows(broker: TestBroker) -> None:
    with broker.client() as client:
        client.sinks.create("orders")

    assert columns(broker) == RECORD
    with pytest.raises(ForebaySparkError, match="has no schema of rows"):
        columns(broker, row_format="arrow")
    with pytest.raises(ForebaySparkError, match="row_format is 'json' for a read"):
        columns(broker, row_format="json")
    with pytest.raises(ForebaySparkError, match="has its own schema, and another one was given"):
        rows(broker, FIRST)


def test_metadata_of_a_row_is_beside_its_columns(orders: TestBroker) -> None:
    given = {**OPTIONS, "endpoint": orders.endpoint, "columns": "name", "metadata": "_offset,_sink,_gap"}
    schema = columns_of(schema_options(given, {}))
    reader = page_reader(read_options(given, {}), schema)

    with orders.client() as client:
        [page] = [page for page in client.replay_pages("orders", partition=0, start=3) if isinstance(page, StoredPage)]
        found = reader.batch(page).to_pylist()
    gone = reader.missing(Missing(0, 7, 9, "PURGED")).to_pylist()

    assert found == [{"name": None, "_sink": "orders", "_offset": 3, "_gap": None}]
    place = {"first_offset": 7, "last_offset": 9, "reason": "PURGED"}
    assert gone == [{"name": None, "_sink": "orders", "_offset": 7, "_gap": place}]


@pytest.mark.parametrize(("row_format", "schema"), [("auto", SECOND), ("record", RECORD)])
def test_rows_have_no_event_time_but_a_column(orders: TestBroker, row_format: str, schema: StructType) -> None:
    given = {**OPTIONS, "endpoint": orders.endpoint, "timestamps": "event_time", "startingTimestamp": "2026-01-01"}

    with pytest.raises(ForebaySparkError, match=r"Sink 'orders' holds rows with a schema: .* no event time") as error:
        page_reader(read_options({**given, "row_format": row_format}, {}), schema)

    assert "filter on a column" in error.value.remedy


def test_a_row_that_comes_among_records_later_is_named_by_its_place(orders: TestBroker) -> None:
    pages = RecordPages(RECORD, "orders", EventTimes(0, None))

    with orders.client() as client, client.replay_pages("orders", partition=0, start=1) as replay:
        [page, *_] = [page for page in replay if isinstance(page, StoredPage)]
    with pytest.raises(ForebaySparkError, match="Offset 1 of partition 0 is a row, which has no event time"):
        pages.batch(page)


def test_a_column_that_the_rows_do_not_have_is_reported_with_those_that_they_have(orders: TestBroker) -> None:
    with pytest.raises(ForebaySparkError, match="names 'value'") as error:
        columns(orders, columns="id,value")

    assert "id, name" in error.value.remedy
