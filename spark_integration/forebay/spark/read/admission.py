"""Admission: the end of the next micro-batch in each partition under the configured limits.

Partitions get equal parts, and the unused part of a short partition goes to the others. Therefore a partition with a
small lag never waits for one with a large lag. Bytes are counted by the mean size of the partition's stored records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from forebay.spark.read.ranges import StoredRange


@dataclass(frozen=True, slots=True)
class Bounds:
    """Upper bounds of a micro-batch; None is unlimited."""

    records: int | None = None
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class _Lag:
    partition: int
    records: int
    record_bytes: float


def admitted(start: Mapping[int, int], stored: Sequence[StoredRange], bounds: Bounds) -> dict[int, int]:
    """Return the end of the next micro-batch in each partition; it has at least one record if any exists."""
    begin = {one.partition: _behind_skipped(one, start.get(one.partition, 0)) for one in stored}
    lags = [
        _Lag(one.partition, lag, one.record_bytes)
        for one in stored
        if (lag := _end(one, begin[one.partition]) - begin[one.partition]) > 0
    ]
    taken = {lag.partition: lag.records for lag in lags}
    for budget, by_bytes in ((bounds.records, False), (bounds.bytes, True)):
        if budget is not None:
            allowed = _shared(_rotated(lags, start), float(budget), by_bytes=by_bytes)
            taken = {partition: min(records, allowed[partition]) for partition, records in taken.items()}
    if lags and not any(taken.values()):
        taken[_rotated(lags, start)[0].partition] = 1
    return {one.partition: begin[one.partition] + taken.get(one.partition, 0) for one in stored}


def _behind_skipped(stored: StoredRange, start: int) -> int:
    """Return the offset from which on records count: a range without records takes nothing of a limit."""
    for first, end in stored.skipped:
        if first <= start < end:
            start = min(end, stored.next)
    return start


def _end(stored: StoredRange, begin: int) -> int:
    """Return the end of the records of one micro-batch: the next one crosses a skipped range."""
    return min(stored.next, next((first for first, _ in stored.skipped if begin < first), stored.next))


def _rotated(lags: Sequence[_Lag], start: Mapping[int, int]) -> list[_Lag]:
    """Start with another partition in each batch, so that a limit below their number starves none."""
    turn = sum(start.values()) % max(1, len(lags))
    return [*lags[turn:], *lags[:turn]]


def _shared(lags: Sequence[_Lag], budget: float, *, by_bytes: bool) -> dict[int, int]:
    """Return the number of records per partition within the budget."""
    given = {lag.partition: 0 for lag in lags}
    for lag, parts in (*_by_size(lags, by_bytes=by_bytes), *((lag, 1) for lag in lags)):
        cost = max(1.0, lag.record_bytes) if by_bytes else 1.0
        more = min(lag.records - given[lag.partition], int(budget / parts / cost))
        given[lag.partition] += more
        budget -= more * cost
    return given


def _by_size(lags: Sequence[_Lag], *, by_bytes: bool) -> Iterator[tuple[_Lag, int]]:
    """Yield the lags by size, each with the number of remaining ones that share its unused part."""
    ordered = sorted(lags, key=lambda lag: lag.records * (lag.record_bytes if by_bytes else 1.0))
    for place, lag in enumerate(ordered):
        yield lag, len(ordered) - place
