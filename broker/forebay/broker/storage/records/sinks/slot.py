"""Slot of a writer's window: an accepted page, in place of the one a window before it.

Read when the writer connects. A damaged one is left out of the window, which is logged.
"""

from __future__ import annotations

import struct
from typing import Final

from forebay.broker.core.publish.writer import WINDOW, Slot
from forebay.broker.core.writes import PutSlot
from forebay.broker.storage.records.kind import Kind, Span
from forebay.broker.storage.records.sealed import Codec, opened, seal, unpack
from forebay.broker.storage.store.contract import Operation

_KEY: Final = struct.Struct(">IH")
_LAYOUT: Final = struct.Struct(">QQIQI")


def _encode(of: tuple[int, Slot]) -> bytes:
    epoch, slot = of
    return seal(_LAYOUT.pack(epoch, slot.sequence, slot.crc32, slot.first, slot.count))


def _decode(value: bytes) -> tuple[int, Slot]:
    epoch, sequence, crc32, first, count = unpack(_LAYOUT, opened(value))
    return epoch, Slot(sequence, crc32, first, count)


def _put(write: PutSlot) -> list[Operation]:
    key = SLOT.key(write.sink, write.writer_id, write.partition, write.slot.sequence)
    return [SLOT.put(key, (write.epoch, write.slot))]


class _Slots(Kind[tuple[int, Slot]]):
    layout = f"sink u32, length of writer id u8, writer id, partition u32, sequence mod {WINDOW} u16"

    def key(self, sink: int, writer_id: str, partition: int, sequence: int) -> bytes:
        return self.of_name(sink, writer_id) + _KEY.pack(partition, sequence % WINDOW)

    def of_writer(self, sink: int, writer_id: str) -> Span:
        """Return the keys of all slots of a writer."""
        prefix = self.of_name(sink, writer_id)
        return prefix, prefix + b"\xff" * (_KEY.size + 1)

    def partition_of(self, key: bytes) -> int:
        """Return the partition of a key."""
        return int(_KEY.unpack(key[-_KEY.size :])[0])


SLOT: Final = _Slots(
    name="slot",
    prefix=b"\x15",
    codec=Codec(_encode, _decode),
    lives="as its writer",
    damaged="left out of the window",
    at_start=False,
    writes={PutSlot: _put},
)
