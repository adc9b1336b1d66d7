"""Looking into a dead-letter sink, for tests."""

from __future__ import annotations

from forebay.broker.core.dead_letters.letters import DeadLetter, dead_letter_sink_name, from_dead_letter
from forebay.broker.core.partition.ranges import Range
from forebay.broker.rpc.pages.codec import PageCodec
from forebay.broker.runtime.broker import Broker
from forebay.broker.runtime.sink.buffer import Buffer


async def letters(broker: Broker, sink: str = "orders", partition: int = 0) -> list[DeadLetter]:
    """Every dead letter that is stored in a partition."""
    buffer = broker.sinks.get(dead_letter_sink_name(sink))
    return await letters_of(buffer, broker, partition) if buffer is not None else []


async def letters_of(buffer: Buffer, broker: Broker, partition: int = 0) -> list[DeadLetter]:
    """Every record of a partition of a dead-letter sink."""
    log = buffer.logs[partition]
    pages = broker.pages
    entries = pages.journal.entries(buffer.record.id, partition, 0, log.tail.next_offset, 1_000)
    bodies, _ = await pages.bodies(buffer.record.id, partition, entries)
    found = [(entry, body) for entry, body in zip(entries, bodies, strict=True) if body is not None]
    return [
        from_dead_letter(cut)
        for entry, body in found
        for cut in PageCodec().cut(entry, body, [Range(entry.base, entry.end)], buffer.schemas.stored)
    ]
