"""Runs of records that only memory holds although the stored tail counts them."""

from __future__ import annotations

import struct
from typing import Final

from forebay.broker.core.partition.reservation import Held
from forebay.broker.core.writes import PutHeld
from forebay.broker.storage.records.kind import OfPartition, Replaced
from forebay.broker.storage.records.sealed import Codec, opened, seal, unpack

_RUN: Final = struct.Struct(">QQQI")


def _encode(held: tuple[Held, ...]) -> bytes:
    return seal(b"".join(_RUN.pack(run.first, run.end, run.size, run.pages) for run in held))


def _decode(value: bytes) -> tuple[Held, ...]:
    content = opened(value)
    return tuple(Held(*unpack(_RUN, content, at)) for at in range(0, len(content), _RUN.size))


def _replaced(key: bytes) -> Replaced:
    partition = HELD.within(key)
    write = PutHeld(HELD.sink_of(key), partition, ())
    return Replaced("which records only memory held is found out from the index", (), write, partition)


HELD: Final = OfPartition(
    name="held runs",
    prefix=b"\x21",
    codec=Codec(_encode, _decode),
    lives="while the stored tail counts pages that only memory holds",
    damaged="records that were only in memory become a gap, as damaged ones",
    surveyed=True,
    into=lambda sink: sink.held,
    replaced=_replaced,
    puts=PutHeld,
    empty_is_deleted=True,
)
