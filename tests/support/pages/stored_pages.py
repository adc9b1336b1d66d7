"""Pages and entries, written by a journal."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace

from forebay.broker.core.partition.pages import Body, Entry
from forebay.broker.core.writes import (
    PageWrite,
    PutEntry,
)
from forebay.broker.storage.journal import Journal
from forebay.broker.storage.store.contract import Family
from forebay.broker.storage.store.memory import MemoryStore
from tests.support.pages.samples import entry


def page(at: Entry, *, sink: int = 1, partition: int = 0) -> PageWrite:
    """A page with some body."""
    data = b"body of %d" % at.number
    return PageWrite(sink, partition, at, Body(zlib.crc32(data), data))


def bulk(base: int, count: int = 1) -> Entry:
    """An entry of a page that came in as a file."""
    return replace(entry(base, count), bulk=True)


def put(journal: Journal, entries: Sequence[Entry], *, sink: int = 1, partition: int = 0) -> None:
    """Store pages and the entries that name them."""
    pages = [page(each, sink=sink, partition=partition) for each in entries]
    journal.commit(pages, [PutEntry(sink, partition, each) for each in entries])


def stored(store: MemoryStore, family: Family) -> list[bytes]:
    """All keys of a family."""
    return [key for key, _ in store.scan(family, b"", b"\xff", 1_000)]
