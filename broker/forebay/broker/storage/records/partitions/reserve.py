"""Reservation of offsets, and runs of records that only memory holds.

A reservation is written before the first of its offsets is assigned. Runs are written with a tail that counts them.
"""

from __future__ import annotations

import struct
from typing import Final

from forebay.broker.core.partition.reservation import Held, Reserve
from forebay.broker.core.writes import DropReserve, PutHeld, PutReserve
from forebay.broker.storage.records.kind import Kind, Replaced
from forebay.broker.storage.records.sealed import Codec, opened, seal, unpack

_LAYOUT: Final = struct.Struct(">Qq")
_RUN: Final = struct.Struct(">QQQI")


def _encode(reserve: Reserve) -> bytes:
    return seal(_LAYOUT.pack(reserve.end, -1 if reserve.slot is None else reserve.slot))


def _decode(value: bytes) -> Reserve:
    end, slot = unpack(_LAYOUT, opened(value))
    return Reserve(end, slot if slot >= 0 else None)


RESERVE: Final = Kind(
    name="reserve",
    prefix=b"\x1f",
    layout="sink u32, partition u32",
    codec=Codec(_encode, _decode),
    lives="while the sink may lose what it has accepted",
    damaged="offsets continue above all that may have been assigned",
    into=lambda sink: sink.reserves,
    puts=PutReserve,
    drops=DropReserve,
)


def _encode_held(held: tuple[Held, ...]) -> bytes:
    return seal(b"".join(_RUN.pack(run.first, run.end, run.size, run.pages) for run in held))


def _decode_held(value: bytes) -> tuple[Held, ...]:
    content = opened(value)
    return tuple(Held(*unpack(_RUN, content, at)) for at in range(0, len(content), _RUN.size))


def _replaced_held(sink: int, partition: int) -> Replaced:
    detail = "the records that only memory held are derived from the index"
    return Replaced(detail, (), PutHeld(sink, partition, ()))


HELD: Final = Kind(
    name="held runs",
    prefix=b"\x21",
    layout="sink u32, partition u32",
    codec=Codec(_encode_held, _decode_held),
    lives="while the stored tail counts pages that only memory holds",
    damaged="records that were only in memory become a gap, like damaged ones",
    surveyed=True,
    into=lambda sink: sink.held,
    replaced=_replaced_held,
    puts=PutHeld,
    empty_is_deleted=True,
)
