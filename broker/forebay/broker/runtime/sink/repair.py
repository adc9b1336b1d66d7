"""Mending a partition while the broker runs: the index lacks something that its counters speak of.

A reader meets it as a hole: no page and no gap stands for its position. All of the partition's index is read then,
pages that it does not name are named again, and the rest becomes a gap. Nobody appends to the sink meanwhile, other
sinks go on. A part of the index that cannot be read at all is left behind first, by writing it anew, see ``pages``.
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
    """Survey a partition and take what was found for the truth. Called with the sink's admission held.

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
                await asyncio.shield(written)  # who reads the index now finds what was named again
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
        "index was damaged sink=%s partition=%d pages_named_again=%d records_lost=%d; look with `forebay verify`",
        *(buffer.name, partition, len(found.rebuilt), records),
    )
    written = services.committer.write(writes)
    buffer.mended(partition, written, records)
    return written
