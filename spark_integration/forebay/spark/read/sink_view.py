"""View of a sink for the planning of a read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from forebay.client import Client, DropReason, Gap, SinkStats
from forebay.spark.options.read import Offsets, ReadOptions
from forebay.spark.read.ranges import StoredRange

SKIPPED_FROM: Final = 1 << 32
"""Number of missing offsets from which on they are searched for a range that a restore left out."""


@dataclass(frozen=True, slots=True)
class SinkView:
    """State of a sink at one time. All of it is durable: no crash takes an offset back."""

    incarnation: str
    """Random id of this creation of the sink."""

    stored: tuple[StoredRange, ...]
    """Contents of each partition."""

    watermarks: Mapping[str, Mapping[int, int]]
    """Lowest unsettled offset by subscription and partition."""

    def ends(self) -> dict[int, int]:
        """Return the next offset by partition."""
        return {one.partition: one.next for one in self.stored}


def view(client: Client, sink: str) -> SinkView:
    """Return the view of a sink. Raises `SinkNotFound`, `BrokerUnavailable`."""
    stats = client.sinks.stats(sink)
    found = _view(stats)
    if all(one.next_offset - one.earliest_offset - one.records < SKIPPED_FROM for one in stats.partitions):
        return found
    restored = [gap for gap in client.sinks.gaps(sink) if gap.reason is DropReason.RESTORED]
    return replace(found, stored=tuple(replace(one, skipped=_skipped(restored, one.partition)) for one in found.stored))


def _skipped(gaps: Iterable[Gap], partition: int) -> tuple[tuple[int, int], ...]:
    return tuple((gap.first_offset, gap.last_offset + 1) for gap in gaps if gap.partition == partition)


def resolved(client: Client, options: ReadOptions, found: SinkView) -> ReadOptions:
    """Return the options with times replaced by offsets."""
    return replace(
        options,
        starting=_resolved(client, options.target.sink, options.starting, found),
        ending=_resolved(client, options.target.sink, options.ending, found),
    )


def _resolved(client: Client, sink: str, offsets: Offsets, found: SinkView) -> Offsets:
    if offsets.at is None:
        return offsets
    at = {
        one.partition: min(
            one.next, client.offset_at(sink, offsets.at, partition=one.partition, incarnation=found.incarnation)
        )
        for one in found.stored
    }
    return Offsets(offsets.default, at)


def _view(stats: SinkStats) -> SinkView:
    return SinkView(
        incarnation=stats.incarnation,
        stored=tuple(
            StoredRange(
                one.partition, one.earliest_offset, one.next_offset, one.bytes / one.records if one.records else 0.0
            )
            for one in stats.partitions
        ),
        watermarks={
            one.name: {place.partition: place.watermark for place in one.partitions} for one in stats.subscriptions
        },
    )
