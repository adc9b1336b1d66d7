"""Order of the stages of an epoch in one partition. Written with the epoch or before it.

With it a repair names the pages of the epoch again: their headers tell their stage, and no offset.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final

from forebay.broker.core.epochs.values import StagePart
from forebay.broker.core.writes import DropEpochStages, PutEpochStages
from forebay.broker.storage.records.kind import U32, U64, Kind, Span
from forebay.broker.storage.records.sealed import Codec, Undecodable, opened, seal
from forebay.broker.storage.store.contract import Operation

_STAGE: Final = struct.Struct(">QQI")


def _encode(stages: Sequence[int]) -> bytes:
    layout = struct.Struct(">" + _STAGE.format[1:] * (len(stages) // 3))
    return seal(layout.pack(*stages))


def _decode(value: bytes) -> tuple[StagePart, ...]:
    try:
        return tuple(StagePart(*found) for found in _STAGE.iter_unpack(opened(value)))
    except struct.error as error:
        raise Undecodable(f"not the stages of an epoch: {error}") from error


def _drop(write: DropEpochStages) -> list[Operation]:
    return [STAGE_ORDER.delete_range(STAGE_ORDER.of_epoch(write.sink, write.producer, write.epoch))]


class _StageOrders(Kind[Any]):  # written as a flat sequence of numbers, read as a tuple of StagePart
    layout = "sink u32, length of producer u8, producer, epoch u64, partition u32"

    def key(self, sink: int, producer: str, epoch: int, partition: int) -> bytes:
        return self.of_name(sink, producer) + U64.pack(epoch) + U32.pack(partition)

    def of_epoch(self, sink: int, producer: str, epoch: int) -> Span:
        """Return the keys of all partitions of an epoch."""
        prefix = self.of_name(sink, producer) + U64.pack(epoch)
        return prefix, prefix + b"\xff" * (U32.size + 1)

    def of_producer(self, sink: int, producer: str) -> Span:
        """Return the keys of all epochs of a producer."""
        prefix = self.of_name(sink, producer)
        return prefix, prefix + b"\xff" * (U64.size + U32.size + 1)


STAGE_ORDER: Final = _StageOrders(
    name="stages of an epoch",
    prefix=b"\x28",
    codec=Codec(_encode, _decode),
    lives="as their epoch",
    damaged="its pages are not named again where the index is damaged too",
    at_start=False,
    puts=PutEpochStages,
    writes={DropEpochStages: _drop},
)
