"""Conversion of stored pages to Arrow batches, by column.

The opposite of `forebay.spark.write.runs`: lengths become offsets, joined bytes become Arrow's buffer, and no record is
touched in Python, except for headers, which are messages of their own on the wire.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from forebay.client import errors
from forebay.client.replay.columns import decode_columns, runs
from forebay.client.values.records import (
    Encoding,
    StoredPage,
)
from forebay.page.columns import Columns
from forebay.page.format import NO_KEY, NO_TIME
from forebay.page.header_pairs import Headers
from forebay.page.runs import Run
from forebay.spark.read.ranges import Missing
from forebay.spark.read.schema import GAP_COLUMN

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_INSTANT: Final = pa.timestamp("us", "UTC")


def page_batch(page: StoredPage, schema: pa.Schema, *, sink: str, rows: Columns | None = None) -> pa.RecordBatch:
    """Return the requested records of a page as one batch of ``schema``, the columns of a read.

    Only these columns are decoded; ``rows`` is a page of rows that was decoded before. Raises
    `forebay.client.errors.InvalidPage` for an invalid body.
    """
    columns = {**metadata_columns(page, schema, sink), **_records(page, schema, rows)}
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def within(page: StoredPage, start_us: int | None, end_us: int | None) -> pa.BooleanArray:
    """Return a mask of the requested records with an event time in ``[start_us, end_us)``.

    A record without event time is not selected. Nothing else of the page is decoded. Raises
    `forebay.client.errors.InvalidPage` for an invalid body.
    """
    first = page.first_offset - page.base_offset
    times = pa.concat_arrays([_event_times(run) for run in runs(page)]).slice(first, len(page)).view(pa.int64())
    wanted = times.is_valid()
    if start_us is not None:
        wanted = pc.and_(wanted, pc.greater_equal(times, start_us).fill_null(False))
    if end_us is not None:
        wanted = pc.and_(wanted, pc.less(times, end_us).fill_null(False))
    return wanted


def missing_batch(missing: Missing, schema: pa.Schema, *, sink: str) -> pa.RecordBatch:
    """Return the row that represents dropped records, for a ``schema`` with a column ``_gap``."""
    place = {"first_offset": missing.first_offset, "last_offset": missing.last_offset, "reason": missing.reason}
    known = {
        "partition": missing.partition,
        "offset": missing.first_offset,
        "_sink": sink,
        "_partition": missing.partition,
        "_offset": missing.first_offset,
        GAP_COLUMN: place,
    }
    columns = [pa.array([known.get(field.name)], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def metadata_columns(page: StoredPage, schema: pa.Schema, sink: str) -> dict[str, pa.Array]:
    """Return the metadata columns of a page, independent of its encoding."""
    made: dict[str, pa.Array] = {}
    for field in schema:
        match field.name:
            case "partition" | "_partition":
                made[field.name] = pa.repeat(pa.scalar(page.partition, pa.int32()), len(page))
            case "offset" | "_offset":
                made[field.name] = pa.array(_offsets(page))
            case "accepted_at" | "_accepted_at":
                made[field.name] = pa.array(_accepted_at(page, _offsets(page))).view(_INSTANT)
            case "_sink":
                made[field.name] = pa.repeat(pa.scalar(sink), len(page))
            case "_attempt" | "_gap":  # a replay does not know of tries, and these records are there
                made[field.name] = pa.nulls(len(page), field.type)
    return made


def _records(page: StoredPage, schema: pa.Schema, rows: Columns | None) -> dict[str, pa.Array]:
    """Return the requested record columns of a page; the value of a row is a JSON object."""
    if page.encoding is Encoding.ARROW:
        return _rows(page, schema, rows)
    every = runs(page)
    first = page.first_offset - page.base_offset
    made: dict[str, pa.Array] = {}
    for field in schema:
        match field.name:
            case "event_time":
                made[field.name] = pa.concat_arrays([_event_times(run) for run in every]).slice(first, len(page))
            case "key":
                made[field.name] = pa.concat_arrays([_keys(run) for run in every]).slice(first, len(page))
            case "value":
                values = pa.concat_arrays([_binary(run.value_lengths, run.values) for run in every])
                made[field.name] = values.slice(first, len(page))
            case "headers" | "_headers":
                made[field.name] = _headers(page, every, field.type)
    return made


def _rows(page: StoredPage, schema: pa.Schema, decoded: Columns | None) -> dict[str, pa.Array]:
    made: dict[str, pa.Array] = {}
    if decoded is None and {"value", "headers", "_headers"} & set(schema.names):
        decoded = decode_columns(page)
    for field in schema:
        match field.name:
            case "event_time" | "key":
                made[field.name] = pa.nulls(len(page), field.type)
            case "value" if decoded is not None:
                made[field.name] = pa.array(decoded.values, pa.binary())
            case "headers" | "_headers" if decoded is not None:
                made[field.name] = _header_lists(decoded.headers or [()] * len(page), field.type)
    return made


def _offsets(page: StoredPage) -> NDArray[np.int64]:
    return np.arange(page.first_offset, page.first_offset + len(page), dtype=np.int64)


def _binary(lengths: memoryview, joined: memoryview) -> pa.Array:
    return _from_lengths(np.frombuffer(lengths, dtype="<u4"), joined, validity=None)


def _keys(run: Run) -> pa.Array:
    if not run.key_lengths.nbytes:
        return pa.nulls(len(run), pa.binary())
    lengths = np.frombuffer(run.key_lengths, dtype="<u4")
    given = lengths != NO_KEY
    validity = None if given.all() else pa.py_buffer(np.packbits(given, bitorder="little").tobytes())
    return _from_lengths(np.where(given, lengths, 0), run.keys, validity=validity)


def _from_lengths(lengths: NDArray[np.uint32], joined: memoryview, *, validity: pa.Buffer | None) -> pa.Array:
    if int(lengths.sum(dtype=np.int64)) != joined.nbytes:  # Arrow would read beyond the end
        raise errors.InvalidPage("a run's column is not as long as its lengths say")
    offsets = np.zeros(len(lengths) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(joined)]
    return pa.Array.from_buffers(pa.binary(), len(lengths), buffers)


def _event_times(run: Run) -> pa.Array:
    if not run.event_times_us.nbytes:
        return pa.nulls(len(run), _INSTANT)
    times = np.frombuffer(run.event_times_us, dtype="<i8")
    return pa.array(times, pa.int64(), mask=times == NO_TIME).view(_INSTANT)


def _accepted_at(page: StoredPage, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    starts = np.array([part.first_offset for part in page.parts], dtype=np.int64)
    times = np.array([(part.accepted_at - _EPOCH) // _MICROSECOND for part in page.parts], dtype=np.int64)
    return times[np.maximum(np.searchsorted(starts, offsets, side="right") - 1, 0)]


def _headers(page: StoredPage, every: list[Run], kind: pa.DataType) -> pa.Array:
    """Return the headers of the requested records; null if a record has none."""
    if not any(run.headers for run in every):
        return pa.nulls(len(page), kind)
    return _header_lists(decode_columns(page).headers or [()] * len(page), kind)


def _header_lists(every: Sequence[Headers], kind: pa.DataType) -> pa.Array:
    return pa.array([[{"key": name, "value": value} for name, value in headers] or None for headers in every], kind)
