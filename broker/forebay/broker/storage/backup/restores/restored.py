"""State of a restored store: nothing that was assigned after the backup is ever assigned again.

Between the backup and the loss the broker went on: it assigned offsets, page numbers, owner epochs and tickets that the
restored store does not know, and others may hold them.

- Each partition continues at an offset that rises with the time of the restore, see ``resumed_offset``. Those between
  are a gap with the reason `RESTORED`: a reader that was ahead of the backup is in the gap, so it is notified, and
  continues after it.
- The restore counts as ``STARTS_SKIPPED`` starts and more with the age of the backup, see ``starts_skipped``, so owner
  epochs, tickets and page numbers are above all earlier ones.
- The store has a new identity, and keeps those of its sinks: saved positions stay valid.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import isqrt
from typing import Final

from forebay.broker.core.backups.values import Restored
from forebay.broker.core.partition.cursor import Cursor
from forebay.broker.core.partition.log import Head, Tail
from forebay.broker.core.partition.pages import DropReason
from forebay.broker.core.partition.reservation import Reserve, restart
from forebay.broker.core.writes import (
    NUMBER_BITS,
    PutCursor,
    PutGap,
    PutHead,
    PutHeld,
    PutReserve,
    PutRestored,
    PutTail,
    Write,
)
from forebay.broker.storage.records.store import START
from forebay.broker.storage.recovery import Recovered
from forebay.broker.storage.stored_sink import StoredSink

ORIGIN_US: Final = 1_735_689_600_000_000
"""2025-01-01: origin of the offsets of restores, which stay below 2⁵³ until 2096."""
OFFSETS_PER_US: Final = 4
"""Offsets left out per microsecond since then.

