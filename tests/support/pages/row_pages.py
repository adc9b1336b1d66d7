"""Pages of rows, for the tests of what reads them."""

from __future__ import annotations

import zlib

import pyarrow as pa

from forebay.arrow import coded, encode_batches, encode_schema
from forebay.broker.core.partition.pages import Body, Encoding, Entry, Incoming, PagePart
from forebay.broker.core.writes import SchemaRecord
from forebay.v1 import record_pb2

BATCH = pa.record_batch({"id": pa.array([1, 2, 3]), "name": pa.array(["a", None, "c"])})
SCHEMA = SchemaRecord(1, 7, encode_schema(BATCH.schema), "")
JSON = [b'{"id":1,"name":"a"}', b'{"id":2,"name":null}', b'{"id":3,"name":"c"}']


def schema_of(version: int) -> SchemaRecord:
    """The one version that there is."""
    assert version == 1
    return SCHEMA


def body(batch: pa.RecordBatch = BATCH, *, version: int = 1, rows: int | None = None) -> bytes:
    """A batch as the body of a page."""
    count = batch.num_rows if rows is None else rows
    page = record_pb2.ArrowPage(schema_version=version, rows=count, messages=encode_batches([batch]))
    return page.SerializeToString()


def dictionary_body(batch: pa.RecordBatch = BATCH) -> bytes:
    """A batch as the body of a page that codes what it can by a dictionary."""
    rows, places = coded(batch, batch.schema.names, auto=False)
    columns = [record_pb2.DictionaryColumn(column=column, index_bytes=index_bytes) for column, index_bytes in places]
    page = record_pb2.ArrowPage(
        schema_version=1,
        rows=batch.num_rows,
        dictionary_messages=encode_batches([rows]),
        dictionary_columns=columns,
    )
    return page.SerializeToString()


def page(batch: pa.RecordBatch = BATCH, *, version: int = 1, partition: int = 0) -> Incoming:
    """A batch as a page that a client publishes."""
    data = body(batch, version=version)
    return Incoming(partition, Encoding.ARROW, batch.num_rows, zlib.crc32(data), data)


def stored(base: int = 10, data: bytes | None = None, parts: tuple[PagePart, ...] = ()) -> tuple[Entry, Body]:
    """A page of three rows as it is stored in the log."""
    data = body() if data is None else data
    return Entry(base, 3, 1, False, len(data), Encoding.ARROW, 50, 0, 0, 0, parts), Body(zlib.crc32(data), data)
