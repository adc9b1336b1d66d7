"""Records of a batch: columns, of which a record is made when it is asked for."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain
from operator import eq
from typing import overload

from forebay.client.values.records import StoredPage
from forebay.deliver.source import RecordRun, SourceRecord


class BatchRecords(Sequence[SourceRecord]):
    """Consecutive records of one run or several ones.

    Compares with any other sequence of records.
    """

    __slots__ = ("_ends", "_runs")

    def __init__(self, runs: Sequence[RecordRun]) -> None:
        """``runs`` follow each other without a hole; none is empty."""
        self._runs = tuple(runs)
        self._ends = list(accumulate(map(len, runs)))

    @property
    def values(self) -> list[bytes]:
        """Payloads of all records, which makes no record."""
        return list(chain.from_iterable(run.values for run in self._runs))

    @property
    def pages(self) -> list[StoredPage]:
        """Stored pages, each with the range of these records as the requested one."""
        return [run.page for run in self._runs]

    @property
    def first_offset(self) -> int:
        """Offset of the first record."""
        return self._runs[0].first_offset

    def __len__(self) -> int:
        """Return the number of records."""
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[SourceRecord]:
        """Yield the records in order."""
        return chain.from_iterable(self._runs)

    @overload
    def __getitem__(self, index: int) -> SourceRecord: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[SourceRecord]: ...

    def __getitem__(self, index: int | slice) -> SourceRecord | Sequence[SourceRecord]:
        """Return a record, or consecutive ones as such a sequence, any others as a tuple."""
        if isinstance(index, slice):
            first, end, step = index.indices(len(self))
            return self._part(first, max(first, end)) if step == 1 else tuple(self)[index]
        place = range(len(self))[index]
        return next(iter(self._part(place, place + 1)))

    def __eq__(self, other: object) -> bool:
        """Return True for a sequence of equal records."""
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(eq, self, other))

    def __hash__(self) -> int:
        """Return the hash of a tuple of these records."""
        return hash(tuple(self))

    def __repr__(self) -> str:
        """Return their number, never contents."""
        return f"<{len(self)} records>"

    def _part(self, first: int, end: int) -> BatchRecords:
        found: list[RecordRun] = []
        at = bisect_right(self._ends, first)
        while first < end:
            run, run_end = self._runs[at], self._ends[at]
            start = run_end - len(run)
            until = min(end, run_end)
            found.append(run if (first, until) == (start, run_end) else run.part(first - start, until - start))
            first, at = until, at + 1
        return BatchRecords(found)
