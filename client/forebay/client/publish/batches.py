"""Batches: records that are gathered into pages.

One batch per partition is open. It is sealed when the next record does not fit, when it has lingered long enough, or at
a flush. Sealing is cheap: the columns are encoded when the page is first sent. Not thread-safe: the buffer owns it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Final

from forebay.client.publish.completions import BulkFuture, Completion, PageResult
from forebay.client.publish.pages import EncodedPage, encode_messages
from forebay.client.publish.sized_columns import HELD_BYTES, SizedColumns
from forebay.client.telemetry import SendSpan

FRAMING_BYTES: Final = 64
"""Upper bound of the tags and lengths of all columns."""
LENGTH_BYTES: Final = 4
"""Bytes per record and column of lengths."""
RICH_BYTES: Final = 4 + 8 + 6
"""Upper bound per record of the columns for keys, times and headers, excluding their contents."""
RICH_RECORD_BYTES: Final = LENGTH_BYTES + RICH_BYTES
"""Upper bound per record of all columns, excluding the contents."""


@dataclass(slots=True, eq=False)
class Batch:
    """Records of one partition that form one page, or a page that was passed encoded."""

    partition: int
    opened_at: float
    """Time of opening, on the publisher's clock."""

    ticket: int
    """Number that increases with every batch of the publisher."""

    context: object = None
    """Trace context of the first record."""

    values: list[bytes] = field(default_factory=list)
    keys: list[bytes | None] | None = None
    event_times_us: list[int | None] | None = None
    headers: list[bytes] | None = None
    """Headers as they are in a page."""

    is_awaited: bool = False
    """True if a caller waits for one of its records."""

    is_rich: bool = False
    """True if the batch has keys, times or headers."""

    result: PageResult = field(default_factory=partial(PageResult, Lock()))
    """Result of the page, for the futures of its records."""

    completions: list[Completion] = field(default_factory=list)
    """Parts of bulks."""

    record_bytes: int = LENGTH_BYTES
    """Upper bound per record of its columns, excluding the contents."""

    body_bytes: int = FRAMING_BYTES
    """Upper bound of the body's size."""

    held_bytes: int = 0
    """Memory that the records take, and that is granted, for the bound of the buffer."""

    granted: int = 0
    """Bytes that records may take without a check of the bounds; see ``SendBuffer.settle``."""

    room: int = 0
    """Those of them that are left."""

    counted: int = 0
    """Number of records at the time of the grant."""

    encoded: EncodedPage | None = None
    """Encoded page; set from the start for a page that was passed encoded."""

    span: SendSpan | None = None
    """Span, once the page was sent."""

    @property
    def count(self) -> int:
        """Number of records in the batch."""
        return self.encoded.record_count if self.encoded is not None else len(self.values)

    def settle(self) -> int:
        """End a grant: count what was added; returns the bytes that are left of it. Idempotent."""
        left, used = self.room, self.granted - self.room
        if used and not self.is_rich:  # the sizes of records with keys, times or headers are counted one by one
            self.body_bytes += used - (len(self.values) - self.counted) * (HELD_BYTES - LENGTH_BYTES)
        self.held_bytes -= left
        self.granted = self.room = 0
        return left

    def encode(self) -> EncodedPage:
        """Return the page; the columns are encoded once and then released."""
        if self.encoded is None:
            self.encoded = encode_messages(self.values, self.keys, self.event_times_us, self.headers)
            self.values, self.keys, self.event_times_us, self.headers = [], None, None, None
        return self.encoded

    def add(
        self, value: bytes, key: bytes | None, event_time_us: int | None, headers: bytes, size: int, held_bytes: int
    ) -> None:
        """Append one record of ``size`` content bytes that takes ``held_bytes`` of memory."""
        count = len(self.values)
        if key is not None or event_time_us is not None or headers:
            self.enrich()
        self.values.append(value)
        self.body_bytes += size + self.record_bytes
        self.held_bytes += held_bytes
        if self.keys is not None:
            self.keys.append(key)
        elif key is not None:
            self.keys = [None] * count
            self.keys.append(key)
        if self.event_times_us is not None:
            self.event_times_us.append(event_time_us)
        elif event_time_us is not None:
            self.event_times_us = [None] * count
            self.event_times_us.append(event_time_us)
        if self.headers is not None:
            self.headers.append(headers)
        elif headers:
            self.headers = [b""] * count
            self.headers.append(headers)

    def enrich(self) -> None:
        """Count the columns for keys, times and headers for all records of the batch. Idempotent."""
        if not self.is_rich:
            self.is_rich = True
            self.record_bytes = RICH_RECORD_BYTES
            self.body_bytes += len(self.values) * RICH_BYTES

    def extend(self, columns: SizedColumns, first: int, end: int) -> None:
        """Append the records ``[first, end)``, which have values and possibly keys only."""
        count = len(self.values)
        values, keys, _ = columns.part(first, end)
        if keys is not None:
            self.enrich()
        self.values.extend(values)
        size = columns.size(first, end)
        self.body_bytes += size + len(values) * self.record_bytes
        self.held_bytes += columns.held_bytes(first, end)
        if keys is not None or self.keys is not None:
            self.keys = [None] * count if self.keys is None else self.keys
            self.keys.extend(keys if keys is not None else [None] * len(values))
        if self.event_times_us is not None:
            self.event_times_us.extend([None] * len(values))
        if self.headers is not None:
            self.headers.extend([b""] * len(values))

    def complete_many(self, bulk: BulkFuture, count: int) -> None:
        """Attach ``bulk`` to the ``count`` records that were added last."""
        self.completions.append(bulk.part(self.count - count, count))


