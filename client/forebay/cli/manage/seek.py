"""Seek of a subscription: its effect by partition, the confirmation where it skips records, the call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from forebay.cli.manage.confirmation import confirm, preview
from forebay.cli.manage.position_text import position_text
from forebay.cli.manage.refusals import check_begin, check_end, partition_in, refusal, subscription_in
from forebay.cli.output import Column, Output, write_list, write_values
from forebay.state.numbers import counted

if TYPE_CHECKING:
    from forebay.client import Client, Position, SinkStats, SubscriptionPlace


@dataclass(frozen=True, slots=True)
class Move:
    """Effect of a seek on one partition."""

    partition: int
    watermark: int
    """Lowest unsettled offset now."""

    to: int | None
    """New position; None for a time, which the broker resolves."""

    pending: int
    """Unsettled records now."""

    next_offset: int

    @property
    def skipped_max(self) -> int:
        """Most unsettled records that are skipped."""
        return self.pending if self.to is None else min(self.pending, max(0, self.to - self.watermark))

    @property
    def redelivered_max(self) -> int | None:
        """Most settled records that are delivered again; None if it is not known."""
        return None if self.to is None else max(0, min(self.watermark, self.next_offset) - self.to)


@dataclass(frozen=True, slots=True)
class Seek:
    """Seek of a subscription."""

    client: Client
    sink: str
    name: str
    to: Position
    partition: int | None
    """Only this partition; None for all."""

    or_earliest: bool

    def run(self, *, yes: bool, dry_run: bool, output: Output) -> None:
        """Seek, after a confirmation if unsettled records would be skipped."""
        stats = self.client.sinks.stats(self.sink)
        lanes = subscription_in(stats, self.name).partitions
        self._check(stats)
        starts = {one.partition: (one.earliest_offset, one.next_offset) for one in stats.partitions}
        moves = [
            Move(
                lane.partition, lane.watermark, self._target(lane.partition, *starts[lane.partition]), lane.pending, end
            )
            for lane in lanes
            for end in (starts[lane.partition][1],)
            if self.partition in {None, lane.partition} and self._includes(lane.partition)
        ]
        skipped = sum(move.skipped_max for move in moves)
        place = position_text(self.to)
        effect = f"seek subscription {self.name} of {self.sink} to {place}, skipping up to {counted(skipped, 'record')}"
        if dry_run:
            facts = [
                {"partition": one.partition, "from": one.watermark, "to": one.to, "skipped_max": one.skipped_max}
                for one in moves
            ]
            preview(effect, {"sink": self.sink, "subscription": self.name, "partitions": facts}, output)
            if output is Output.TABLE:
                columns = ("partition", "from", "to", "skips up to", "redelivers up to")
                write_list("", columns, [_cells(one) for one in moves])
            return
        if skipped:
            confirm(effect, yes=yes, output=output)
        to, is_latest = self.to, self.to == "latest"
        if is_latest and moves:
            to = self._confirmed(moves)
        moved: tuple[SubscriptionPlace, ...] = ()
        if to or not is_latest:
            moved = self.client.subscriptions.seek(
                self.sink,
                self.name,
                to=to,
                partition=None if isinstance(to, Mapping) else self.partition,
                or_earliest=self.or_earliest or is_latest,  # what was settled meanwhile may be trimmed
                incarnation=stats.incarnation,
            )
        shown: dict[str, Column[SubscriptionPlace]] = {
            "partition": "partition",
            "start": "start_offset",
            "trimmed": lambda one: "" if one.trimmed is None else f"{one.trimmed[0]} to {one.trimmed[1]}",
        }
        write_values(moved, output, f"subscription {self.name}", shown)

    def _confirmed(self, moves: Sequence[Move]) -> dict[int, int]:
        """Return the ends of the partitions that were shown: what was appended since is not skipped.

        A partition that has settled everything below is left out: it would be moved back.
        """
        lanes = subscription_in(self.client.sinks.stats(self.sink), self.name).partitions
        now = {lane.partition: lane.watermark for lane in lanes}
        return {one.partition: one.next_offset for one in moves if now.get(one.partition, 0) < one.next_offset}

    def _check(self, stats: SinkStats) -> None:
        """Raise the refusal of the broker: a partition or an offset does not exist, or both name partitions."""
        from forebay.errors.reasons import Reason

        if isinstance(self.to, Mapping) and self.partition is not None:
            raise refusal(
                Reason.INVALID_POSITION,
                "`partition` and `to.offsets` both select partitions: use one of them",
                field="partition",
            )
        if self.partition is not None:
            partition_in(stats, self.partition)
        if isinstance(self.to, Mapping):
            offsets = dict(self.to)
        elif isinstance(self.to, int):
            offsets = {one.partition: self.to for one in stats.partitions if self.partition in {None, one.partition}}
        else:
            return
        for number, offset in offsets.items():
            part = partition_in(stats, number)
            check_end(part, offset)
            if not self.or_earliest:
                check_begin(self.client, self.sink, part, offset)

    def _target(self, partition: int, earliest: int, end: int) -> int | None:
        if isinstance(self.to, datetime):
            return None
        if isinstance(self.to, Mapping):
            return self.to.get(partition, end)
        if isinstance(self.to, int):
            return max(earliest, self.to) if self.or_earliest else self.to
        return earliest if self.to == "earliest" else end

    def _includes(self, partition: int) -> bool:
        return not isinstance(self.to, Mapping) or partition in self.to


def _cells(move: Move) -> tuple[object, ...]:
    to = "by the broker" if move.to is None else move.to
    return (move.partition, move.watermark, to, move.skipped_max, move.redelivered_max)
