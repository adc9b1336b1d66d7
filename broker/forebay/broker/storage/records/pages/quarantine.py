"""Quarantined page: the entry of a damaged page, whose bytes are kept."""

from __future__ import annotations

from typing import Final

from forebay.broker.core.partition.pages import Entry
from forebay.broker.core.writes import DropQuarantine, PutQuarantine
from forebay.broker.storage.records.kind import U64, Numbered, Replaced
from forebay.broker.storage.records.pages.entry import decode_entry, encode_entry
from forebay.broker.storage.records.sealed import Codec, opened, seal, unpack
from forebay.broker.storage.store.contract import Operation


def _encode(entry: Entry) -> bytes:
    return seal(U64.pack(entry.base) + encode_entry(entry))


def _decode(value: bytes) -> Entry:
    content = opened(value)
    [base] = unpack(U64, content)
    return decode_entry(content[U64.size :], base)


def _put(write: PutQuarantine) -> list[Operation]:
    return [QUARANTINE.put(QUARANTINE.key(write.sink, write.partition, write.entry.number), write.entry)]


def _replaced(key: bytes) -> Replaced:
    partition, number = QUARANTINE.within(key)
    return Replaced(f"page {number} is no longer kept aside", partition=partition)


QUARANTINE: Final = Numbered(
    name="quarantined page",
    prefix=b"\x18",
    codec=Codec(_encode, _decode),
    lives="until newer ones need the room, or the sink is deleted",
    damaged="it is not kept aside any more, and its bytes stay",
    replaced=_replaced,
    writes={PutQuarantine: _put},
    drops=DropQuarantine,
)
