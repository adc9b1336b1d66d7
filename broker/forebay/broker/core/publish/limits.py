"""Limits of a sink: admission of records, live or staged, and the pages to drop for them.

The decision comes before anything is written. The bound is exact and includes queued records. Only confirmed pages
that are not in flight can be dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from forebay.broker.core.errors import RecordTooLarge, SinkFull
from forebay.broker.core.partition.log import LiveUsage, PartitionLog
from forebay.broker.core.partition.pages import Entry
from forebay.broker.core.settings import Overflow, SinkSettings


@dataclass(frozen=True, slots=True)
class Drop:
    """Page to drop."""

    partition: int
    entry: Entry


@dataclass(frozen=True, slots=True)
class Wait:
    """Precondition of the decision: the oldest entries of a partition, or the pending batch."""

    load: int | None
    """Partition whose oldest entries are needed, or None to wait for the batch."""


@dataclass(frozen=True, slots=True)
class Demand:
    """Records and bytes to admit, and those that count towards the same limits already."""

    records: int
    size: int
    used_records: int
    used_size: int
    staged_records: int = 0
    """Staged ones among the used records."""
    staged_size: int = 0
    is_staged: bool = False
    """True if the records are to be staged: no live record is dropped for them."""

    def excess(self, settings: SinkSettings) -> tuple[int, int]:
        """Return the records and bytes above the limits; 0 or less if they fit."""
        _, records_max = settings.records_max
        over_records = self.used_records + self.records - records_max if records_max else 0
        return over_records, self.used_size + self.size - settings.max_total_bytes

    def share(self, settings: SinkSettings) -> float:
        """Return the share of the limits that is used; of the limit that is used most."""
        _, records_max = settings.records_max
        records = self.used_records / records_max if records_max else 0.0
        return max(records, self.used_size / settings.max_total_bytes)

    def never_fits(self, settings: SinkSettings) -> bool:
        """Return whether the records would not fit into an empty sink."""
        return self.size > settings.max_total_bytes or 0 < settings.records_max[1] < self.records


def demand(
    settings: SinkSettings,
    live: LiveUsage,
    staged: tuple[int, int],
    records: int,
    size: int,
    *,
    is_staged: bool = False,
) -> Demand:
    """Return a demand beside the ``live`` records and the ``staged`` records and bytes.

    Live and staged records share the limits; where live records may be dropped, each kind has the full limits.
    """
    shared = settings.overflow == Overflow.REJECT
    used = (live.records, live.size) if shared or not is_staged else (0, 0)
    beside = staged if shared or is_staged else (0, 0)
    return Demand(records, size, used[0] + beside[0], used[1] + beside[1], *beside, is_staged)


def admit(
    sink: str,
    settings: SinkSettings,
    wanted: Demand,
    logs: Sequence[PartitionLog],
    in_flight: Sequence[frozenset[int]] = (),
) -> list[Drop] | Wait:
    """Return the pages to drop for a demand; empty if it fits, or if no page can be dropped.

    ``in_flight`` holds, per partition, the base offsets of the pages that are in flight.

    Raises:
        SinkFull: the demand does not fit, and the policy is REJECT or the records are to be staged.
        RecordTooLarge: in that case, if it can never fit.
    """
    over_records, over_bytes = wanted.excess(settings)
    if over_records <= 0 and over_bytes <= 0:
        return []
    if settings.overflow == Overflow.DROP_OLDEST and not wanted.is_staged:
        return oldest(logs, in_flight, over_records, over_bytes)
    limit, records_max = settings.records_max
    kind = "a staged page" if wanted.is_staged else "an append"
    if wanted.size > settings.max_total_bytes:
        raise RecordTooLarge(wanted.size, settings.max_total_bytes, kind)
    if wanted.never_fits(settings):
        raise RecordTooLarge(wanted.records, records_max, f"{kind} (counted in records)")
    if over_bytes > 0:
        raise SinkFull(sink, "max_total_bytes", settings.max_total_bytes, wanted.used_size, wanted.staged_size)
    raise SinkFull(sink, limit, records_max, wanted.used_records, wanted.staged_records)


def oldest(
    logs: Sequence[PartitionLog], in_flight: Sequence[frozenset[int]], over_records: int, over_bytes: int
) -> list[Drop] | Wait:
    """Return the oldest pages of all partitions by age, until enough is free or no page is left."""
    heads = {log.number: _droppable(log, in_flight[log.number]) for log in logs}
    fronts = {number: next(head, None) for number, head in heads.items()}
    drops: list[Drop] = []
    while over_records > 0 or over_bytes > 0:
        for log in logs:
            # Entries beyond the loaded ones may be the oldest: load before judging.
            if not log.complete and fronts[log.number] is None:
                return drops or Wait(load=log.number)
        candidates = [(entry.age_us, number, entry) for number, entry in fronts.items() if entry is not None]
        if not candidates:
            queued = any(log.queued_bytes for log in logs)
            return drops or (Wait(load=None) if queued else [])
        _, partition, entry = min(candidates, key=lambda candidate: candidate[:2])
        fronts[partition] = next(heads[partition], None)
        drops.append(Drop(partition, entry))
        over_records -= entry.count
        over_bytes -= entry.size
    return drops


def _droppable(log: PartitionLog, in_flight: AbstractSet[int]) -> Iterator[Entry]:
    """Yield the oldest entries that are not in flight, as far as they are loaded."""
    return (entry for entry in log.iter_first() if entry.base not in in_flight)
