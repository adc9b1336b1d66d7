"""Stored pages: the header, then the body. Bulk pages come in as files, small ones in a batch.

A damaged page is quarantined, and a gap takes its place.
"""

from __future__ import annotations

import struct
from typing import Final

from forebay.broker.storage.records.header import Header, decode_header
from forebay.broker.storage.records.kind import Kind, Numbered
from forebay.broker.storage.records.sealed import Codec
from forebay.broker.storage.store.contract import Family

_BULK: Final = struct.Struct(">QII")
_CODEC: Final = Codec(Header.encode, decode_header)
_LIVES: Final = "until its space is reclaimed"
_DAMAGED: Final = "quarantined when it is read; a gap takes its place"


class _BulkPages(Kind[Header]):
    layout = "page number u64, sink u32, partition u32"

    def key(self, number: int, sink: int = 0, partition: int = 0) -> bytes:
        """Return the key of a page; without a sink, the one that no page from ``number`` on is below."""
        return _BULK.pack(number, sink, partition)

    def within(self, key: bytes) -> tuple[int, int, int]:
        """Return number, sink and partition."""
        number, sink, partition = _BULK.unpack(key)
        return number, sink, partition


BULK_PAGE: Final = _BulkPages(name="bulk page", family=Family.BULK, codec=_CODEC, lives=_LIVES, damaged=_DAMAGED)
SMALL_PAGE: Final = Numbered(name="small page", family=Family.SMALL, codec=_CODEC, lives=_LIVES, damaged=_DAMAGED)


def key_of(sink: int, partition: int, number: int, *, bulk: bool) -> bytes:
    """Return the key of a page in its family."""
    return BULK_PAGE.key(number, sink, partition) if bulk else SMALL_PAGE.key(sink, partition, number)
