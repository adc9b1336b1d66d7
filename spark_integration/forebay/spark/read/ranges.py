"""Offset ranges of a read and their division into tasks, decided from the broker's answers."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.read import Bound, ReadOptions
from forebay.spark.read.schema import GAP_COLUMN

PIECES_MAX: Final = 10_000
"""Tasks of one partition."""


@dataclass(frozen=True, slots=True)
class StoredRange:
    """Contents of a partition of the sink."""

    partition: int
    earliest: int
    """Lowest stored offset."""
    next: int
    """Offset of the next record."""
    record_bytes: float = 0.0
    """Mean stored size of a record; 0 if none is stored."""
    skipped: tuple[tuple[int, int], ...] = ()
    """First offset and end of each long range that a restore of a backup left out, in order."""

    def up_to(self, end: int) -> StoredRange:
        """Return the contents below an offset."""
        return replace(self, next=min(self.next, end))


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets [start, end) of a partition."""

    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Missing:
    """Range of missing records of a partition."""

    partition: int
    first_offset: int
    last_offset: int
    reason: str
    """Reason, as given by the broker."""

    def adjoins(self, other: Missing) -> bool:
        """Return True if ``other`` follows directly, with the same reason."""
        return self.last_offset + 1 == other.first_offset and self.reason == other.reason


def plan_spans(options: ReadOptions, stored: Sequence[StoredRange]) -> list[Span]:
    """Return the range of each task. Raises `ForebaySparkError` for offsets outside the sink."""
    _check_named(options, stored)
    return [
        piece for one in stored for piece in cut(_span(options, one), options.max_records_per_split or max(1, one.next))
    ]


def plan_start(
    options: ReadOptions, stored: Sequence[StoredRange], partitions: Collection[int] | None = None
) -> dict[int, int]:
    """Return the start of a stream by partition. Raises `ForebaySparkError` for missing offsets.

    ``partitions`` are those that start there; None is all of ``stored``.
    """
    _check_named(options, stored)
    return {one.partition: _start(options, one) for one in stored if partitions is None or one.partition in partitions}


def plan_batch(options: ReadOptions, start: Mapping[int, int], end: Mapping[int, int]) -> list[Span]:
    """Return the ranges of a micro-batch's tasks. Raises `ForebaySparkError` for an inverted one."""
    spans: list[Span] = []
    for partition in sorted({*start, *end}):
        first, last = start.get(partition, 0), end.get(partition, 0)
        where = f"partition {partition} of sink {options.target.sink!r}"
        if last < first:
            raise ForebaySparkError(
                f"A micro-batch ends at offset {last} of {where} before it begins at {first}.",
                "The checkpoint is older than the position, or of another query: use a checkpoint location of its "
                "own for each query, and with a subscription a name of its own.",
            )
        spans += cut(Span(partition, first, last), options.max_records_per_split or max(1, last))
    return spans


def _check_named(options: ReadOptions, stored: Sequence[StoredRange]) -> None:
    partitions = {one.partition for one in stored}
    unknown = sorted({*options.starting.by_partition, *options.ending.by_partition} - partitions)
    if unknown:
        raise ForebaySparkError(
            f"Sink {options.target.sink!r} has no partition {unknown[0]}; it has {len(stored)}, counted from 0.",
            "Name only partitions that exist in startingOffsets and endingOffsets.",
        )


def _span(options: ReadOptions, stored: StoredRange) -> Span:
    end = _resolve(options.ending.of(stored.partition), stored)
    _check_reached("endingOffsets", end, options, stored)
    start, asked = _start(options, stored), _resolve(options.starting.of(stored.partition), stored)
    if end < asked:
        raise ForebaySparkError(
            f"The range of {_where(options, stored)} ends at offset {end} before it begins at {asked}.",
            "Raise endingOffsets or lower startingOffsets.",
        )
    return Span(stored.partition, min(start, end), end)


def _start(options: ReadOptions, stored: StoredRange) -> int:
    start = _resolve(options.starting.of(stored.partition), stored)
    _check_reached("startingOffsets", start, options, stored)
    if start < stored.earliest and options.fail_on_data_loss:
        raise ForebaySparkError(
            f"startingOffsets asks for offset {start} in {_where(options, stored)}, "
            f"whose earliest record is at {stored.earliest}.",
            'Set startingOffsets to "earliest", or accept the loss with .option("failOnDataLoss", "false").',
        )
    if GAP_COLUMN in options.metadata:
        return start  # the task tells what is gone
    return max(start, stored.earliest)


def _check_reached(name: str, offset: int, options: ReadOptions, stored: StoredRange) -> None:
    if offset > stored.next:
        raise ForebaySparkError(
            f"{name} asks for offset {offset} in {_where(options, stored)}, which ends before offset {stored.next}.",
            f"Lower {name}, or set it to latest.",
        )


def _where(options: ReadOptions, stored: StoredRange) -> str:
    return f"partition {stored.partition} of sink {options.target.sink!r}"


def _resolve(offset: int | Bound, stored: StoredRange) -> int:
    if offset is Bound.EARLIEST:
        return stored.earliest
    if offset is Bound.LATEST:
        return stored.next
    return int(offset)


def cut(span: Span, records_max: int) -> list[Span]:
    """Return the pieces of a span, in order; none for an empty one.

    There are at most ``PIECES_MAX``: a span may be longer than its records by what a restore left out.
    """
    records_max = max(records_max, -(-(span.end - span.start) // PIECES_MAX))
    return [
        Span(span.partition, start, min(start + records_max, span.end))
        for start in range(span.start, span.end, records_max)
    ]
