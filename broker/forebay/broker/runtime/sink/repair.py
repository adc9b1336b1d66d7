"""Repair of a partition in a running broker: the index lacks entries that its counters include.

A reader finds a hole: its position is neither in a page nor in a gap. The whole index of the partition is then read,
pages without an entry get one, and the rest becomes a gap. No append to the sink runs meanwhile; other sinks continue.
A part of the index that cannot be read at all is excluded first by rewriting it, see ``pages``.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from forebay.broker.core.errors import StoreFenced
from forebay.broker.core.partition.log import PartitionLog, Tail
from forebay.broker.core.partition.ranges import union
from forebay.broker.core.partition.repair import Survey, gaps_for, recounted
from forebay.broker.core.writes import DropEntry, PutEntry, PutGap, PutHead, Write

if TYPE_CHECKING:
    from forebay.broker.runtime.sink.buffer import Buffer, Services

_log: Final = logging.getLogger(__name__)
_TRIES: Final = 8


async def mend(buffer: Buffer, log: PartitionLog, services: Services) -> None:
    """Survey a partition and apply the result. Called with the sink's admission held.

    Raises ``StoreFenced``.
    """
    sink = buffer.record.id
    for _ in range(_TRIES):
        head, tail = log.head, log.tail
        known = [*log.first_entries(), *log.recent]
        found = await services.pages.survey(sink, log.number, head.earliest, tail.next_offset, log.gaps, known)
        if buffer.deleted:
            return
        if log.head is head:
            written = _apply(buffer, log, tail, found, services)
            if written is not None:
                await asyncio.shield(written)  # index reads now find the rebuilt entries
            log.mended += 1
            return
    raise StoreFenced(f"partition {log.number} of {buffer.name} changed whenever it was surveyed")


def _apply(
    buffer: Buffer, log: PartitionLog, tail: Tail, found: Survey, services: Services
) -> asyncio.Future[None] | None:
    sink, partition = buffer.record.id, log.number
    if found.sound:
        return None
    made = gaps_for(found.lost, services.clock.wall_us())
    before = log.size
    log.take_mended(recounted(log.head, tail, found), made)
    services.quota.give(before - log.size)
    writes: list[Write] = [PutEntry(sink, partition, entry) for entry in found.rebuilt]
    writes += [DropEntry(sink, partition, base) for base in found.broken]
    writes += [PutGap(sink, partition, gap) for gap in made]
    writes.append(PutHead(sink, partition, log.head))
    writes += buffer.tier.beside_head(log)
    now = services.clock.monotonic()
    for subscription in buffer.subscriptions.values():
        subscription.drop(partition, union(found.lost), now)
        if made:
            writes.append(subscription.cursor_write(partition))
    records = sum(part.size for part in found.lost)
    _log.error(
        "index was damaged sink=%s partition=%d entries_rebuilt=%d records_lost=%d; inspect with `forebay verify`",
        *(buffer.name, partition, len(found.rebuilt), records),
    )
    written = services.committer.write(writes)
    buffer.mended(partition, written, records)
    return written
