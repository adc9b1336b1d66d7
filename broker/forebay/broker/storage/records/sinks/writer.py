"""Writer of a sink with its current epoch, and the slots of its window.

A slot is an accepted page, in place of the one a window before it. Slots are read when the writer connects, and a
damaged one is left out, which is logged. A new epoch begins without slots.
"""

from __future__ import annotations

import struct
from typing import Final

from forebay.broker.core.publish.writer import WINDOW, Slot
from forebay.broker.core.writes import DropWriter, PutSlot, PutWriter
from forebay.broker.storage.records.kind import Kind, Replaced
from forebay.broker.storage.records.sealed import NUMBER, Codec, opened, seal, unpack
from forebay.broker.storage.store.contract import Operation

_SLOT: Final = struct.Struct(">QQIQI")


def _encode_slot(of: tuple[int, Slot]) -> bytes:
    epoch, slot = of
    return seal(_SLOT.pack(epoch, slot.sequence, slot.crc32, slot.first, slot.count))


def _decode_slot(value: bytes) -> tuple[int, Slot]:
    """Return the epoch of the writer, and the slot."""
    epoch, sequence, crc32, first, count = unpack(_SLOT, opened(value))
    return epoch, Slot(sequence, crc32, first, count)


def _put_slot(write: PutSlot) -> list[Operation]:
    key = SLOT.key(write.sink, write.writer_id, write.partition, write.slot.sequence % WINDOW)
    return [SLOT.put(key, (write.epoch, write.slot))]


SLOT: Final = Kind(
    name="slot",
    prefix=b"\x15",
    layout="sink u32, writer text, partition u32, place u16",
    codec=Codec(_encode_slot, _decode_slot),
    lives="as long as its writer; its place is the sequence modulo the size of the window",
    damaged="left out of the window",
    at_start=False,
    writes={PutSlot: _put_slot},
)


def _put(write: PutWriter) -> list[Operation]:
    slots = SLOT.delete_range(SLOT.under(write.sink, write.writer_id))
    return [slots, WRITER.put(WRITER.key(write.sink, write.writer_id), write.epoch)]


def _drop(write: DropWriter) -> list[Operation]:
    slots = SLOT.delete_range(SLOT.under(write.sink, write.writer_id))
    return [slots, WRITER.delete(WRITER.key(write.sink, write.writer_id))]


def _replaced(sink: int, writer_id: str) -> Replaced:
    return Replaced("dropped: it opens again under a new epoch", write=DropWriter(sink, writer_id))


WRITER: Final = Kind(
    name="writer",
    prefix=b"\x14",
    layout="sink u32, writer text",
    codec=NUMBER,
    lives="until it closes or exceeds the writer time limit",
    damaged="deleted: it opens again under a new epoch",
    into=lambda sink: sink.writers,
    replaced=_replaced,
    writes={PutWriter: _put, DropWriter: _drop},
)
