"""Which offsets a batch read covers and how they are cut into tasks: decided from what the broker says it holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.spark.errors import HoldfastSparkError
from holdfast.spark.options import Bound, ReadOptions


@dataclass(frozen=True, slots=True)
class Held:
    """What a partition of the sink holds."""

    partition: int
    earliest: int
    """Lowest offset that is stored."""
    next: int
    """Offset that the next record will get."""


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets [start, end) of a partition."""

    partition: int
    start: int
    end: int


def plan_spans(options: ReadOptions, held: Sequence[Held]) -> list[Span]:
    """Return what each task reads. Raises `HoldfastSparkError` for offsets that the sink does not have."""
    partitions = {one.partition for one in held}
    unknown = sorted({*options.starting.by_partition, *options.ending.by_partition} - partitions)
    if unknown:
        raise HoldfastSparkError(
            f"Sink {options.target.sink!r} has no partition {unknown[0]}; it has {len(held)}, counted from 0.",
            "Name only partitions that exist in startingOffsets and endingOffsets.",
        )
    return [
        piece for one in held for piece in _cut(_span(options, one), options.max_records_per_split or max(1, one.next))
    ]


def _span(options: ReadOptions, held: Held) -> Span:
    start = _resolve(options.starting.of(held.partition), held)
    end = _resolve(options.ending.of(held.partition), held)
    where = f"partition {held.partition} of sink {options.target.sink!r}"
    for name, offset in (("startingOffsets", start), ("endingOffsets", end)):
        if offset > held.next:
            raise HoldfastSparkError(
                f"{name} asks for offset {offset} in {where}, which ends before offset {held.next}.",
                f"Lower {name}, or set it to latest.",
            )
    if start < held.earliest:
        if options.fail_on_data_loss:
            raise HoldfastSparkError(
                f"startingOffsets asks for offset {start} in {where}, whose earliest record is at {held.earliest}.",
                'Set startingOffsets to "earliest", or accept the loss with .option("failOnDataLoss", "false").',
            )
        start = min(held.earliest, max(start, end))
    if end < start:
        raise HoldfastSparkError(
            f"The range of {where} ends at offset {end} before it begins at {start}.",
            "Raise endingOffsets or lower startingOffsets.",
        )
    return Span(held.partition, start, end)


def _resolve(offset: int | Bound, held: Held) -> int:
    if offset is Bound.EARLIEST:
        return held.earliest
    if offset is Bound.LATEST:
        return held.next
    return int(offset)


def _cut(span: Span, records_max: int) -> list[Span]:
    return [
        Span(span.partition, start, min(start + records_max, span.end))
        for start in range(span.start, span.end, records_max)
    ]
