"""Cutting a delivery into batches.

Batches are cut lazily, because taking records extends the ack deadline.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate, chain

from forebay.deliver.batches.batch import Batch
from forebay.deliver.batches.limits import BatchLimits
from forebay.deliver.batches.records import BatchRecords
from forebay.deliver.source import RecordRun, SourceDelivery


@dataclass(frozen=True, slots=True)
class UnreadableRange:
    """Consecutive records that cannot be decoded."""

    first_offset: int
    last_offset: int
    reason: str

    def continues_with(self, other: UnreadableRange) -> bool:
        """Return True if another range follows this one with the same reason."""
        return other.first_offset == self.last_offset + 1 and other.reason == self.reason


def batches_of(sink: str, delivery: SourceDelivery, limits: BatchLimits) -> Iterator[Batch | UnreadableRange]:
    """Cut a delivery into batches, in order.

    Takes at most one run more from the delivery than the next batch needs. Records that cannot be decoded are yielded
    between the batches.
    """
    cutter = _Cutter(limits)
    unreadable: UnreadableRange | None = None
    for part in chain.from_iterable(map(_parts, delivery.runs())):
        if not isinstance(part, UnreadableRange):
            if unreadable is not None:
                yield unreadable
                unreadable = None
            for runs in cutter.add(part):
                yield _batch(sink, delivery, runs)
            continue
        for runs in cutter.rest():
            yield _batch(sink, delivery, runs)
        if unreadable is None or not unreadable.continues_with(part):
            if unreadable is not None:
                yield unreadable
            unreadable = part
        else:
            unreadable = replace(unreadable, last_offset=part.last_offset)
    for runs in cutter.rest():
        yield _batch(sink, delivery, runs)
    if unreadable is not None:
        yield unreadable


class _Cutter:
    """Puts consecutive runs together up to the limits.

    Bytes are counted with upper bounds, and exactly once these do not fit any more.
    """

    def __init__(self, limits: BatchLimits) -> None:
        self._limits = limits
        self._runs: list[RecordRun] = []
        self._records = self._bytes = 0
        self._is_exact = True
        self._next_offset = 0

    def add(self, run: RecordRun) -> Iterator[list[RecordRun]]:
        """Add a run; yields the runs of each batch that it completes."""
        limits = self._limits
        if run.first_offset != self._next_offset:
            yield from self.rest()
        bound = run.bytes_at_most()
        ends: list[int] | None = None  # bytes up to the end of each record, once the bound does not fit
        first = 0
        while first < len(run):
            if self._records == limits.records_max:
                yield from self.rest()
            end = min(first + limits.records_max - self._records, len(run))
            if ends is None and self._bytes + bound <= limits.bytes_max:
                self._take(run, first, end, bound)
                self._is_exact = False
            else:
                self._count()
                if ends is None:
                    ends = list(accumulate(run.sizes()))
                before = ends[first - 1] if first else 0
                end = min(end, bisect_right(ends, before + limits.bytes_max - self._bytes, first))
                if end == first and self._runs:
                    yield from self.rest()
                    continue
                end = max(end, first + 1)
                self._take(run, first, end, ends[end - 1] - before)
            first = end
        self._next_offset = run.first_offset + len(run)

    def rest(self) -> Iterator[list[RecordRun]]:
        """Yield the runs of the last batch, unless there are none."""
        if self._runs:
            yield self._runs
            self._runs, self._records, self._bytes, self._is_exact = [], 0, 0, True

    def _take(self, run: RecordRun, first: int, end: int, size: int) -> None:
        self._runs.append(run if (first, end) == (0, len(run)) else run.part(first, end))
        self._records += end - first
        self._bytes += size

    def _count(self) -> None:
        """Replace the bound of the bytes by their number."""
        if not self._is_exact:
            self._bytes = sum(sum(run.sizes()) for run in self._runs)
            self._is_exact = True


def _batch(sink: str, delivery: SourceDelivery, runs: list[RecordRun]) -> Batch:
    return Batch(sink, delivery.incarnation, delivery.partition, BatchRecords(runs), delivery.resend)


def _parts(run: RecordRun) -> Iterator[RecordRun | UnreadableRange]:
    """Divide a run at the records that cannot be decoded."""
    first = 0
    for index in sorted(run.unreadable):
        if index > first:
            yield run.part(first, index)
        offset = run.first_offset + index
        yield UnreadableRange(offset, offset, run.unreadable[index])
        first = index + 1
    if first == 0:
        yield run
    elif first < len(run):
        yield run.part(first, len(run))
