"""Reclaim ledger: runs of pages without an index entry.

An entry is written with the batch that drops the pages, and deleted when their space is free: the bytes are deleted
first, and the space is freed later.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from forebay.broker.core.writes import WHOLE_SINK, Due, PutDue, Reclaim, Reclaimed
from forebay.broker.storage.records.key_layout import Span
from forebay.broker.storage.records.kind import Kind, Replaced
from forebay.broker.storage.records.pages.page import BULK_PAGE, SMALL_PAGE, bulk_from
from forebay.broker.storage.records.sealed import Codec, opened, seal, unpack
from forebay.broker.storage.store.contract import Operation

_LAYOUT: Final = struct.Struct(">QQ")


def _encode(due: Due) -> bytes:
    return seal(_LAYOUT.pack(due.last, due.size))


def _decode(value: bytes) -> tuple[Any, ...]:
    """Return the last page number, and the bytes of the pages."""
    return unpack(_LAYOUT, opened(value))


def due_of(key: bytes, value: bytes) -> Due | None:
    """Return an entry of the ledger, None if it is damaged."""
    sink, partition, bulk, first = DUE.parts(key)
    found = DUE.decoded(value)
    return None if found is None else Due(sink, partition, bool(bulk), first, *found)


def first_due(sink: int, partition: int, bulk: int, first: int) -> Due:
    """Return the first page of an entry: the key names no other."""
    return Due(sink, partition, bool(bulk), first, first, 0)


def span_of(due: Due) -> Span:
    """Return the keys of the pages of an entry."""
    if due.bulk:
        return bulk_from(due.first), bulk_from(due.last + 1)
    if due.partition == WHOLE_SINK:
        return SMALL_PAGE.under(due.sink)
    return SMALL_PAGE.between(due.sink, due.partition, first=due.first, end=due.last + 1)


def _reclaim(write: Reclaim) -> list[Operation]:
    due = write.due
    if due.bulk or due.partition == WHOLE_SINK:
        return [(BULK_PAGE if due.bulk else SMALL_PAGE).delete_range(span_of(due))]
    numbers = range(due.first, due.last + 1)
    return [SMALL_PAGE.delete(SMALL_PAGE.key(due.sink, due.partition, number)) for number in numbers]


def _replaced(*parts: int) -> Replaced:
    due = first_due(*parts)
    return Replaced(f"only page {due.first} of it is reclaimed", due, PutDue(due))


DUE: Final = Kind[Any](  # written as a Due, read as the fields that its key does not have
    name="ledger entry",
    prefix=b"\x17",
    layout="sink u32, partition u32, bulk u8, first u64",
    codec=Codec(_encode, _decode),
    lives="until the space is released",
    damaged="reclaims its first page",
    replaced=_replaced,
    puts=PutDue,
    drops=Reclaimed,
    writes={Reclaim: _reclaim},
)
