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
from forebay.client.publish.sized_columns import SizedColumns
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

    content_bytes: int = 0
    """Bytes of values, keys and headers, without column overhead, or of an encoded body."""

    encoded: EncodedPage | None = None
    """Encoded page; set from the start for a page that was passed encoded."""

    span: SendSpan | None = None
    """Span, once the page was sent."""

    @property
    def count(self) -> int:
        """Number of records in the batch."""
        return self.encoded.record_count if self.encoded is not None else len(self.values)

    @property
    def body_bytes(self) -> int:
        """Upper bound of the body's size."""
        per_record = LENGTH_BYTES + (RICH_BYTES if self.is_rich else 0)
        return FRAMING_BYTES + self.content_bytes + len(self.values) * per_record

    def encode(self) -> EncodedPage:
        """Return the page; the columns are encoded once and then released."""
        if self.encoded is None:
            self.encoded = encode_messages(self.values, self.keys, self.event_times_us, self.headers)
            self.values, self.keys, self.event_times_us, self.headers = [], None, None, None
        return self.encoded

    def add(self, value: bytes, key: bytes | None, event_time_us: int | None, headers: bytes, size: int) -> None:
        """Append one record of ``size`` content bytes."""
        self.values.append(value)
        self.content_bytes += size
        if self.is_rich or key is not None or event_time_us is not None or headers:
            self._add_rich(key, event_time_us, headers)

    def _add_rich(self, key: bytes | None, event_time_us: int | None, headers: bytes) -> None:
        """Append what the record that was added last has besides its value."""
        self.is_rich = True
        if self.keys is not None:
            self.keys.append(key)
        elif key is not None:
            self.keys = [None] * (len(self.values) - 1)
            self.keys.append(key)
        if self.event_times_us is not None:
            self.event_times_us.append(event_time_us)
        elif event_time_us is not None:
            self.event_times_us = [None] * (len(self.values) - 1)
            self.event_times_us.append(event_time_us)
        if self.headers is not None:
            self.headers.append(headers)
        elif headers:
            self.headers = [b""] * (len(self.values) - 1)
            self.headers.append(headers)

    def extend(self, columns: SizedColumns, first: int, end: int) -> None:
        """Append the records ``[first, end)``, which have values and possibly keys only."""
        count = len(self.values)
        values, keys, _ = columns.part(first, end)
        self.values.extend(values)
        self.content_bytes += columns.size(first, end)
        if keys is not None or self.keys is not None:
            self.is_rich = True
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
        return not count or (count < self.records and self.used(batch, size, is_rich=is_rich) <= self.body_bytes)

    @staticmethod
    def used(batch: Batch, size: int, *, is_rich: bool) -> int:
        """Return the upper bound of the body's size with one more record of ``size`` content bytes."""
        per_record = RICH_RECORD_BYTES if is_rich or batch.is_rich else LENGTH_BYTES
        return FRAMING_BYTES + batch.content_bytes + size + (len(batch.values) + 1) * per_record

    def is_full(self, batch: Batch) -> bool:
        """Return True if no record of useful size fits any more."""
        return len(batch.values) >= self.records or batch.body_bytes >= self.body_bytes

    def count_fitting(self, batch: Batch | None, ends: Sequence[int], first: int, *, is_rich: bool) -> int:
        """Return the number of records from ``first`` on that fit into ``batch``.

        ``ends[i]`` is the total content size of the records before ``i``. An empty batch accepts at least one.
        """
        count = 0 if batch is None else len(batch.values)
        per_record = LENGTH_BYTES + (RICH_BYTES if is_rich or (batch is not None and batch.is_rich) else 0)
        used = FRAMING_BYTES + count * per_record + (0 if batch is None else batch.content_bytes)
        room = self.body_bytes - used
        limit = ends[first] + first * per_record + room
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
