"""Stored pages as Arrow batches, made from the columns of the page as they are.

The opposite of `holdfast.spark.runs`: lengths become offsets, joined bytes become Arrow's buffer, and no record is
touched in Python, except for headers, which are messages of their own on the wire.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdfast.client.columns import Run, decode_columns, runs
from holdfast.client.pages import NO_KEY
from holdfast.client.values import NO_EVENT_TIME, Encoding, Headers, StoredPage

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_INSTANT: Final = pa.timestamp("us", "UTC")


def page_batch(page: StoredPage, schema: pa.Schema) -> pa.RecordBatch:
    """Return the wanted records of a page as one batch of ``schema``, which names the columns of a read.

    Raises `holdfast.client.errors.InvalidPage` for a body that is no page.
    """
    if page.encoding is Encoding.ARROW:
        return _row_batch(page, schema)
    every = runs(page)
    offsets = np.arange(page.base_offset, page.base_offset + page.record_count, dtype=np.int64)
    columns = {
        "partition": pa.repeat(pa.scalar(page.partition, pa.int32()), page.record_count),
        "offset": pa.array(offsets),
        "accepted_at": pa.array(_accepted_at(page, offsets)).view(_INSTANT),
        "event_time": pa.concat_arrays([_event_times(run) for run in every]),
        "key": pa.concat_arrays([_keys(run) for run in every]),
        "value": pa.concat_arrays([_binary(run.value_lengths, run.values) for run in every]),
    }
    first = page.first_offset - page.base_offset
    wanted = {name: column.slice(first, len(page)) for name, column in columns.items()}
    wanted["headers"] = _headers(page, every, schema.field("headers").type)
    return pa.RecordBatch.from_arrays([wanted[name] for name in schema.names], schema=schema)


def _row_batch(page: StoredPage, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows as records: a JSON object each."""
    decoded = decode_columns(page)
    offsets = np.arange(page.first_offset, page.last_offset + 1, dtype=np.int64)
    columns = {
        "partition": pa.repeat(pa.scalar(page.partition, pa.int32()), len(page)),
        "offset": pa.array(offsets),
        "accepted_at": pa.array(_accepted_at(page, offsets)).view(_INSTANT),
        "event_time": pa.nulls(len(page), _INSTANT),
        "key": pa.nulls(len(page), pa.binary()),
        "value": pa.array(decoded.values, pa.binary()),
        "headers": _header_lists(decoded.headers or [], schema.field("headers").type),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


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
    offsets = np.zeros(len(lengths) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(joined)]
    return pa.Array.from_buffers(pa.binary(), len(lengths), buffers)


def _event_times(run: Run) -> pa.Array:
    if not run.event_times_us.nbytes:
        return pa.nulls(len(run), _INSTANT)
    times = np.frombuffer(run.event_times_us, dtype="<i8")
    return pa.array(times, pa.int64(), mask=times == NO_EVENT_TIME).view(_INSTANT)


def _accepted_at(page: StoredPage, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    starts = np.array([part.first_offset for part in page.parts], dtype=np.int64)
    times = np.array([(part.accepted_at - _EPOCH) // _MICROSECOND for part in page.parts], dtype=np.int64)
    return times[np.maximum(np.searchsorted(starts, offsets, side="right") - 1, 0)]


def _headers(page: StoredPage, every: list[Run], kind: pa.DataType) -> pa.Array:
    """Return the headers of the wanted records; null stands for none."""
    if not any(run.headers for run in every):
        return pa.nulls(len(page), kind)
    decoded = decode_columns(page).headers or [()] * len(page)
    return _header_lists(decoded, kind)


def _header_lists(decoded: list[Headers], kind: pa.DataType) -> pa.Array:
    return pa.array([[{"key": name, "value": value} for name, value in headers] or None for headers in decoded], kind)
