"""Writer of a sink with its current epoch. A new epoch begins without slots."""

from __future__ import annotations

from typing import Final

from forebay.broker.core.writes import DropWriter, PutWriter
from forebay.broker.storage.records.kind import Named, Replaced
from forebay.broker.storage.records.sealed import NUMBER
from forebay.broker.storage.records.sinks.slot import SLOT
from forebay.broker.storage.store.contract import Operation


def _put(write: PutWriter) -> list[Operation]:
    slots = SLOT.delete_range(SLOT.of_writer(write.sink, write.writer_id))
    return [slots, WRITER.put(WRITER.key(write.sink, write.writer_id), write.epoch)]


def _drop(write: DropWriter) -> list[Operation]:
    slots = SLOT.delete_range(SLOT.of_writer(write.sink, write.writer_id))
    return [slots, WRITER.delete(WRITER.key(write.sink, write.writer_id))]


def _replaced(key: bytes) -> Replaced:
    write = DropWriter(WRITER.sink_of(key), WRITER.within(key))
    return Replaced("forgotten: it opens again under a new epoch", write=write)


WRITER: Final = Named(
    name="writer",
    prefix=b"\x14",
    codec=NUMBER,
    lives="until it closes or idles out",
    damaged="deleted: it opens again under a new epoch",
    into=lambda sink: sink.writers,
    replaced=_replaced,
    writes={PutWriter: _put, DropWriter: _drop},
)
