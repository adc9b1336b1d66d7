"""Resolution of a requested position to an offset in each partition.

An offset beyond the end is rejected: nothing is stored there yet, and silence would hide a mistake. An offset below the
lowest reachable one is rejected too, or raised to it, as the caller chose.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from forebay.broker.core.errors import OffsetAhead, OffsetTrimmed
from forebay.broker.core.partition.log import PartitionLog
from forebay.broker.core.partition.ranges import Range

TIMES_US: Final = (-62_135_596_800_000_000, 253_402_300_799_999_999)
"""The years 1 to 9999."""


class At(IntEnum):
    """Kind of position; the numbers are those of the wire."""

    EARLIEST = 1
    LATEST = 2
    OFFSET = 3
    OFFSETS = 4
    TIME = 5


@dataclass(frozen=True, slots=True)
class Position:
    """Position in all partitions of a sink."""

    at: At
    number: int = 0
    """The offset, or the time in microseconds since 1970-01-01 UTC."""

    offsets: tuple[tuple[int, int], ...] = ()
    """(partition, offset), by partition."""

    @property
    def is_shown_exactly(self) -> bool:
        """True unless it is a time outside of the years 1 to 9999, which the wire cannot express."""
        first, last = TIMES_US
        return self.at is not At.TIME or first <= self.number <= last

    def names(self, partition: int) -> bool:
        """Return whether it specifies a position in a partition."""
        return self.at is not At.OFFSETS or partition in dict(self.offsets)


EARLIEST: Final = Position(At.EARLIEST)


@dataclass(frozen=True, slots=True)
class StartOffset:
    """Offset at which an account is opened in one partition."""

    partition: int
    start: int
    trimmed: Range | None = None
    """Requested records that no longer exist."""


def place(position: Position, log: PartitionLog, since: Mapping[int, int], *, or_earliest: bool) -> StartOffset:
    """Return the place of ``position`` in a partition; ``since`` holds the offset found for a time.

    Raises:
        OffsetAhead: the offset is beyond the end.
        OffsetTrimmed: a record from the offset on is gone, and ``or_earliest`` is not set.
    """
    end = log.tail.next_offset
    if position.at is At.LATEST:
        return StartOffset(log.number, end)
    if position.at is At.TIME:
        return StartOffset(log.number, min(end, max(since.get(log.number, 0), log.reachable)))
    if position.at is At.EARLIEST or not position.names(log.number):
        return StartOffset(log.number, log.earliest)
    offset = position.number if position.at is At.OFFSET else dict(position.offsets)[log.number]
    if offset > end:
        raise OffsetAhead(offset, log.earliest, end)
    reachable = log.reachable
    if offset >= reachable:
        return StartOffset(log.number, offset)
    if not or_earliest:
        raise OffsetTrimmed(offset, log.earliest, end)
    return StartOffset(log.number, reachable, Range(offset, reachable))
