"""Bytes of rows with a schema are the bytes of a column of bytes, not their base64."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.client.publish.pages import encode_columns
from forebay.client.values.records import StoredPage
from forebay.deliver import Batch
from forebay.deliver.batches.records import BatchRecords
from forebay.deliver.targets.postgresql.binary_fields import binary_fields
from forebay.deliver.targets.postgresql.json_rows import ROWS_AT_ONCE, json_rows
from forebay.deliver.targets.postgresql.settings import UnknownFields
from forebay.deliver.targets.postgresql.table import Table
from tests.support.targets.copy_rows import rows_of
from tests.support.targets.memory_source import MemoryRecord, MemoryRun
from tests.support.targets.rows_batch import rows_batch, stored_page

TABLE = Table({"id": "bigint", "photo": "bytea", "name": "text"})


def rows(*photos: bytes | None, kind: pa.DataType | None = None) -> pa.RecordBatch:
    numbers = pa.array(range(len(photos)), pa.int64())
    return pa.record_batch({"id": numbers, "photo": pa.array(photos, kind or pa.binary())})


def records(page: StoredPage) -> StoredPage:
    encoded = encode_columns([b"{}"])
    return StoredPage(3, 0, 1, encoded.encoding, encoded.body, (), 0, 0, page.schema_of)


def photos(batch: Batch) -> list[str | None]:
    found = list(json_rows(batch, TABLE, UnknownFields.REJECT))
    place = [one.columns.index("photo") for one in found]
    return [row[at] for one, at in zip(found, place, strict=True) for row in rows_of(one)]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary(2), pa.dictionary(pa.int32(), pa.binary())])
def test_bytes_of_every_type_are_bytes_of_a_column_of_bytes(kind: pa.DataType) -> None:
    page = stored_page(rows(b"\0\xff", kind=kind))

    assert binary_fields(page, TABLE) == {"photo"}
    assert photos(rows_batch(page)) == ["\\x00ff"]
    assert binary_fields(page, Table({"id": "bigint", "photo": "text"})) == frozenset()


def test_texts_and_records_without_a_schema_are_what_the_writer_gave() -> None:
    page = stored_page(pa.record_batch({"photo": pa.array(["AP8="])}))

    assert binary_fields(page, TABLE) == frozenset()
    assert binary_fields(records(page), TABLE) == frozenset()


@given(st.lists(st.none() | st.binary(max_size=20), min_size=1))
def test_every_byte_of_a_row_with_a_schema_is_kept(given_: list[bytes | None]) -> None:
    found = photos(rows_batch(stored_page(rows(*given_))))

    assert found == [None if photo is None else f"\\x{photo.hex()}" for photo in given_]


def test_rows_of_a_batch_may_have_bytes_in_some_pages_and_text_in_others() -> None:
    count = ROWS_AT_ONCE + 1
    as_bytes = stored_page(rows(*[b"\0\xff"] * count))
    as_text = stored_page(pa.record_batch({"id": [1, 2], "photo": ["\\x01", "AP8="]}), count, version=2)
    again = stored_page(rows(b"\x02", b"\x03"), count + 2)
    batch = rows_batch(as_bytes, as_text, again)

    assert photos(batch) == ["\\x00ff"] * count + ["\\x01", "AP8=", "\\x02", "\\x03"]
    assert photos(batch.after(count + 1)) == ["AP8=", "\\x02", "\\x03"]


def test_a_batch_of_single_records_has_what_the_writer_gave() -> None:
    value = json.dumps({"photo": "\\x00ff"}).encode()
    single = Batch("orders", "i", 3, (MemoryRecord(0, value),))
    as_run = Batch("orders", "i", 3, BatchRecords([MemoryRun([MemoryRecord(0, value)])]))

    assert photos(single) == photos(as_run) == ["\\x00ff"]


def test_of_two_fields_of_one_name_the_last_one_is_the_value() -> None:
    both = pa.schema([("photo", pa.binary()), ("photo", pa.string())])
    text_last = pa.RecordBatch.from_arrays([pa.array([b"\0"]), pa.array(["\\x01"])], schema=both)
    reverse = pa.schema([both.field(1), both.field(0)])
    bytes_last = pa.RecordBatch.from_arrays([pa.array(["\\x01"]), pa.array([b"\0"])], schema=reverse)

    assert photos(rows_batch(stored_page(text_last))) == ["\\x01"]
    assert photos(rows_batch(stored_page(bytes_last))) == ["\\x00"]
