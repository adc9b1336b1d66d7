"""Pages of rows as Arrow batches, for users of pyarrow; requires the extra ``arrow``.

from forebay.client import arrow

for page in client.replay_pages("orders", partition=0):
    batch = arrow.record_batch(page)
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from forebay.arrow import (
    EXPANDED_BYTES_MAX,
    UNREADABLE,
    RowInvalid,
    RowsUnreadable,
    can_be_coded,
    checked,
    coded,
    decode_rows,
    encode_batches,
    encode_schema,
    expanded_bytes,
    read_schema,
    salvage,
)
from forebay.arrow.ipc import Compression
from forebay.client.errors import InvalidPage
from forebay.client.publish.pages import EncodedPage
from forebay.client.replay.rows import encode_rows, read_rows
from forebay.client.values.records import StoredPage
from forebay.client.values.schemas import Schema
from forebay.page.rows import RowsBody

__all__ = ["Compression", "arrow_schema", "encode_schema", "page", "readable_rows", "record_batch", "schema_of"]


def schema_of(page: StoredPage) -> Schema:
    """Return the registered schema of the rows of a page; raises ``SchemaNotFound``."""
    return _schema_of(page, read_rows(page))


def _schema_of(page: StoredPage, rows: RowsBody) -> Schema:
    if page.schema_of is None:
        raise InvalidPage(f"the page at offset {page.base_offset} has no source of schemas: get it from a replay")
    return page.schema_of(rows.schema_version)


def arrow_schema(schema: Schema) -> pa.Schema:
    """Return a registered schema as a pyarrow schema."""
    try:
        return read_schema(schema.arrow_schema)
    except RowsUnreadable as broken:
        raise InvalidPage(f"version {schema.version} of the schema cannot be read: {broken}") from broken


def record_batch(page: StoredPage) -> pa.RecordBatch:
    """Return the requested rows of a page, with the schema with which they were written.

    Raises ``SchemaNotFound``, and ``InvalidPage`` for a page of records or with rows that cannot be decoded. If some
    rows of such a page can be decoded, ``readable_rows`` returns them.
    """
    rows = read_rows(page)
    try:
        batch = decode_rows(_schema_of(page, rows).arrow_schema, rows.messages, rows.count, rows.dictionary_columns)
    except UNREADABLE as broken:
        raise InvalidPage(f"the page at offset {page.base_offset} cannot be decoded: {broken}") from broken
    return batch.slice(page.first_offset - page.base_offset, len(page))


def readable_rows(page: StoredPage) -> tuple[pa.RecordBatch, list[tuple[int, int, str]]]:
    """Return the requested rows that can be decoded, and the offset ranges of the others with reasons.

    Raises as ``record_batch`` does if no row of the page can be decoded.
    """
    rows = read_rows(page)
    try:
        found = salvage.readable_rows(
            _schema_of(page, rows).arrow_schema, rows.messages, rows.count, rows.dictionary_columns
        )
    except UNREADABLE as broken:
        raise InvalidPage(f"the page at offset {page.base_offset} cannot be decoded: {broken}") from broken
    base = page.base_offset
    parts = [
        (max(part.first + base, page.first_offset), min(part.end + base - 1, page.last_offset), part.reason)
        for part in found.unreadable
    ]
    batch = found.between(page.first_offset - base, page.last_offset - base + 1)
    return batch, [part for part in parts if part[0] <= part[1]]


def page(
    batch: pa.RecordBatch, schema_version: int, *, compression: Compression = "none", dictionary: Sequence[str] = ()
) -> EncodedPage:
    """Encode a batch as a page for ``Publisher.send_page``; its schema is that of ``schema_version``.

    ``dictionary`` names columns of strings or binaries with few distinct values, which are dictionary-encoded. Raises
    ``InvalidPage`` for a name that is not such a column. Raises it also for rows that readers reject: over 64 MiB in
    total, or with an invalid value such as a string that is not UTF-8.
    """
    for name in dictionary:
        if name not in batch.schema.names or not can_be_coded(batch.schema.field(name).type):
            raise InvalidPage(f"dictionary = {name!r}: must be a column of strings or binaries")
    try:
        batch = checked(batch)
    except RowInvalid as wrong:
        raise InvalidPage(f"readers would reject these rows: {wrong}") from wrong
    rows, columns = coded(batch, dictionary, auto=False)
    messages = encode_batches([rows], compression)
    size = max(expanded_bytes(messages), batch.nbytes)
    if size > EXPANDED_BYTES_MAX:
        raise InvalidPage(f"the rows have {size} bytes: must be at most {EXPANDED_BYTES_MAX} bytes in a page")
    return encode_rows(schema_version, batch.num_rows, messages, columns)
