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
from holdfast.spark.arrow_pages import missing_batch, page_batch, places, within
from holdfast.spark.broker import connect
from holdfast.spark.errors import HoldfastSparkError
from holdfast.spark.options import Rows, Target
from holdfast.spark.ranges import Missing
from holdfast.spark.read_options import EventTimes, ReadOptions, SchemaOptions
from holdfast.spark.read_schema import RECORD, read_schema, row_columns
from holdfast.spark.remedies import explained
from holdfast.spark.row_fitting import Fitting, Misfit, may_be_null, nulls_in
from holdfast.spark.row_schema import nullable_schema, parse, readable_as

_AS_RECORDS: Final = 'Read records instead: .option("row_format", "record").'


class PageReader(Protocol):
    """Makes batches of stored pages. Is pickled."""

    schema: pa.Schema
    """Of each batch."""

    def batch(self, page: StoredPage) -> pa.RecordBatch:
        """Return the wanted part of a page, perhaps no row of it.

        Raises `HoldfastError`, or `HoldfastSparkError` for what does not fit.
        """

    def missing(self, missing: Missing) -> pa.RecordBatch:
        """Return the one row that stands for what is gone, where column ``_gap`` was asked for."""


class RecordPages:
    """Reads records."""

    def __init__(self, schema: StructType, sink: str, event_times: EventTimes | None = None) -> None:
        """``schema`` has the columns of the read; with ``event_times`` only records come that have one in there."""
        self.schema = to_arrow_schema(schema, timezone="UTC")
        self._sink = sink
        self._event_times = event_times

    def batch(self, page: StoredPage) -> pa.RecordBatch:
        """See `PageReader`."""
        if self._event_times is None:
            return page_batch(page, self.schema, sink=self._sink)
        if page.encoding is Encoding.ARROW:
            raise _no_event_time(f"Offset {page.first_offset} of partition {page.partition} is a row, which")
        wanted = within(page, self._event_times.start_us, self._event_times.end_us)
        if not wanted.true_count:  # then nothing else of the page has to be decoded
            return pa.RecordBatch.from_pylist([], schema=self.schema)
        return page_batch(page, self.schema, sink=self._sink).filter(wanted)

    def missing(self, missing: Missing) -> pa.RecordBatch:
        """See `PageReader`."""
        return missing_batch(missing, self.schema, sink=self._sink)


