"""Pages of rows in Arrow format: rows are divided into pages without Python code per row.

Rows of one partition keep their order in the task. A page is closed when it has reached its rows or bytes, when it has
waited too long, or at the end. Does no I/O and reads no clock.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from forebay.arrow import EXPANDED_BYTES_MAX, coded, encode_batches, expanded_bytes, json_rows, one_batch, read_schema
from forebay.arrow.ipc import Compression as Codec
from forebay.arrow.json_rows import json_text
from forebay.client.replay.rows import encode_rows
from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.write import AUTO, Compression
from forebay.spark.schema.column_names import matches
from forebay.spark.write.pager import OPEN_BYTES_MAX, CompletePage, slices
from forebay.spark.write.projection import Projection
from forebay.spark.write.schema_registration import RowSchema

UNCOMPRESSED_MAX: Final = 4
"""Maximum ratio of uncompressed rows to the page size, because readers hold the rows in memory."""
MARGIN: Final = 1.02
"""Reserve of a planned page, because rows differ; a page that is too large is encoded twice."""
CODECS: Final[dict[Compression, Codec]] = {
    Compression.NONE: "none",
    Compression.LZ4: "lz4",
    Compression.ZSTD: "zstd",
}
TRIED_EVERY: Final = 64
"""Interval of uncompressed pages after which one is compressed, to check the gain again."""
TRIED_FROM: Final = 4_096
"""Size of rows below which compression is not tried."""


class CompressionChoice:
    """Selects the compression of the next page from the results of previous pages."""

    def __init__(self, wanted: Compression) -> None:
        self._codec = CODECS.get(wanted)
        """Fixed codec; None decides per page."""
        self._pays = False
        """Recent pages were halved by compression."""
        self._plain = 0
        """Uncompressed pages since the last compressed one."""

    def encoded(self, rows: pa.RecordBatch) -> tuple[bytes, float]:
        """Return the messages of a page, and the expected bytes of the next page per byte of its rows."""
        size = max(1, rows.nbytes)
        if self._codec is not None or size < TRIED_FROM:
            messages = encode_batches([rows], self._codec or "none")
            return messages, len(messages) / size
        if not self._pays and self._plain % TRIED_EVERY:
            self._plain += 1
            messages = encode_batches([rows], "none")
            return messages, len(messages) / size
        messages = encode_batches([rows], "lz4")
        self._pays, self._plain = 2 * len(messages) <= size, 1
        return messages, len(messages) / size if self._pays else 1.0


@dataclass(slots=True)
class _OpenPage:
    """Page that is being filled."""

    since_s: float
    """Arrival time of its first row."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0
    bytes: float = 0.0
    """Size of its rows in memory."""