No partition gets four million records a second all the time.
"""
OFFSETS_SKIPPED: Final = 1 << 40
"""Offsets left out where the clock is so wrong that the time gives no higher offset."""
STARTS_SKIPPED: Final = 1_024
"""Starts left out: those of the broker between the backup and its loss are fewer."""
STARTS_MAX: Final = 1 << (64 - NUMBER_BITS)
"""Start counts that fit above the numbers of a start."""
STARTS_SHARE: Final = 8
"""Divisor of the start counts that are left: the age of a backup uses at most that part."""
RANDOM_BITS: Final = 6
"""Low bits of the starts left out that are random."""


@dataclass(frozen=True, slots=True)
class RestoredPartition:
    """Partition of a restored sink."""

    partition: int
    records: int
    """Stored records."""

    end: int
    """End of the backup: offsets from here on may have been assigned after it."""

    resumes_at: int
    """Offset of the next record."""


@dataclass(frozen=True, slots=True)
class RestoredSubscription:
    """Subscription of a restored sink."""

    name: str
    unsettled: int
    """Records that are delivered, or delivered again: acks after the backup are lost."""


@dataclass(frozen=True, slots=True)
class RestoredProducer:
    """Writer of epochs of a restored sink."""

    producer: str
    write_name: str
    epoch: int
    """Last epoch in the backup. A later commit that leaves epochs out is rejected."""


@dataclass(frozen=True, slots=True)
class RestoredSink:
    """Restored sink, for the report."""

    name: str
    incarnation: str
    partitions: tuple[RestoredPartition, ...]
    subscriptions: tuple[RestoredSubscription, ...]
    producers: tuple[RestoredProducer, ...]
    writers: int
    """Publishers with a window. One that is ahead of it gets a new epoch."""


def mark_restored(recovered: Recovered, restored: Restored) -> tuple[RestoredSink, ...]:
    """Change the state of a store that was copied from a backup, durably; returns its sinks.

    Raises ``StoreFenced``.
    """
    found: list[RestoredSink] = []
    for sink in recovered.sinks:
        writes: list[Write] = []
        partitions = tuple(_partition(sink, each, restored.restored_at_us, writes) for each in range(sink.partitions))
        recovered.journal.commit([], writes)
        found.append(_report(sink, partitions))
    last_start = recovered.start_count + starts_skipped(restored, recovered.start_count)
    recovered.journal.put_number(START, last_start)
    recovered.journal.commit([], [PutRestored(replace(restored, last_start=last_start))])
    return tuple(found)


def resumed_offset(end: int, restored_at_us: int) -> int:
    """Return the next offset of a restored partition that ended at ``end``.

    It depends on the time, because a backup may be restored twice: the second restore must not assign what a broker on
    the first one has assigned since.
    """
    by_time = (restored_at_us - ORIGIN_US) * OFFSETS_PER_US
    return by_time if by_time > end else end + OFFSETS_SKIPPED


def starts_skipped(restored: Restored, start_count: int) -> int:
    """Return the starts to leave out by a restore whose own start is ``start_count``.

    They are more than those of the broker that made the backup, which may have started ``STARTS_SKIPPED`` times, and
    once a minute ever since.

    A backup may be restored several times. What a later restore assigns is above what an earlier one has assigned: a
    ticket of the earlier one would fence writers of the later one, an owner epoch would be taken for its own. So they
    are the more, the later it is: the square root of the microseconds since the backup, because start counts have 24
    bits, which a count per second would use up in half a year. A difference of 10 s counts for a backup of the last
    hour, one of 40 s for that of a day, of two minutes for that of a week. Of closer restores the order is not kept,
    but the low bits are random, those of the new identity of the store: 63 of 64 pairs differ.

    Above an eighth of the start counts that are left, the age counts no more. The first restore of a store reaches it
    with a backup of 50 days.
    """
    elapsed_us = max(0, restored.restored_at_us - restored.taken_at_us)
    by_time = min(isqrt(elapsed_us), (STARTS_MAX - start_count) // STARTS_SHARE)
    randomness = int(restored.store_id, 16) % (1 << RANDOM_BITS)
    return STARTS_SKIPPED + (by_time >> RANDOM_BITS << RANDOM_BITS) + randomness


def _partition(sink: StoredSink, partition: int, at_us: int, writes: list[Write]) -> RestoredPartition:
    number = sink.record.id
    tail, head = sink.tails.get(partition, Tail()), sink.heads.get(partition, Head())
    names = {"default", *sink.subscriptions, *(name for name, at in sink.cursors if at == partition)}
    cursors = {name: sink.cursors.get((name, partition), Cursor()) for name in sorted(names)}
    reserve = sink.reserves.get(partition)
    end = sink.assigned_end(partition)
    found = restart(
        tail,
        head,
        sink.gaps.get(partition, ()),
        cursors,
        reserve=Reserve(resumed_offset(end, at_us)),
        held=sink.held.get(partition, ()),
        accepted=None,
        wiped=False,
        at_us=at_us,
        cause=DropReason.RESTORED,
    )
    writes += [PutTail(number, partition, found.tail), PutHead(number, partition, found.head)]
    writes += [PutGap(number, partition, gap) for gap in found.gaps]
    writes += [
        PutCursor(number, name, partition, cursor) for name, cursor in found.cursors.items() if cursor != cursors[name]
    ]
    writes.append(PutHeld(number, partition, ()))
    if reserve is not None:
        writes.append(PutReserve(number, partition, Reserve(found.tail.next_offset, reserve.slot)))
    records = found.tail.next_offset - found.head.removed_records
    return RestoredPartition(partition, records, tail.next_offset, found.tail.next_offset)


def _report(sink: StoredSink, partitions: tuple[RestoredPartition, ...]) -> RestoredSink:
    names = sorted({"default", *sink.subscriptions})
    return RestoredSink(
        sink.record.name,
        sink.record.incarnation,
        partitions,
        tuple(RestoredSubscription(name, sum(_unsettled(sink, name))) for name in names),
        tuple(
            RestoredProducer(each.producer, each.write_name, each.epoch)
            for each in sink.producers.values()
            if each.epoch is not None
        ),
        len(sink.writers),
    )


def _unsettled(sink: StoredSink, name: str) -> Iterator[int]:
    """Yield the records of each partition that a subscription had not settled at the backup."""
    for partition in range(sink.partitions):
        end = sink.tails.get(partition, Tail()).next_offset
        cursor = sink.cursors.get((name, partition), Cursor())
        yield max(0, end - cursor.watermark) - sum(min(part.end, end) - part.first for part in cursor.beyond)
