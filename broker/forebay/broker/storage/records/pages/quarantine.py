"""Quarantined page: the entry of a damaged page, whose bytes are kept."""

from __future__ import annotations

import struct
from typing import Final

from forebay.broker.core.partition.pages import Entry
from forebay.broker.core.writes import DropQuarantine, PutQuarantine
from forebay.broker.storage.records.kind import Kind, Replaced
from forebay.broker.storage.records.pages.entry import decode_entry, encode_entry
from forebay.broker.storage.records.sealed import Codec, opened, seal, unpack

_BASE: Final = struct.Struct(">Q")


def _encode(entry: Entry) -> bytes:
    return seal(_BASE.pack(entry.base) + encode_entry(entry))


def _decode(value: bytes) -> Entry:
    content = opened(value)
    [base] = unpack(_BASE, content)
    return decode_entry(content[_BASE.size :], base)


def _replaced(sink: int, partition: int, number: int) -> Replaced:
    return Replaced(f"page {number} is no longer in quarantine")


QUARANTINE: Final = Kind(
    name="quarantined page",
    prefix=b"\x18",
    layout="sink u32, partition u32, number u64",
    codec=Codec(_encode, _decode),
    lives="until it is evicted by newer ones, or the sink is deleted",
    damaged="it is no longer in quarantine, and its bytes stay",
    replaced=_replaced,
    puts=PutQuarantine,
    drops=DropQuarantine,
)
