"""Committed epoch of a producer, and the order of its stages in each partition.

An epoch is written with the entries of its pages or after them, its stages with it or before it. Its value is one line
of JSON for people, then the parts, one per partition. Epochs are read on request; a damaged one is left out, which is
logged. With the order of the stages a repair rebuilds the index: the header of a staged page has its stage, but no
offset.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from forebay.broker.core.epochs.values import EpochPart, EpochRecord, StagePart
from forebay.broker.core.writes import DropEpoch, DropEpochStages, PutEpoch, PutEpochStages
from forebay.broker.storage.records.key_layout import Span
from forebay.broker.storage.records.kind import Kind
from forebay.broker.storage.records.sealed import Codec, Undecodable, opened, seal
from forebay.broker.storage.store.contract import Operation

_PART: Final = struct.Struct(">IQQIQQQ")
_STAGE: Final = struct.Struct(">QQI")


def _encode_order(stages: Sequence[int]) -> bytes:
    layout = struct.Struct(">" + _STAGE.format[1:] * (len(stages) // 3))
    return seal(layout.pack(*stages))


def _decode_order(value: bytes) -> tuple[StagePart, ...]:
    try:
        return tuple(StagePart(*found) for found in _STAGE.iter_unpack(opened(value)))
    except struct.error as error:
        raise Undecodable(f"not the stages of an epoch: {error}") from error


def _drop_stages(write: DropEpochStages) -> list[Operation]:
    return [STAGE_ORDER.delete_range(STAGE_ORDER.under(write.sink, write.producer, write.epoch))]


STAGE_ORDER: Final = Kind[Any](  # written as a flat sequence of numbers, read as a tuple of StagePart
    name="stages of an epoch",
    prefix=b"\x28",
    layout="sink u32, producer text, epoch u64, partition u32",
    codec=Codec(_encode_order, _decode_order),
    lives="as their epoch",
    damaged="its pages are not recovered if the index is damaged too",
    at_start=False,
    puts=PutEpochStages,
    writes={DropEpochStages: _drop_stages},
)


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


def _drop(write: DropEpoch) -> list[Operation]:
    sink, name, number = write.sink, write.producer, write.epoch
    gone = [STAGE_ORDER.delete(STAGE_ORDER.key(sink, name, number, partition)) for partition in write.partitions]
    return [EPOCH.delete(EPOCH.key(sink, name, number)), *gone]


EPOCH: Final = Kind(
    name="epoch",
    prefix=b"\x25",
    layout="sink u32, producer text, epoch u64",
    codec=Codec(_encode, _decode),
    lives="while one of its pages lives",
    damaged="left out where epochs are listed",
    at_start=False,
    puts=PutEpoch,
    writes={DropEpoch: _drop},
)


def epochs_from(sink: int, producer: str, first: int = 0) -> Span:
    """Return the keys of a producer's epochs from ``first`` on."""
    return EPOCH.key(sink, producer, first), EPOCH.under(sink, producer)[1]