class RowPages:
    """Reads rows with a schema."""

    def __init__(self, schema: StructType, about: frozenset[str], sink: str, *, every_column: bool) -> None:
        """``schema`` has the columns of the read; those in ``about`` are no columns of the rows.

        With ``every_column`` a page with more columns than that is refused; else they are left out.
        """
        self.schema = to_arrow_schema(schema, timezone="UTC")
        self._about = pa.schema([field for field in self.schema if field.name in about])
        self._rows = pa.schema([field for field in self.schema if field.name not in about])
        self._fitting = Fitting(self._rows, drop_others=not every_column)
        self._never_null = [field for field in self._rows if not may_be_null(field)]
        self._sink = sink

    def batch(self, page: StoredPage) -> pa.RecordBatch:
        """See `PageReader`."""
        rows = self._fitted(page) if page.encoding is Encoding.ARROW else self._sent_again(page)
        self._check_nulls(page, rows)
        if not self._about.names:
            return rows
        found = places(page, self._about, self._sink)
        if "_headers" in self._about.names:
            found["_headers"] = pa.nulls(len(page), self._about.field("_headers").type)
        columns = [found[name] if name in found else rows.column(name) for name in self.schema.names]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def missing(self, missing: Missing) -> pa.RecordBatch:
        """See `PageReader`."""
        about = missing_batch(missing, self._about, sink=self._sink)
        columns = [
            about.column(field.name) if field.name in self._about.names else pa.nulls(1, field.type)
            for field in self.schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _fitted(self, page: StoredPage) -> pa.RecordBatch:
        try:
            return self._fitting.batch(record_batch(page))
        except Misfit as newer:
            raise HoldfastSparkError(
                f"Offsets {page.first_offset} to {page.last_offset} of partition {page.partition} of sink"
                f" {self._sink!r} have a newer schema than this query was planned with: {newer}.",
                "Load the sink again: restart the query from its checkpoint, or call spark.read...load() again. "
                'A query for some columns goes on: name them with .option("columns", "<a>,<b>").',
            ) from newer

    def _check_nulls(self, page: StoredPage, rows: pa.RecordBatch) -> None:
        """Raise `HoldfastSparkError` for a null where a user has set a schema without: Spark would read it as 0."""
        for field in self._never_null:
            path = nulls_in(rows.column(field.name), field)
            if path is not None:
                raise HoldfastSparkError(
                    f"Column {path} is null within offsets {page.first_offset} to {page.last_offset} of partition"
                    f" {page.partition} of sink {self._sink!r}, and the schema that was set says that it never is.",
                    "Leave .schema(...) out, or let every column and nested field of it be nullable.",
                )

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
            return rows_from_json(decoded.values, self._rows)
        except RowsUnreadable as broken:
            raise errors.InvalidPage(f"the page at offset {page.base_offset} is not what it says: {broken}") from broken


def columns_of(options: SchemaOptions) -> StructType:
    """Return the columns of a read. Raises `HoldfastSparkError`."""
    if options.rows is Rows.JSON:
        raise HoldfastSparkError("Option row_format is 'json' for a read.", "Set it to one of: auto, record, arrow.")
    latest = _latest(options.target)
    if latest is None and options.rows is Rows.ARROW:
        raise HoldfastSparkError(f"Sink {options.target.sink!r} has no schema of rows.", _AS_RECORDS)
    if latest is None:
        return read_schema(options.columns, options.metadata)
    return row_columns(nullable_schema(latest), options.columns, options.metadata)


def page_reader(options: ReadOptions, schema: StructType, *, is_stream: bool = False) -> PageReader:
    """Return what makes batches of ``schema``: Spark passes on what a user has set. Raises `HoldfastSparkError`.

    A stream of all columns refuses pages that have more of them: what it has passed is not read again.
    """
    sink = options.target.sink
    may_be_records = options.rows is not Rows.ARROW and set(options.columns or ()) <= set(RECORD.fieldNames())
    if options.event_times is not None and _latest(options.target) is not None:
        raise _no_event_time(f"Sink {sink!r} holds rows with a schema: such a row")
    if may_be_records and schema == read_schema(options.columns, options.metadata):
        return RecordPages(schema, sink, options.event_times)
    latest = None if options.rows is Rows.RECORD else _latest(options.target)
    if latest is None:
        raise HoldfastSparkError(
            "A read of format holdfast has a schema of its own, and another one was set.",
            "Leave .schema(...) out and parse the column value, e.g. with from_json(value, ...); "
            "the options columns and metadata choose columns.",
        )
    latest = nullable_schema(latest)
    own = row_columns(latest, options.columns, options.metadata)
    if schema != own and not readable_as(own, schema):
        raise HoldfastSparkError(
            f"Sink {sink!r} holds rows of another schema than the one that was set, or that this was planned with:"
            f"\n  {latest.simpleString()}",
            "Load the sink again: its schema may have grown. Or leave .schema(...) out, or name columns of it with "
            "their types.",
        )
    about = set(own.fieldNames()) - set(latest.fieldNames())
    every_column = is_stream and options.columns is None and schema == own
    return RowPages(schema, frozenset(about), sink, every_column=every_column)


def _no_event_time(what: str) -> HoldfastSparkError:
    return HoldfastSparkError(
        f"{what} has no event time but its columns, and option timestamps is 'event_time'.",
        "Leave timestamps out and filter on the column: .load().where(\"happened_at >= '2026-01-01'\").",
    )


def _latest(target: Target) -> StructType | None:
    """Return the schema of a sink's rows, None where it has none that Spark could read."""
    try:
        with connect(target, patience_s=target.connect_timeout_s) as client:
            _, found = client.schemas.latest(target.sink)
    except errors.HoldfastError as error:
        raise explained(error, target, doing="ask for the schema of") from error
    return None if found is None else parse(found.spark_schema)
