"""Slices of Arrow columns as runs of a page body, taken from Arrow's buffers as they are.

A run is a length per record and all bytes joined, which is what Arrow keeps: offsets and one buffer. So a slice costs a
subtraction of offsets and one copy, whatever the number of records. Bodies are joined runs.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from forebay.client.publish.pages import EncodedPage, encode_columns, encode_joined
from forebay.spark.write.columns import Columns

Run = EncodedPage

# Maximum overhead of the encoding: tags and lengths of the run's fields, and per record and header.
RUN_BYTES: Final = 64
_LENGTH_BYTES: Final = 4
_EVENT_TIME_BYTES: Final = 8
_HEADERS_BYTES: Final = 6
_HEADER_BYTES: Final = 16


def sizes(columns: Columns, start: int, end: int) -> NDArray[np.int64]:
    """Return the cumulative bytes of the records [start, end), up to and including each.

    Never less than the body will be, except for `RUN_BYTES` per run.
    """
    count = end - start
    value_ends = _offsets(columns.value, start, end)
    total: NDArray[np.int64] = value_ends[1:] - value_ends[0] + np.arange(1, count + 1) * _LENGTH_BYTES
    if columns.key is not None:
        key_ends = _offsets(columns.key, start, end)
        total = total + (key_ends[1:] - key_ends[0]) + np.arange(1, count + 1) * _LENGTH_BYTES
    if columns.event_time is not None:
        total = total + np.arange(1, count + 1) * _EVENT_TIME_BYTES
    if columns.headers is not None:
        total = total + _header_sizes(columns.headers.slice(start, count))
    return total


def encode_run(columns: Columns, start: int, end: int) -> Run:
    """Return the records [start, end) as the body of a page, to be joined with others.

    Values alone are taken from the buffers; with keys, headers or event times the rows pass through lists.
    """
    part = columns.slice(start, end)
    keys = part.key if _holds_something(part.key) else None
    event_times = part.event_time if _holds_something(part.event_time) else None
    headers = None if part.headers is None else _header_lists(part.headers)
    if keys is None and event_times is None and headers is None:
        return encode_joined(*_joined(part.value))
    return encode_columns(
        part.value.to_pylist(),
        keys=None if keys is None else keys.to_pylist(),
        event_times_us=None if event_times is None else event_times.view(pa.int64()).to_pylist(),
        headers=headers,
    )


def encode_page(runs: list[Run], records: int) -> EncodedPage:
    """Join runs to one page."""
    if len(runs) == 1:
        return runs[0]
    return EncodedPage(b"".join(run.body for run in runs), records, runs[0].encoding)


def _offsets(array: pa.Array, start: int, end: int) -> NDArray[np.int64]:
    """Return the offsets of the elements [start, end) in the buffer, and the end of the last one."""
    width = np.int64 if pa.types.is_large_binary(array.type) else np.int32
    buffer = array.buffers()[1]
    offsets = np.frombuffer(buffer, dtype=width)[array.offset + start : array.offset + end + 1]
    return offsets.astype(np.int64)


def _joined(array: pa.Array) -> tuple[memoryview, memoryview]:
    """Return the lengths of the elements, 4 bytes each, and their bytes without a copy."""
    offsets = _offsets(array, 0, len(array))
    data = array.buffers()[2]
    lengths = np.diff(offsets).astype("<u4")
    return memoryview(lengths.tobytes()), memoryview(b"" if data is None else data)[offsets[0] : offsets[-1]]


def _holds_something(column: pa.Array | None) -> bool:
    return column is not None and column.null_count < len(column)


def _header_lists(lists: pa.Array) -> list[list[tuple[str, bytes]]] | None:
    """Return the headers of each record; None if there are none."""
    names, values = lists.flatten().flatten()
    if not len(names):
        return None
    pairs = list(zip(names.to_pylist(), values.cast(pa.large_binary()).to_pylist(), strict=True))
    ends = np.cumsum(_header_counts(lists)).tolist()
    return [pairs[first:last] for first, last in zip([0, *ends[:-1]], ends, strict=True)]


def _header_counts(lists: pa.Array) -> NDArray[np.int64]:
    counts = pc.fill_null(pc.list_value_length(lists), 0)
    numbers: NDArray[np.int64] = counts.to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers


def _header_sizes(lists: pa.Array) -> NDArray[np.int64]:
    """Return the cumulative bytes of the headers, up to and including each record's."""
    names, values = lists.flatten().flatten()
    each = np.zeros(len(names) + 1, dtype=np.int64)
    each[1:] = pc.binary_length(names).to_numpy(zero_copy_only=False)
    each[1:] += pc.binary_length(values).to_numpy(zero_copy_only=False)
    each[1:] += _HEADER_BYTES
    upto = np.cumsum(each)
    counts = np.cumsum(_header_counts(lists))
    return upto[counts] + np.arange(1, len(lists) + 1) * _HEADERS_BYTES
