"""Reservation of offsets. Written before the first of them is assigned."""

from __future__ import annotations

import struct
from typing import Final

from forebay.broker.core.partition.reservation import Reserve
from forebay.broker.core.writes import DropReserve, PutReserve
from forebay.broker.storage.records.kind import OfPartition
from forebay.broker.storage.records.sealed import Codec, opened, seal, unpack

_LAYOUT: Final = struct.Struct(">Qq")


def _encode(reserve: Reserve) -> bytes:
    return seal(_LAYOUT.pack(reserve.end, -1 if reserve.slot is None else reserve.slot))


def _decode(value: bytes) -> Reserve:
    end, slot = unpack(_LAYOUT, opened(value))
    return Reserve(end, slot if slot >= 0 else None)


RESERVE: Final = OfPartition(
    name="reserve",
    prefix=b"\x1f",
    codec=Codec(_encode, _decode),
    lives="while the sink may lose what it has accepted",
    damaged="offsets go on above all that can have been assigned",
    into=lambda sink: sink.reserves,
    puts=PutReserve,
    drops=DropReserve,
)
