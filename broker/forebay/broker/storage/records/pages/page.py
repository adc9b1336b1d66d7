"""Stored pages: the header, then the body. Bulk pages come in as files, small ones in a batch.

A damaged page is quarantined, and a gap takes its place.
"""

from __future__ import annotations

from typing import Final

from forebay.broker.storage.records.header import Header, decode_header
from forebay.broker.storage.records.kind import Kind
from forebay.broker.storage.records.sealed import Codec
from forebay.broker.storage.store.contract import Family

_CODEC: Final = Codec(Header.encode, decode_header)
_LIVES: Final = "until its space is reclaimed"
_DAMAGED: Final = "quarantined when it is read; a gap takes its place"
BULK_PAGE: Final = Kind(
    name="bulk page",
    family=Family.BULK,
    layout="number u64, sink u32, partition u32",
    codec=_CODEC,
    lives=_LIVES,
    damaged=_DAMAGED,
)
SMALL_PAGE: Final = Kind(
    name="small page",
    family=Family.SMALL,
    layout="sink u32, partition u32, number u64",
    codec=_CODEC,
    lives=_LIVES,
    damaged=_DAMAGED,
)


def key_of(sink: int, partition: int, number: int, *, bulk: bool) -> bytes:
    """Return the key of a page in its family."""
    return BULK_PAGE.key(number, sink, partition) if bulk else SMALL_PAGE.key(sink, partition, number)


def bulk_from(number: int) -> bytes:
    """Return the key that all bulk pages from ``number`` on are at or above."""
    return BULK_PAGE.key(number, 0, 0)


ALL_BULK: Final = bulk_from(0), bulk_from((1 << 64) - 1)
"""Keys of all bulk pages."""