class ArrowPager:
    """Divides the batches of one task into pages of rows. Owned by one thread."""

    def __init__(
        self,
        schema: RowSchema,
        *,
        partition_by: tuple[str, ...],
        compression: Compression,
        dictionary: tuple[str, ...],
        partitions: int,
        first_partition: int,
        page_bytes: int,
        page_records: int,
        linger_s: float,
        case_sensitive: bool = False,
    ) -> None:
        """Without ``partition_by``, rows fill pages of consecutive partitions from ``first_partition`` on."""
        self._version = schema.version
        known = read_schema(schema.arrow_schema)
        self._projection = Projection(known, case_sensitive=case_sensitive, drop_others=False)
        names = matches(partition_by, known.names, case_sensitive=case_sensitive)
        self._partition_by = tuple(names.get(name, name) for name in partition_by)
        self._compressing = CompressionChoice(compression)
        names = matches(dictionary, known.names, case_sensitive=case_sensitive)
        self._dictionary = frozenset(names.get(name, name) for name in dictionary) - {AUTO}
        self._is_auto = AUTO in dictionary
        self._partitions = partitions
        self._spread = first_partition % partitions
        self._page_bytes = page_bytes
        self._page_rows = page_records
        self._linger_s = linger_s
        self._ratio = MARGIN
        """Recent ratio of body size to size of rows in memory."""
        self._open: dict[int, _OpenPage] = {}

    def add(self, batch: pa.RecordBatch, *, now_s: float) -> Iterator[CompletePage]:
        """Add a batch and yield completed pages. ``now_s`` is a monotonic time."""
        for partition, page in list(self._open.items()):
            if now_s - page.since_s >= self._linger_s:
                yield from self._close(partition)
        for part in slices(self._projection.batch(batch)):
            if not self._partition_by or self._partitions == 1:
                yield from self._fill(None if not self._partition_by else 0, part, now_s)
                continue
            chosen = targets(part, self._partition_by, self._partitions)
            order = np.argsort(chosen, kind="stable")
            sorted_rows = part.take(pa.array(order))
            found, starts = np.unique(chosen[order], return_index=True)
            ends = [*starts[1:].tolist(), sorted_rows.num_rows]
            for target, start, end in zip(found.tolist(), starts.tolist(), ends, strict=True):
                yield from self._fill(target, sorted_rows.slice(start, end - start), now_s)
            if sum(page.bytes for page in self._open.values()) > OPEN_BYTES_MAX:
                yield from self.rest()

    def rest(self) -> Iterator[CompletePage]:
        """Yield the incomplete pages."""
        for partition in list(self._open):
            yield from self._close(partition)

    def _fill(self, target: int | None, batch: pa.RecordBatch, now_s: float) -> Iterator[CompletePage]:
        each = max(1.0, batch.nbytes / batch.num_rows)
        first = 0
        while first < batch.num_rows:
            partition = self._spread if target is None else target
            page = self._open.get(partition) or _OpenPage(now_s)
            bytes_max = min(self._page_bytes / self._ratio, self._page_bytes * UNCOMPRESSED_MAX)
            room = min(int((bytes_max - page.bytes) / each), self._page_rows - page.rows)
            if room < 1 and page.rows:
                yield from self._close(partition)
                continue
            taken = min(max(room, 1), batch.num_rows - first)
            page.batches.append(batch.slice(first, taken))
            page.rows += taken
            page.bytes += taken * each
            self._open[partition] = page
            first += taken

    def _close(self, partition: int) -> Iterator[CompletePage]:
        page = self._open.pop(partition)
        if partition == self._spread:
            self._spread = (partition + 1) % self._partitions
        rows = one_batch(page.batches)
        yield from self._encoded(partition, rows)

    def _encoded(self, partition: int, rows: pa.RecordBatch) -> Iterator[CompletePage]:
        """Encode rows as one page, or as two halves if the page is too large."""
        wanted, columns = coded(rows, self._dictionary, auto=self._is_auto)
        messages, expected = self._compressing.encoded(wanted)
        page = encode_rows(self._version, rows.num_rows, messages, columns)
        if rows.nbytes >= min(TRIED_FROM, self._page_bytes // 2):  # a frame around few bytes says nothing of many
            self._ratio = max(MARGIN * expected * wanted.nbytes / rows.nbytes, 1 / UNCOMPRESSED_MAX)
        expanded = max(expanded_bytes(messages), rows.nbytes)
        if rows.num_rows == 1 and expanded > EXPANDED_BYTES_MAX:
            raise ForebaySparkError(
                f"A row is {expanded} bytes, and readers take at most {EXPANDED_BYTES_MAX}.",
                "Make it smaller, or store its large values elsewhere and write where they are.",
            )
        if rows.num_rows == 1 or (len(page.body) <= self._page_bytes and expanded <= EXPANDED_BYTES_MAX):
            yield CompletePage(partition, page)
            return
        half = rows.num_rows // 2
        yield from self._encoded(partition, rows.slice(0, half))
        yield from self._encoded(partition, rows.slice(half))


def targets(batch: pa.RecordBatch, partition_by: tuple[str, ...], partitions: int) -> NDArray[np.int64]:
    """Return the partition of each row: CRC-32 of its key modulo partitions, as for records with that key."""
    encoded = row_keys(batch, partition_by).dictionary_encode()
    hashes = [zlib.crc32(key) % partitions for key in encoded.dictionary.to_pylist()]
    indices: NDArray[np.int32] = encoded.indices.to_numpy(zero_copy_only=False)
    return np.array(hashes, dtype=np.int64)[indices]


def row_keys(batch: pa.RecordBatch, partition_by: tuple[str, ...]) -> pa.Array:
    """Return the key of each row, as binary without nulls.

    One column of strings or binaries: its bytes. Any other column: its JSON text. Several: the JSON object of them.
    Null is ``null``.
    """
    columns = [batch.column(name) for name in partition_by]
    if len(columns) > 1:
        return json_rows(pa.RecordBatch.from_arrays(columns, names=list(partition_by)))
    [column] = columns
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        return column.cast(pa.binary()).fill_null(b"null")
    return json_text(column).cast(pa.binary())
