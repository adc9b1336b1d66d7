"""Reclaim ledger: runs of pages that no index entry names any more.

An entry is written with the batch that drops the pages, and deleted when their space is free: the bytes are deleted
first, and the space is freed later.
"""

from __future__ import annotations

import struct
from typing import Final

from forebay.broker.core.writes import WHOLE_SINK, Due, PutDue, Reclaim, Reclaimed
from forebay.broker.storage.records.kind import Kind, Replaced, Span
from forebay.broker.storage.records.pages.page import BULK_PAGE, SMALL_PAGE
from forebay.broker.storage.records.sealed import Codec, opened, seal, unpack
from forebay.broker.storage.store.contract import Delete, Family, Operation

_KEY: Final = struct.Struct(">IIBQ")
_LAYOUT: Final = struct.Struct(">QQ")


def _encode(of: tuple[int, int]) -> bytes:
    return seal(_LAYOUT.pack(*of))


def _decode(value: bytes) -> tuple[int, int]:
    last, size = unpack(_LAYOUT, opened(value))
    return last, size


def due_span(due: Due) -> Span:
    """Return the keys of the pages."""
    if due.bulk:
        return BULK_PAGE.key(due.first), BULK_PAGE.key(due.last + 1)
    if due.partition == WHOLE_SINK:
        return SMALL_PAGE.of_sink(due.sink)
    return SMALL_PAGE.between(due.sink, due.partition, due.first, due.last + 1)


def _put(write: PutDue) -> list[Operation]:
    return [DUE.put(DUE.key_of(write.due), (write.due.last, write.due.size))]


def _reclaim(write: Reclaim) -> list[Operation]:
    due = write.due
    if due.bulk:
        return [BULK_PAGE.delete_range(due_span(due))]
    if due.partition == WHOLE_SINK:
        return [SMALL_PAGE.delete_range(due_span(due))]
    numbers = range(due.first, due.last + 1)
    return [Delete(Family.SMALL, SMALL_PAGE.key(due.sink, due.partition, number)) for number in numbers]


def _reclaimed(write: Reclaimed) -> list[Operation]:
    return [DUE.delete(DUE.key_of(write.due))]


class _Ledger(Kind[tuple[int, int]]):
    layout = "sink u32, partition u32, bulk u8, first page number u64"

    def key(self, sink: int, partition: int, *, bulk: bool, first: int) -> bytes:
        return self.prefix + _KEY.pack(sink, partition, bulk, first)

    def key_of(self, due: Due) -> bytes:
        """Return the key of a run of pages."""
        return self.key(due.sink, due.partition, bulk=due.bulk, first=due.first)

    def due(self, key: bytes, value: bytes) -> Due | None:
        """Return a stored entry, None if it is damaged."""
        found = self.decoded(value)
        return None if found is None else self._run(key, *found)

    def first_of(self, key: bytes) -> Due:
        """Return the first page of an entry: its key alone tells that one."""
        return self._run(key, _KEY.unpack_from(key, 1)[3], 0)

    def _run(self, key: bytes, last: int, size: int) -> Due:
        sink, partition, bulk, first = _KEY.unpack_from(key, 1)
        return Due(sink, partition, bool(bulk), first, last, size)


def _replaced(key: bytes) -> Replaced:
    due = DUE.first_of(key)
    return Replaced(f"only page {due.first} of it is reclaimed", due, PutDue(due), due.partition)


DUE: Final = _Ledger(
    name="ledger entry",
    prefix=b"\x17",
    codec=Codec(_encode, _decode),
    lives="until the space is free",
    damaged="reclaims its first page",
    replaced=_replaced,
    writes={PutDue: _put, Reclaim: _reclaim, Reclaimed: _reclaimed},
)
