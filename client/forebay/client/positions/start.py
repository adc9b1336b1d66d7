"""Start of a consumer in one partition: one total table over start point, saved position and policy.

    checkpointing   saved position                                  start
    off             any                                             start point
    on              absent                                          start point
    on              absent, partition added since the first start   earliest record
    on              present                                         saved position
    on              trimmed, ahead of the end, other incarnation    policy: ``earliest``, ``latest`` or ``error``

The start point is none (as ``earliest``), ``earliest``, ``latest``, an offset, offsets by partition, or a time. An
offset that was trimmed or is ahead of the end follows the policy, too.

A saved position wins over the start point, so that a program that names one resumes after a restart. To begin
elsewhere, delete the saved positions or use another name. Partitions that were added since the consumer first started
begin at their earliest record, whatever the start point: they were empty then. Partitions are only ever added above
the others, so they are those above each partition that has a saved position, or is open. A first start takes the
highest partition over first: where it failed half-way, the partitions below are known to have been there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from forebay.client.errors import PositionUnusable
from forebay.client.positions.position import SavedPosition
from forebay.client.values.subscriptions import Position


def from_saved(fallback: Position = "earliest") -> Position:
    """Start at the saved position, and at ``fallback`` where nothing is saved."""
    return fallback


class OnMisfit(StrEnum):
    """Policy for a position that is trimmed, ahead of the end, or of another incarnation."""

    ERROR = "error"
    """Raise ``PositionUnusable`` with both numbers."""

    EARLIEST = "earliest"
    """Start at the earliest stored record; trimmed records are reported as a gap."""

    LATEST = "latest"
    """Start at the end of the partition; what a trimmed position skips is reported as a gap."""


class SavedState(StrEnum):
    """Saved position, compared with the partition."""

    ABSENT = "absent"
    PRESENT = "present"
    TRIMMED = "trimmed"
    AHEAD = "ahead of the end"
    FOREIGN = "of another incarnation"


@dataclass(frozen=True, slots=True)
class Bounds:
    """Offsets of one partition of a sink."""

    partition: int
    incarnation: str
    earliest: int
    """Lowest offset that can be read."""

    end: int
    """Offset of the next record."""


@dataclass(frozen=True, slots=True)
class Start:
    """Decision for one partition."""

    at: int | datetime
    """First offset to read, or the time of the first record to read."""

    state: SavedState
    skipped: tuple[int, int] | None = None
    """Offsets between the saved position and the start, both ends included: reported as a gap."""


@dataclass(frozen=True, slots=True, order=True)
class Opening:
    """Partition to be taken over."""

    partition: int
    is_added: bool
    """It was added to the sink since the consumer first started."""


def openings(partitions: Iterable[int], known: Iterable[int]) -> list[Opening]:
    """Return the order in which partitions are taken over.

    ``known`` are those with a position of this incarnation of the sink, and those that are open already. An order that
    fails half-way leaves what the next one needs to tell the partitions of the first start from those added since.
    """
    count = max(known, default=-1) + 1
    return [Opening(one, 0 < count <= one) for one in sorted(partitions, reverse=count == 0)]


def start_point(point: Position | None, *, is_added: bool, unsettled: int | None = None) -> Position | None:
    """Return the start point of one partition.

    ``unsettled``, the lowest record of a subscription that is read, replaces ``earliest``.
    """
    chosen = "earliest" if is_added else point
    return unsettled if unsettled is not None and chosen in (None, "earliest") else chosen


def state_of(saved: SavedPosition | None, bounds: Bounds) -> SavedState:
    """Return how a saved position compares with the partition."""
    if saved is None:
        return SavedState.ABSENT
    if saved.incarnation != bounds.incarnation:
        return SavedState.FOREIGN
    if saved.offset > bounds.end:
        return SavedState.AHEAD
    return SavedState.PRESENT if saved.offset >= bounds.earliest else SavedState.TRIMMED


def start_of(
    point: Position | None, saved: SavedPosition | None, bounds: Bounds, *, checkpointing: bool, on_misfit: OnMisfit
) -> Start:
    """Return the start of a partition. Raises ``PositionUnusable`` where the policy is ``error``."""
    state = state_of(saved, bounds)
    if saved is not None and checkpointing:
        if state is SavedState.PRESENT:
            return Start(saved.offset, state)
        if on_misfit is OnMisfit.ERROR:
            raise misfit(saved, bounds, state, "set on_misfit to 'earliest' or 'latest' to continue there")
        return _policy_start(saved.offset, bounds, state, on_misfit, is_trimmed=state is SavedState.TRIMMED)
    at = _offset_of(point, bounds)
    if not isinstance(at, int) or bounds.earliest <= at <= bounds.end:
        return Start(at, state)
    if on_misfit is OnMisfit.ERROR:
        raise _start_misfit(at, bounds)
    return _policy_start(at, bounds, state, on_misfit, is_trimmed=at < bounds.earliest)


def wanted_offset(
    point: Position | None, saved: SavedPosition | None, bounds: Bounds, *, checkpointing: bool
) -> int | None:
    """Return the offset that is named: by the saved position, or else by the start point. None for a time."""
    if saved is not None and checkpointing:
        return saved.offset if saved.incarnation == bounds.incarnation else None
    at = _offset_of(point, bounds)
    return at if isinstance(at, int) else None


def _policy_start(wanted: int, bounds: Bounds, state: SavedState, on_misfit: OnMisfit, *, is_trimmed: bool) -> Start:
    """Return the start that replaces an offset that cannot be read."""
    offset = bounds.earliest if on_misfit is OnMisfit.EARLIEST else bounds.end
    return Start(offset, state, (wanted, offset - 1) if is_trimmed and offset > wanted else None)


def _offset_of(point: Position | None, bounds: Bounds) -> int | datetime:
    match point:
        case None | "earliest":
            return bounds.earliest
        case "latest":
            return bounds.end
        case Mapping():
            return point.get(bounds.partition, bounds.earliest)
        case int() | datetime():
            return point


def misfit(saved: SavedPosition, bounds: Bounds, state: SavedState, advice: str) -> PositionUnusable:
    """Return the error for a saved position that does not fit the partition; it has both numbers."""
    where = f"the saved position {saved.offset} of partition {bounds.partition}"
    detail = {
        SavedState.TRIMMED: f"was trimmed: the earliest stored offset is {bounds.earliest}",
        SavedState.AHEAD: f"is ahead of the end of the partition, {bounds.end}: the sink lost records, or was restored",
        SavedState.FOREIGN: (
            f"belongs to a former sink of that name, which was deleted; the sink has offsets {bounds.earliest} to"
            f" {bounds.end}"
        ),
    }[state]
    return PositionUnusable(
        f"{where} {detail}; {advice}",
        facts={
            "partition": str(bounds.partition),
            "saved_offset": str(saved.offset),
            "earliest_offset": str(bounds.earliest),
            "end_offset": str(bounds.end),
            "state": state.value,
        },
    )


def _start_misfit(offset: int, bounds: Bounds) -> PositionUnusable:
    """Return the error for a start point that does not fit the partition; it has both numbers."""
    if offset < bounds.earliest:
        detail = f"was trimmed: the earliest stored offset is {bounds.earliest}"
    else:
        detail = f"is ahead of the end of the partition, {bounds.end}"
    return PositionUnusable(
        f"the start offset {offset} of partition {bounds.partition} {detail};"
        " name another start, or set on_misfit to 'earliest' or 'latest'",
        facts={
            "partition": str(bounds.partition),
            "start_offset": str(offset),
            "earliest_offset": str(bounds.earliest),
            "end_offset": str(bounds.end),
        },
    )
