"""Record columns of an Arrow batch, validated without Python code per row.

A row that cannot be written fails the task with its number: rows are never skipped or changed silently.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from forebay.arrow.json_rows import json_rows
from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.write import Rows
from forebay.spark.write.record_schema import RowPlan

ANYWHERE: Final = -1


@dataclass(frozen=True, slots=True)
class Columns:
    """Records as Arrow arrays of equal length."""

    value: pa.Array
    """binary or large_binary, without nulls."""

    key: pa.Array | None = None
    """binary or large_binary; null is a record without a key."""

    headers: pa.Array | None = None
    """list<struct<key: string, value: binary>>; null is a record without headers."""

    event_time: pa.Array | None = None
    """timestamp in microseconds, UTC; null is none."""

    partition: pa.Array | None = None
    """int32; null leaves the choice to the key, and without one to the task."""

    def __len__(self) -> int:
        return len(self.value)

    def slice(self, start: int, end: int) -> Columns:
        """Return the records [start, end) without copying."""
        return self._each(lambda column: column.slice(start, end - start))

    def take(self, rows: NDArray[np.int64]) -> Columns:
        """Return the given rows in the given order."""
        indices = pa.array(rows)
        return self._each(lambda column: column.take(indices))

    def _each(self, change: Callable[[pa.Array], pa.Array]) -> Columns:
        every = (self.value, self.key, self.headers, self.event_time, self.partition)
        return Columns(*(None if column is None else change(column) for column in every))


def record_columns(plan: RowPlan, batch: pa.RecordBatch) -> Columns:
    """Return the records of a batch. Raises `ForebaySparkError` for an invalid row."""
    if plan.kind is Rows.JSON:
        return Columns(json_rows(batch))
    value = _binary(batch.column("value"))
    if value.null_count:
        raise ForebaySparkError(
            f"Column value is null in row {_first_null(value)} of a batch; a record always has a value.",
            "Filter such rows out, or use coalesce(value, '') if an empty value means the same.",
        )
    return Columns(
        value=value,
        key=_binary(batch.column("key")) if plan.has("key") else None,
        headers=_headers(batch.column("headers")) if plan.has("headers") else None,
        event_time=batch.column("event_time").cast(pa.timestamp("us", "UTC")) if plan.has("event_time") else None,
        partition=batch.column("partition").cast(pa.int32()) if plan.has("partition") else None,
    )


def targets(columns: Columns, partitions: int) -> NDArray[np.int64] | None:
    """Return the partition of each record, `ANYWHERE` if the task chooses, None if it chooses for all.

    An explicit partition takes precedence, then the key: CRC-32 of its bytes modulo the number of partitions. Raises
    `ForebaySparkError` for a partition that the sink does not have.
    """
    chosen: NDArray[np.int64] | None = None
    if columns.key is not None and columns.key.null_count < len(columns.key):
        chosen = _by_key(columns.key, partitions)
    if columns.partition is not None and columns.partition.null_count < len(columns.partition):
        named = pc.fill_null(columns.partition, ANYWHERE).to_numpy(zero_copy_only=False).astype(np.int64)
        given = columns.partition.is_valid().to_numpy(zero_copy_only=False)
        wrong = given & ((named < 0) | (named >= partitions))
        if wrong.any():
            raise ForebaySparkError(
                f"Column partition is {named[wrong][0]} in a row; the sink has partitions 0 to {partitions - 1}.",
                "Correct the column, set it to null to let the key decide, or use a sink with more partitions.",
            )
        chosen = np.where(given, named, ANYWHERE if chosen is None else chosen)
    return chosen


def _by_key(key: pa.Array, partitions: int) -> NDArray[np.int64]:
    """Hash every distinct key once; the dictionary maps the hashes to the rows."""
    encoded = key.dictionary_encode()
    hashes = [zlib.crc32(distinct) % partitions for distinct in encoded.dictionary.to_pylist()]
    # One more place at the end: the index of a null is set to it.
    places = np.array([*hashes, ANYWHERE], dtype=np.int64)
    indices: NDArray[np.int32] = pc.fill_null(encoded.indices, len(hashes)).to_numpy(zero_copy_only=False)
    return places[indices]


def _binary(column: pa.Array) -> pa.Array:
    if pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type):
        return column.cast(pa.large_binary())
    return column.cast(pa.binary())


def _headers(column: pa.Array) -> pa.Array:
    entries = column.flatten()
    for field in entries.flatten() if entries.null_count == 0 else [entries]:
        if field.null_count:
            raise ForebaySparkError(
                "Column headers holds a null entry, name or value.",
                "Filter such entries out, e.g. filter(headers, h -> h.key is not null and h.value is not null).",
            )
    return column


def _first_null(column: pa.Array) -> int:
    return int(pc.index(column.is_null(), True).as_py())
