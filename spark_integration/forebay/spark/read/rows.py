"""Columns of a read, and conversion of stored pages to batches with these columns.

A sink with a schema is read as rows, with the columns of the latest version; columns that are newer than a page are
null. Any sink can be read as records; a row is then a JSON object.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow as pa
from pyspark.sql.types import StructType

from forebay.arrow import RowsUnreadable, one_batch, rows_from_json
from forebay.client import Encoding, StoredPage, errors
from forebay.client.arrow import readable_rows, record_batch
from forebay.client.replay.columns import decode_columns, wanted_columns, whole_columns
from forebay.client.replay.rows import VERSION_HEADER
from forebay.page.columns import Columns
from forebay.page.header_pairs import Headers
from forebay.spark.connection.broker import connect
from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.read import EventTimes, ReadOptions, SchemaOptions
from forebay.spark.options.write import Rows, Target
from forebay.spark.read.arrow_pages import metadata_columns, missing_batch, page_batch, within
from forebay.spark.read.ranges import Missing
from forebay.spark.read.schema import RECORD, read_schema, row_columns
from forebay.spark.remedies import explained
from forebay.spark.schema.arrow_types import arrow_schema
from forebay.spark.schema.column_names import matches
from forebay.spark.schema.row_schema import nullable_schema, parse, readable_as
from forebay.spark.write.projection import Projection, SchemaMismatch, may_be_null, nulls_in

UNREADABLE: Final = "UNREADABLE"
"""Reason for which stored rows are left out: they cannot be decoded."""
_AS_RECORDS: Final = 'Read records instead: .option("row_format", "record").'


class PageReader(Protocol):
    """Converts stored pages to batches. Pickled."""

    schema: pa.Schema
    """Schema of each batch."""

    def batch(self, page: StoredPage) -> pa.RecordBatch:
        """Return the requested rows of a page, possibly none.

        Raises `ForebayError`, or `ForebaySparkError` for rows that do not match the schema.
        """

    def readable(self, page: StoredPage) -> PageRows:
        """Return the readable rows of a page for which `batch` failed. Raises as `batch` for a mismatch."""

    def missing(self, missing: Missing) -> pa.RecordBatch:
        """Return the row that represents missing records, if column ``_gap`` was requested."""


@dataclass(frozen=True, slots=True)
class PageRows:
    """Requested rows of a page that can be read."""

    batch: pa.RecordBatch
    kept: pa.BooleanArray | None = None
    """Mask of the requested rows that are in the batch; None for all."""
    unreadable: tuple[Missing, ...] = ()
    """Ranges of the unreadable rows, with reasons."""


class RecordAmongRows(ForebaySparkError):
    """A record is stored among rows with a schema."""


class RecordPages:
    """Reader of records."""

    def __init__(self, schema: StructType, sink: str, event_times: EventTimes | None = None) -> None:
        """Read the columns of ``schema``; ``event_times`` selects records by event time."""
        self.schema = arrow_schema(schema)
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

    def readable(self, page: StoredPage) -> PageRows:
        """See `PageReader`."""
        columns = wanted_columns(page, whole_columns(page))
        kept = _kept(page, columns.unreadable)
        if not kept.true_count or page.encoding is not Encoding.ARROW or self._event_times is not None:
            every = {place: columns.unreadable.get(place, "") for place in range(len(page))}
            empty = pa.RecordBatch.from_pylist([], schema=self.schema)
            return PageRows(empty, _kept(page, every), tuple(_missing_of(page, every)))
        batch = page_batch(page, self.schema, sink=self._sink, rows=columns).filter(kept)
        return PageRows(batch, kept, tuple(_missing_of(page, columns.unreadable)))

    def missing(self, missing: Missing) -> pa.RecordBatch:
        """See `PageReader`."""
        return missing_batch(missing, self.schema, sink=self._sink)


class RowPages:
    """Reader of rows with a schema."""

    def __init__(self, schema: StructType, about: frozenset[str], sink: str, *, every_column: bool) -> None:
        """Read the columns of ``schema``; those in ``about`` are metadata columns.

        With ``every_column`` a page with additional columns raises an error; otherwise they are left out.
        """
        self.schema = arrow_schema(schema)
        self._about = pa.schema([field for field in self.schema if field.name in about])
        self._rows = pa.schema([field for field in self.schema if field.name not in about])
        self._projection = Projection(self._rows, drop_others=not every_column)
        self._never_null = [field for field in self._rows if not may_be_null(field)]
        self._sink = sink

    def batch(self, page: StoredPage) -> pa.RecordBatch:
        """See `PageReader`."""
        if page.encoding is Encoding.ARROW:
            return self._with_metadata(page, self._projected(page, record_batch(page)), None)
        return self._with_metadata(page, self._redriven_rows(page), None)

    def readable(self, page: StoredPage) -> PageRows:
        """See `PageReader`."""
        try:
            rows, unreadable = self._readable_rows(page)
        except (errors.InvalidPage, errors.SchemaNotFound) as broken:
            rows = pa.RecordBatch.from_pylist([], schema=self._rows)
            unreadable = dict.fromkeys(range(len(page)), str(broken))
        kept = _kept(page, unreadable)
        return PageRows(self._with_metadata(page, rows, kept), kept, tuple(_missing_of(page, unreadable)))

    def _with_metadata(self, page: StoredPage, rows: pa.RecordBatch, kept: pa.BooleanArray | None) -> pa.RecordBatch:
        """Return rows with metadata columns; ``kept`` is their mask among the requested rows."""
        self._check_nulls(page, rows)
        if not self._about.names:
            return rows
        found = metadata_columns(page, self._about, self._sink)
        if "_headers" in self._about.names:
            found["_headers"] = pa.nulls(len(page), self._about.field("_headers").type)
        if kept is not None:
            found = {name: column.filter(kept) for name, column in found.items()}
        columns = [found[name] if name in found else rows.column(name) for name in self.schema.names]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _readable_rows(self, page: StoredPage) -> tuple[pa.RecordBatch, dict[int, str]]:
        """Return the readable rows of a page, and the indices of the others with reasons."""
        unreadable: dict[int, str] = {}
        if page.encoding is Encoding.ARROW:
            batch, parts = readable_rows(page)
            for first, last, why in parts:
                unreadable.update(dict.fromkeys(range(first - page.first_offset, last - page.first_offset + 1), why))
            return self._projected(page, batch), unreadable
        decoded = decode_columns(page)
        batches = []
        for place, (value, headers) in enumerate(zip(decoded.values, _headers_of(decoded), strict=True)):
            try:
                if VERSION_HEADER not in dict(headers):
                    raise RowsUnreadable("it is a record and not a row")
                batches.append(rows_from_json([value], self._rows, match=matches))
            except RowsUnreadable as broken:
                unreadable[place] = str(broken)
        return one_batch([pa.RecordBatch.from_pylist([], schema=self._rows), *batches]), unreadable

    def missing(self, missing: Missing) -> pa.RecordBatch:
        """See `PageReader`."""
        about = missing_batch(missing, self._about, sink=self._sink)
        columns = [
            about.column(field.name) if field.name in self._about.names else pa.nulls(1, field.type)
            for field in self.schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _projected(self, page: StoredPage, rows: pa.RecordBatch) -> pa.RecordBatch:
        try:
            return self._projection.batch(rows)
        except SchemaMismatch as newer:
            raise ForebaySparkError(
                f"Offsets {page.first_offset} to {page.last_offset} of partition {page.partition} of sink"
                f" {self._sink!r} have a newer schema than this query was planned with: {newer}.",
                "Load the sink again: restart the query from its checkpoint, or call spark.read...load() again. "
                'A query for some columns can continue: name them with .option("columns", "<a>,<b>").',
            ) from newer

    def _check_nulls(self, page: StoredPage, rows: pa.RecordBatch) -> None:
        """Raise `ForebaySparkError` for a null in a column that the user declared as not nullable.

        Spark would read the null as 0.
        """
        for field in self._never_null:
            path = nulls_in(rows.column(field.name), field)
            if path is not None:
                raise ForebaySparkError(
                    f"Column {path} is null within offsets {page.first_offset} to {page.last_offset} of partition"
                    f" {page.partition} of sink {self._sink!r}, and the given schema declares it as not nullable.",
                    "Omit .schema(...), or make each of its columns and nested fields nullable.",
                )

    def _redriven_rows(self, page: StoredPage) -> pa.RecordBatch:
        """Return rows of redriven dead letters, which are stored as JSON records."""
        decoded = decode_columns(page)
        for index, found in enumerate(_headers_of(decoded)):
            if VERSION_HEADER not in dict(found):
                raise RecordAmongRows(
                    f"Offset {page.first_offset + index} of partition {page.partition} is a record and not a row.",
                    _AS_RECORDS,
                )
        try:
            return rows_from_json(decoded.values, self._rows, match=matches)
        except RowsUnreadable as broken:
            raise errors.InvalidPage(f"the page at offset {page.base_offset} is not what it says: {broken}") from broken


def _headers_of(decoded: Columns) -> list[Headers]:
    return decoded.headers or [()] * len(decoded)


def _kept(page: StoredPage, unreadable: Mapping[int, str]) -> pa.BooleanArray:
    return pa.array([place not in unreadable for place in range(len(page))], pa.bool_())


def _missing_of(page: StoredPage, unreadable: Mapping[int, str]) -> Iterator[Missing]:
    """Yield the ranges of unreadable rows; adjacent rows form one range."""
    first: int | None = None
    for place in range(len(page) + 1):
        if place in unreadable:
            first = place if first is None else first
        elif first is not None:
            start = page.first_offset + first
            yield Missing(page.partition, start, page.first_offset + place - 1, UNREADABLE)
            first = None


def columns_of(options: SchemaOptions) -> StructType:
    """Return the columns of a read. Raises `ForebaySparkError`."""
    if options.rows is Rows.JSON:
        raise ForebaySparkError("Option row_format is 'json' for a read.", "Set it to one of: auto, record, arrow.")
    latest = _latest(options.target)
    if latest is None and options.rows is Rows.ARROW:
        raise ForebaySparkError(f"Sink {options.target.sink!r} has no schema of rows.", _AS_RECORDS)
    if latest is None:
        return read_schema(options.columns, options.metadata)
    return row_columns(nullable_schema(latest), options.columns, options.metadata)


def page_reader(options: ReadOptions, schema: StructType, *, is_stream: bool = False) -> PageReader:
    """Return the page reader of ``schema``, which a user may have set. Raises `ForebaySparkError`.

    A stream of all columns rejects pages with additional ones, because it would not read them again later.
    """
    sink = options.target.sink
    may_be_records = options.rows is not Rows.ARROW and set(options.columns or ()) <= set(RECORD.fieldNames())
    if options.event_times is not None and _latest(options.target) is not None:
        raise _no_event_time(f"Sink {sink!r} holds rows with a schema: such a row")
    if may_be_records and schema == read_schema(options.columns, options.metadata):
        return RecordPages(schema, sink, options.event_times)
    latest = None if options.rows is Rows.RECORD else _latest(options.target)
    if latest is None:
        raise ForebaySparkError(
            "A read of format forebay has its own schema, and another one was given.",
            "Leave .schema(...) out and parse the column value, e.g. with from_json(value, ...); "
            "the options columns and metadata choose columns.",
        )
    latest = nullable_schema(latest)
    own = row_columns(latest, options.columns, options.metadata)
    if schema != own and not readable_as(own, schema):
        raise ForebaySparkError(
            f"Sink {sink!r} holds rows of another schema than the given or the planned one:\n  {latest.simpleString()}",
            "Load the sink again: its schema may have grown. Or omit .schema(...), or name columns of it with "
            "their types.",
        )
    about = set(own.fieldNames()) - set(latest.fieldNames())
    every_column = is_stream and options.columns is None and schema == own
    return RowPages(schema, frozenset(about), sink, every_column=every_column)


def _no_event_time(what: str) -> ForebaySparkError:
    return ForebaySparkError(
        f"{what} has no event time, and option timestamps is 'event_time'.",
        "Omit timestamps and filter on a column: .load().where(\"happened_at >= '2026-01-01'\").",
    )


def _latest(target: Target) -> StructType | None:
    """Return the schema of a sink's rows; None if it has none, or none that Spark can read."""
    try:
        with connect(target, patience_s=target.connect_timeout_s) as client:
            _, found = client.schemas.latest(target.sink)
    except errors.ForebayError as error:
        raise explained(error, target, doing="ask for the schema of") from error
    return None if found is None else parse(found.spark_schema)
