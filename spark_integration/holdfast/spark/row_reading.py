"""Which columns a read has, and how stored pages become batches with them.

A sink that keeps a schema is read as rows, with the columns of the latest version: pages of older ones show null where
a column is newer than they are. Any sink can be read as records; a row is a JSON object then.
"""

from __future__ import annotations

from typing import Final, Protocol

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from holdfast.arrow import RowsUnreadable, rows_from_json
from holdfast.client import Encoding, StoredPage, errors
from holdfast.client.arrow import record_batch
from holdfast.client.columns import decode_columns
from holdfast.client.rows import VERSION_HEADER
from holdfast.spark.arrow_pages import page_batch
from holdfast.spark.arrow_paging import conformed
from holdfast.spark.broker import connect
from holdfast.spark.errors import HoldfastSparkError
from holdfast.spark.options import ReadOptions, Rows, SchemaOptions, Target
from holdfast.spark.remedies import explained
from holdfast.spark.row_schema import parse, readable_as
from holdfast.spark.schema import READ_SCHEMA

_AS_RECORDS: Final = 'Read records instead: .option("row_format", "record").'


class PageReader(Protocol):
    """Makes batches of stored pages. Is pickled."""

    def batch(self, page: StoredPage) -> pa.RecordBatch:
        """Return the wanted part of a page. Raises `HoldfastError`, or `HoldfastSparkError` for what does not fit."""


class RecordPages:
    """Reads records."""

    def __init__(self) -> None:
        self._schema = to_arrow_schema(READ_SCHEMA, timezone="UTC")

    def batch(self, page: StoredPage) -> pa.RecordBatch:
        """See `PageReader`."""
        return page_batch(page, self._schema)


class RowPages:
    """Reads rows with a schema."""

    def __init__(self, schema: StructType) -> None:
        """``schema`` has the columns of the read."""
        self._schema = to_arrow_schema(schema, timezone="UTC")

    def batch(self, page: StoredPage) -> pa.RecordBatch:
        """See `PageReader`."""
        if page.encoding is Encoding.ARROW:
            return conformed(record_batch(page), self._schema)
        return self._sent_again(page)

    def _sent_again(self, page: StoredPage) -> pa.RecordBatch:
        """Return rows that were dead letters, and were sent again one by one, as JSON."""
        decoded = decode_columns(page)
        headers = decoded.headers or [()] * len(decoded)
        for index, found in enumerate(headers):
            if VERSION_HEADER not in dict(found):
                raise HoldfastSparkError(
                    f"Offset {page.first_offset + index} of partition {page.partition} is a record and not a row.",
                    _AS_RECORDS,
                )
        try:
            return rows_from_json(decoded.values, self._schema)
        except RowsUnreadable as broken:
            raise errors.InvalidPage(f"the page at offset {page.base_offset} is not what it says: {broken}") from broken


def rows_of(options: SchemaOptions) -> StructType:
    """Return the columns of a read. Raises `HoldfastSparkError`."""
    if options.rows is Rows.JSON:
        raise HoldfastSparkError("Option row_format is 'json' for a read.", "Set it to one of: auto, record, arrow.")
    latest = _latest(options.target)
    if latest is None and options.rows is Rows.ARROW:
        raise HoldfastSparkError(f"Sink {options.target.sink!r} has no schema of rows.", _AS_RECORDS)
    return READ_SCHEMA if latest is None else latest


def page_reader(options: ReadOptions, schema: StructType) -> PageReader:
    """Return what makes batches of ``schema``: Spark passes on what a user has set. Raises `HoldfastSparkError`."""
    if schema == READ_SCHEMA:
        return RecordPages()
    latest = _latest(options.target)
    if latest is None:
        raise HoldfastSparkError(
            "A read of format holdfast has a schema of its own, and another one was set.",
            "Leave .schema(...) out and parse the column value, e.g. with from_json(value, ...).",
        )
    if not readable_as(latest, schema):
        raise HoldfastSparkError(
            f"Sink {options.target.sink!r} holds rows of another schema than the one that was set:"
            f"\n  {latest.simpleString()}",
            "Leave .schema(...) out, or name columns of it with their types.",
        )
    return RowPages(schema)


def _latest(target: Target) -> StructType | None:
    """Return the schema of a sink's rows, None where it has none that Spark could read."""
    try:
        with connect(target, patience_s=target.connect_timeout_s) as client:
            _, found = client.schemas.latest(target.sink)
    except errors.HoldfastError as error:
        raise explained(error, target, doing="ask for the schema of") from error
    return None if found is None else parse(found.spark_schema)
