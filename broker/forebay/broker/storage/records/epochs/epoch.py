"""Committed epoch of a producer. Written with the entries of its pages or behind them.

The value is one line of JSON for people, then the parts, one per partition. Epochs are read on request; a damaged one
is left out, which is logged.
"""

from __future__ import annotations

import json
import struct
from dataclasses import asdict, replace
from typing import Final

from forebay.broker.core.epochs.values import EpochPart, EpochRecord
from forebay.broker.core.writes import DropEpoch, PutEpoch
from forebay.broker.storage.records.epochs.stage_order import STAGE_ORDER
from forebay.broker.storage.records.kind import U64, Kind, Span
from forebay.broker.storage.records.sealed import Codec, Undecodable, opened, seal
from forebay.broker.storage.store.contract import Operation

_PART: Final = struct.Struct(">IQQIQQQ")


def _encode(epoch: EpochRecord) -> bytes:
    facts = asdict(replace(epoch, parts=()))  # not the parts: it would copy each
    parts = (
        _PART.pack(part.partition, part.base, part.records, part.pages, part.size, part.first, part.last)
        for part in epoch.parts
    )
    del facts["parts"]
    return seal(json.dumps(facts, sort_keys=True).encode() + b"\n" + b"".join(parts))


def _decode(value: bytes) -> EpochRecord:
    facts, _, packed = opened(value).partition(b"\n")
    try:
        parts = tuple(EpochPart(*found) for found in _PART.iter_unpack(packed))
        return EpochRecord(**json.loads(facts), parts=parts)
    except (ValueError, TypeError, struct.error) as error:
        raise Undecodable(f"not an epoch: {error}") from error


def _put(write: PutEpoch) -> list[Operation]:
    return [EPOCH.put(EPOCH.key(write.sink, write.epoch.producer, write.epoch.epoch), write.epoch)]


def _drop(write: DropEpoch) -> list[Operation]:
    sink, name, number = write.sink, write.producer, write.epoch
    gone = [STAGE_ORDER.delete(STAGE_ORDER.key(sink, name, number, partition)) for partition in write.partitions]
    return [EPOCH.delete(EPOCH.key(sink, name, number)), *gone]


class _Epochs(Kind[EpochRecord]):
    layout = "sink u32, length of producer u8, producer, epoch u64"

    def key(self, sink: int, producer: str, number: int) -> bytes:
        return self.of_name(sink, producer) + U64.pack(number)

    def from_number(self, sink: int, producer: str, first: int = 0) -> Span:
        """Return the keys of a producer's epochs from ``first`` on."""
        prefix = self.of_name(sink, producer)
        return prefix + U64.pack(first), prefix + b"\xff" * (U64.size + 1)


EPOCH: Final = _Epochs(
    name="epoch",
    prefix=b"\x25",
    codec=Codec(_encode, _decode),
    lives="while one of its pages lives",
    damaged="left out where epochs are listed",
    at_start=False,
    writes={PutEpoch: _put, DropEpoch: _drop},
)
