"""Sets of a resend query: contents of a micro-batch, its checkpoint form, and its splits. No I/O.

Each micro-batch is a set that the broker leases under a name. The checkpoint has the offsets of all its records, so
that a repeated batch has the same records, even after the lease expired. As with other offsets the JSON form is
canonical, because Spark compares JSON text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from forebay.client import ResendRanges
from forebay.spark.errors import ForebaySparkError
from forebay.spark.read.ranges import Span

Json = dict[str, object]
NEAR_RECORDS: Final = 4_096
"""Ranges with fewer records between them are read together, which costs less than another call."""


@dataclass(frozen=True, slots=True)
class SetOffset:
    """Position of a query: after one of its sets."""

    incarnation: str
    """Incarnation of the sink; a sink that was deleted and recreated has another."""

    query: str
    """Id of the query, chosen at its start; part of the holder's name of each set."""

    number: int = 0
    """Number of the set; 0 is the start."""

    parts: tuple[ResendRanges, ...] = ()
    """Contents of the set, by partition."""

    @property
    def holder(self) -> str:
        """Name under which the broker leases the set."""
        return f"{self.query}:{self.number}"

    def next(self, parts: Sequence[ResendRanges]) -> SetOffset:
        """Return the position after the next set."""
        return SetOffset(self.incarnation, self.query, self.number + 1, tuple(parts))

    def json(self) -> Json:
        """Return the canonical JSON form."""
        return {
            "incarnation": self.incarnation,
            "number": self.number,
            "partitions": {
                str(part.partition): {
                    "account": part.account,
                    "attempts": [list(pair) for pair in part.attempts],
                    "ranges": [list(pair) for pair in part.ranges],
                }
                for part in sorted(self.parts, key=lambda one: one.partition)
            },
            "query": self.query,
        }


def parsed_set(found: Mapping[str, object]) -> SetOffset:
    """Parse a position of the checkpoint. Raises `ForebaySparkError` for an unknown form."""
    try:
        incarnation, query, number, partitions = (
            found[name] for name in ("incarnation", "query", "number", "partitions")
        )
        if not (isinstance(incarnation, str) and isinstance(query, str) and type(number) is int):
            raise TypeError(found)
        if not isinstance(partitions, dict):
            raise TypeError(found)
        parts = tuple(
            ResendRanges(
                int(partition), int(part["account"]), _pairs(part["ranges"]), _pairs(part["attempts"]), incarnation
            )
            for partition, part in partitions.items()
        )
        return SetOffset(incarnation, query, number, parts)
    except (KeyError, TypeError, ValueError):
        raise ForebaySparkError(
            f"The checkpoint holds an offset that is none of mode resend: {str(dict(found))[:200]}.",
            "Use a checkpoint location of its own for each query, and for each mode.",
        ) from None


def _pairs(value: object) -> tuple[tuple[int, int], ...]:
    if not isinstance(value, list) or not all(type(one) is int for pair in value for one in pair):
        raise TypeError(value)
    return tuple((first, second) for first, second in value)


def splits(part: ResendRanges, records_max: int | None) -> Iterator[ResendRanges]:
    """Yield the parts of a partition's tasks, each with at most ``records_max`` records."""
    if records_max is None:
        yield part
        return
    room, ranges = records_max, list[tuple[int, int]]()
    for first, last in part.ranges:
        at = first
        while at <= last:
            end = min(last, at + room - 1)
            ranges.append((at, end))
            room -= end - at + 1
            at = end + 1
            if not room:
                yield _of(part, ranges)
                room, ranges = records_max, []
    if ranges:
        yield _of(part, ranges)


def _of(part: ResendRanges, ranges: Sequence[tuple[int, int]]) -> ResendRanges:
    first, last = ranges[0][0], ranges[-1][1]
    attempts = tuple(pair for pair in part.attempts if first <= pair[0] <= last)
    return ResendRanges(part.partition, part.account, tuple(ranges), attempts, part.incarnation)


def spans(part: ResendRanges) -> list[Span]:
    """Return the spans that cover the ranges of a task with few calls."""
    found: list[Span] = []
    for first, last in part.ranges:
        if found and first - found[-1].end < NEAR_RECORDS:
            found[-1] = Span(part.partition, found[-1].start, last + 1)
        else:
            found.append(Span(part.partition, first, last + 1))
    return found


def within(part: ResendRanges, first: int, last: int) -> list[tuple[int, int]]:
    """Return the offsets from ``first`` to ``last`` that are in the ranges."""
    return [(max(first, one), min(last, other)) for one, other in part.ranges if one <= last and first <= other]