@dataclass(frozen=True, slots=True)
class PageBounds:
    """Upper bounds of a page."""

    body_bytes: int
    records: int

    def fits(self, batch: Batch, size: int, *, is_rich: bool) -> bool:
        """Return True if one more record of ``size`` content bytes fits. An empty batch accepts any record."""
        count = len(batch.values)
        if not count:
            return True
        becomes_rich = is_rich and not batch.is_rich
        used = batch.body_bytes + size + batch.record_bytes + ((count + 1) * RICH_BYTES if becomes_rich else 0)
        return count < self.records and used <= self.body_bytes

    def is_full(self, batch: Batch) -> bool:
        """Return True if no record of useful size fits any more."""
        return len(batch.values) >= self.records or batch.body_bytes >= self.body_bytes

    def count_fitting(self, batch: Batch | None, ends: Sequence[int], first: int, *, is_rich: bool) -> int:
        """Return the number of records from ``first`` on that fit into ``batch``.

        ``ends[i]`` is the total content size of the records before ``i``. An empty batch accepts at least one.
        """
        count, used, per_record = 0, FRAMING_BYTES, LENGTH_BYTES
        if batch is not None:
            count, used, per_record = len(batch.values), batch.body_bytes, batch.record_bytes
        if is_rich and per_record < RICH_RECORD_BYTES:
            used, per_record = used + count * RICH_BYTES, RICH_RECORD_BYTES
        limit = ends[first] + first * per_record + self.body_bytes - used
        candidates = range(first, min(len(ends) - 1, first + self.records - count) + 1)
        fitting = bisect_right(candidates, limit, key=lambda end: ends[end] + end * per_record) - 1
        return max(fitting, 0 if count else 1)


class Batches:
    """Open batches, at most one per partition."""

    def __init__(self, bounds: PageBounds, linger_s: float) -> None:
        self.bounds = bounds
        self._linger_s = linger_s
        self.by_partition: dict[int, Batch] = {}
        """Open batches."""

    def limit(self, body_bytes: int) -> None:
        """Apply the broker's upper bound of a page's body if it is lower than the user's."""
        if body_bytes:
            self.bounds = PageBounds(min(self.bounds.body_bytes, body_bytes), self.bounds.records)

    def __iter__(self) -> Iterator[Batch]:
        """Iterate over the open batches, oldest first."""
        return iter(list(self.by_partition.values()))

    def get(self, partition: int) -> Batch | None:
        """Return the open batch of a partition."""
        return self.by_partition.get(partition)

    def open(self, batch: Batch) -> None:
        """Add a batch; its partition must have none."""
        self.by_partition[batch.partition] = batch

    def seal(self, partition: int) -> Batch | None:
        """Remove and return the open batch of a partition."""
        return self.by_partition.pop(partition, None)

    def due_at(self, batch: Batch) -> float:
        """Return the time at which the linger of a batch ends."""
        return batch.opened_at + self._linger_s
