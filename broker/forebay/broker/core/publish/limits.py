"""Limits of a sink: admission of an append, and the pages to drop for it, before anything is written.

The bound is exact and includes queued records. Only confirmed pages that are not in flight can be dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from forebay.broker.core.errors import RecordTooLarge, SinkFull
from forebay.broker.core.partition.log import PartitionLog
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


def usage(logs: Sequence[PartitionLog]) -> tuple[int, int]:
    """Return the records and bytes of a sink, including queued ones."""
    records = sum(log.next_offset - log.head.removed_records for log in logs)
    size = sum(log.size + log.queued_bytes for log in logs)
    return records, size


def _beside(settings: SinkSettings, staged: tuple[int, int]) -> tuple[int, int]:
    """Return the staged records and bytes that take room from live ones: all if nothing may be dropped."""
    return staged if settings.overflow == Overflow.REJECT else (0, 0)


def admit_staged(
    sink: str,
    settings: SinkSettings,
    logs: Sequence[PartitionLog],
    staged: tuple[int, int],
    records: int,
    size: int,
) -> None:
    """Raise ``SinkFull`` if the stage would not fit: a commit never exceeds a limit.

    Live and staged records share the limits; where live records may be dropped, each kind has the full limits. A page
    that would not fit into an empty sink raises ``RecordTooLarge``: waiting does not help.
    """
    if size > settings.max_total_bytes:
        raise RecordTooLarge(size, settings.max_total_bytes, "a staged page")
    if 0 < settings.records_max[1] < records:
        raise RecordTooLarge(records, settings.records_max[1], "a staged page (counted in records)")
    live = usage(logs) if settings.overflow == Overflow.REJECT else (0, 0)
    limit, records_max = settings.records_max
    for name, bound, used, held, more in (
        (limit, records_max, live[0] + staged[0], staged[0], records),
        ("max_total_bytes", settings.max_total_bytes, live[1] + staged[1], staged[1], size),
    ):
        if bound and used + more > bound:
            raise SinkFull(sink, name, bound, used, held)


def excess(
    settings: SinkSettings,
    logs: Sequence[PartitionLog],
    records: int,
    size: int,
    staged: tuple[int, int] = (0, 0),
) -> tuple[int, int]:
    """Return the records and bytes above the limits after an append; 0 or less: it fits.

    The append has ``records`` and ``size`` bytes. ``staged`` records and bytes exist beside those of the logs.
    """
    used_records, used_bytes = map(sum, zip(usage(logs), _beside(settings, staged), strict=True))
    _, records_max = settings.records_max
    over_records = used_records + records - records_max if records_max else 0
    return over_records, used_bytes + size - settings.max_total_bytes


def admit(
    sink: str,
    settings: SinkSettings,
    logs: Sequence[PartitionLog],
    in_flight: Sequence[frozenset[int]],
    records: int,
    size: int,
    staged: tuple[int, int] = (0, 0),
) -> list[Drop] | Wait:
    """Return the pages to drop for an append; empty if it fits, or if no page can be dropped.

    The append has ``records`` and ``size`` bytes. ``in_flight`` holds, per partition, the base offsets of the pages
    that are in flight.

    Raises:
        SinkFull: the policy is REJECT and the append does not fit.
        RecordTooLarge: the policy is REJECT and the append can never fit.
    """
    over_records, over_bytes = excess(settings, logs, records, size, staged)
    if over_records <= 0 and over_bytes <= 0:
        return []
    if settings.overflow == Overflow.REJECT:
        limit, records_max = settings.records_max
        used_records, used_bytes = usage(logs)
        if size > settings.max_total_bytes:
            raise RecordTooLarge(size, settings.max_total_bytes, "an append")
        if records_max and records > records_max:
            raise RecordTooLarge(records, records_max, "an append (counted in records)")
        if over_bytes > 0:
            raise SinkFull(sink, "max_total_bytes", settings.max_total_bytes, used_bytes + staged[1], staged[1])
        raise SinkFull(sink, limit, records_max, used_records + staged[0], staged[0])
    return oldest(logs, in_flight, over_records, over_bytes)


def oldest(
    logs: Sequence[PartitionLog], in_flight: Sequence[frozenset[int]], over_records: int, over_bytes: int
) -> list[Drop] | Wait:
    """Return the oldest pages of all partitions by age, until enough is free or no page is left."""
    heads = {log.number: [e for e in log.first_entries() if e.base not in in_flight[log.number]] for log in logs}
    seen = dict.fromkeys(heads, 0)
    drops: list[Drop] = []
    while over_records > 0 or over_bytes > 0:
        for log in logs:
            # Entries beyond the loaded ones may be the oldest: load before judging.
            if not log.complete and seen[log.number] == len(heads[log.number]):
                return drops or Wait(load=log.number)
        candidates = [(heads[n][seen[n]].age_us, n) for n in heads if seen[n] < len(heads[n])]
        if not candidates:
            queued = any(log.queued_bytes for log in logs)
            return drops or (Wait(load=None) if queued else [])
        _, partition = min(candidates)
        entry = heads[partition][seen[partition]]
        seen[partition] += 1
        drops.append(Drop(partition, entry))
        over_records -= entry.count
        over_bytes -= entry.size
    return drops
