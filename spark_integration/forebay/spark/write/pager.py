"""Division of batches of any size into pages, per partition.

Records of one partition keep the order in which the task saw them. A page is closed when the next record would make
it too large, when it has waited too long, or at the end; a record that is larger than a page gets one of its own.
Does no I/O and reads no clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from forebay.client.publish.pages import EncodedPage
from forebay.page.format import PAGE_RECORDS_MAX, RUNS_MAX
from forebay.spark.write.columns import ANYWHERE, Columns, record_columns, targets
from forebay.spark.write.record_schema import RowPlan
from forebay.spark.write.runs import RUN_BYTES, Run, encode_page, encode_run, sizes

OPEN_BYTES_MAX: Final = 64 << 20
SLICE_BYTES: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class CompletePage:
    """A page that can be sent."""

    partition: int
    page: EncodedPage


@dataclass(slots=True)
class _OpenPage:
    """A page that is being filled."""

    since_s: float
    """Arrival time of its first record."""

    runs: list[Run] = field(default_factory=list)
    records: int = 0
    bytes: int = 0
    """Upper bound of the body's size."""


class Pager:
    """Divider of the batches of one task into pages. Owned by one thread."""

    def __init__(
        self,
        plan: RowPlan,
        *,
        partitions: int,
        first_partition: int,
        page_bytes: int,
        page_records: int,
        linger_s: float,
    ) -> None:
        """Rows without key and partition fill a page of ``first_partition``, then of the next partition."""
        self._plan = plan
        self._partitions = partitions
        self._spread = first_partition % partitions
        self._page_bytes = page_bytes
        self._page_records = page_records
        self._linger_s = linger_s
        self._open: dict[int, _OpenPage] = {}

    def add(self, batch: pa.RecordBatch, *, now_s: float) -> Iterator[CompletePage]:
        """Add a batch and yield completed pages. ``now_s`` is a monotonic time."""
        yield from self._late(now_s)
        for part in slices(batch):
            columns = record_columns(self._plan, part)
            chosen = targets(columns, self._partitions)
            if chosen is None:
                yield from self._fill(ANYWHERE, columns, 0, len(columns), now_s)
                continue
            # Assigned before sorting, so that rows with and without a key keep their order within a partition.
            chosen[chosen == ANYWHERE] = self._spread
            if (chosen == chosen[0]).all():
                yield from self._fill(int(chosen[0]), columns, 0, len(columns), now_s)
                continue
            order = np.argsort(chosen, kind="stable")
            columns = columns.take(order)
            found, starts = np.unique(chosen[order], return_index=True)
            ends = [*starts[1:].tolist(), len(columns)]
            for target, start, end in zip(found.tolist(), starts.tolist(), ends, strict=True):
                yield from self._fill(target, columns, start, end, now_s)
            if sum(page.bytes for page in self._open.values()) > OPEN_BYTES_MAX:
                yield from self.rest()

    def rest(self) -> Iterator[CompletePage]:
        """Yield the incomplete pages."""
        for partition in list(self._open):
            yield self._close(partition)

    def _late(self, now_s: float) -> Iterator[CompletePage]:
        for partition, page in list(self._open.items()):
            if now_s - page.since_s >= self._linger_s:
                yield self._close(partition)

    def _fill(self, target: int, columns: Columns, start: int, end: int, now_s: float) -> Iterator[CompletePage]:
        """Put the records [start, end) into pages."""
        upto = sizes(columns, start, end)
        first = start
        while first < end:
            partition = self._spread if target == ANYWHERE else target
            page = self._open.get(partition) or _OpenPage(now_s)
            taken = int(upto[first - start - 1]) if first > start else 0
            room = self._page_bytes - page.bytes - RUN_BYTES
            fitting = start + int(np.searchsorted(upto, taken + room, side="right"))
            last = min(fitting, first + self._page_records - page.records)
            if last <= first:
                if page.records:
                    yield self._close(partition)
                    continue
                last = first + 1
            run = encode_run(columns, first, last)
            page.runs.append(run)
            page.records += last - first
            page.bytes += int(upto[last - start - 1]) - taken + RUN_BYTES
            self._open[partition] = page
            if last < end or len(page.runs) == RUNS_MAX:
                yield self._close(partition)
            first = last

    def _close(self, partition: int) -> CompletePage:
        page = self._open.pop(partition)
        if partition == self._spread:
            self._spread = (partition + 1) % self._partitions
        return CompletePage(partition, encode_page(page.runs, page.records))


def slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Divide a very large batch, so that the memory of its conversion is bounded."""
    rows = batch.num_rows
    if not rows:
        return
    each = max(1, min(PAGE_RECORDS_MAX, rows * SLICE_BYTES // max(1, batch.nbytes)))
    for start in range(0, rows, each):
        yield batch.slice(start, each)
