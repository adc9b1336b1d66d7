"""Admission: the end of the next micro-batch in each partition under the configured limits.

Each partition with a lag gets one record, in a rotating order, as long as they fit into the limit; the first one also
if it does not. The rest of the limit is divided into equal parts, and the unused part of a short partition goes to the
others. Therefore a partition waits for its turn at most, whatever its lag and the size of its records. Bytes are
counted by the mean size of the partition's stored records. Records that were removed take nothing of a limit.
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

    def cost(self, *, by_bytes: bool) -> float:
        """Return the part of a limit that one record takes."""
        return max(1.0, self.record_bytes) if by_bytes else 1.0


def admitted(start: Mapping[int, int], stored: Sequence[StoredRange], bounds: Bounds) -> dict[int, int]:
    """Return the end of the next micro-batch in each partition; it has at least one record if any exists."""
    begin = {one.partition: _after_skipped(one, start.get(one.partition, 0)) for one in stored}
    lags = [
        _Lag(one.partition, lag, one.record_bytes)
        for one in stored
        if (lag := _end(one, begin[one.partition]) - begin[one.partition]) > 0
    ]
    lags = _rotated(lags, start)
    taken = {lag.partition: lag.records for lag in lags}
    for budget, by_bytes in ((bounds.records, False), (bounds.bytes, True)):
        if budget is not None:
            allowed = _shared(lags, float(budget), by_bytes=by_bytes)
            taken = {partition: min(records, allowed[partition]) for partition, records in taken.items()}
    return {one.partition: begin[one.partition] + taken.get(one.partition, 0) for one in stored}


def _after_skipped(stored: StoredRange, start: int) -> int:
    """Return the offset from which on records count: a range without records takes nothing of a limit."""
    start = max(start, min(stored.earliest, stored.next))
    for first, end in stored.skipped:
        if first <= start < end:
            start = min(end, stored.next)
    return start


def _end(stored: StoredRange, begin: int) -> int:
    """Return the end of the records of one micro-batch: the next one crosses a skipped range."""
    return min(stored.next, next((first for first, _ in stored.skipped if begin < first), stored.next))


def _rotated(lags: Sequence[_Lag], start: Mapping[int, int]) -> list[_Lag]:
    """Begin with another partition in each batch, so that a limit below one record of each starves none.

    The first one is drawn from the whole start: after a sum or a count, batches of certain sizes always begin alike.
    """
    turn = hash(tuple(sorted(start.items()))) % max(1, len(lags))
    return [*lags[turn:], *lags[:turn]]


def _shared(lags: Sequence[_Lag], budget: float, *, by_bytes: bool) -> dict[int, int]:
    """Return the number of records per partition within the budget, at least one of the first partition."""
    given = {lag.partition: 0 for lag in lags}
    for place, lag in enumerate(lags):
        cost = lag.cost(by_bytes=by_bytes)
        if place == 0 or cost <= budget:
            given[lag.partition] = 1
            budget = max(0.0, budget - cost)
    for lag, parts in (*_by_size(lags, by_bytes=by_bytes), *((lag, 1) for lag in lags)):
        cost = lag.cost(by_bytes=by_bytes)
        more = min(lag.records - given[lag.partition], int(budget / parts / cost))
        given[lag.partition] += more
        budget -= more * cost
    return given


def _by_size(lags: Sequence[_Lag], *, by_bytes: bool) -> Iterator[tuple[_Lag, int]]:
    """Yield the lags by size, each with the number of remaining ones that share its unused part."""
    ordered = sorted(lags, key=lambda lag: lag.records * lag.cost(by_bytes=by_bytes))
    for place, lag in enumerate(ordered):
        yield lag, len(ordered) - place
