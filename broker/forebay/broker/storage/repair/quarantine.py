"""Inspection of quarantined pages in a copy of the database, so that the broker may be running."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from forebay.broker.core.partition.pages import Entry
from forebay.broker.storage.records.header import Damaged, Header, body_of
from forebay.broker.storage.records.pages.page import key_of
from forebay.broker.storage.records.pages.quarantine import QUARANTINE
from forebay.broker.storage.records.sinks.sink import SINK
from forebay.broker.storage.records.store import STORE_ID
from forebay.broker.storage.repair.inspection import opened, snapshot
from forebay.broker.storage.state import State
from forebay.broker.storage.store.contract import Family
from forebay.broker.storage.store.rocks.store import RocksStore


@dataclass(frozen=True, slots=True)
class Quarantined:
    """Page in quarantine."""

    sink: str
    partition: int
    first_offset: int
    last_offset: int
    records: int
    number: int
    """Page number, unique within the partition."""

    size: int
    """Size of the stored page in bytes; 0 if its bytes are missing."""

    cause: str
    """Cause of the damage, or a note that the page is readable now."""


def quarantined(directory: Path) -> Iterator[tuple[Quarantined, bytes]]:
    """Yield each quarantined page with its stored bytes, unchanged. Raises ``StoreError``."""
    with tempfile.TemporaryDirectory(prefix=".quarantine-", dir=directory.parent) as folder:
        copy = Path(folder) / "copy"
        snapshot(directory, copy)
        store, _ = opened(copy, repair=False)
        try:
            yield from _found(store)
        finally:
            store.close()


def _found(store: RocksStore) -> Iterator[tuple[Quarantined, bytes]]:
    state = State(store)
    names = {}
    for _, value in state.all(SINK):
        record = SINK.decoded(value)
        if record is not None:
            names[record.id] = record.name
    store_id = state.one(STORE_ID)
    for key, value in state.all(QUARANTINE):
        sink, partition, number = QUARANTINE.parts(key)
        entry = QUARANTINE.decoded(value)
        if entry is None:
            continue
        family = Family.BULK if entry.bulk else Family.SMALL
        [stored] = store.get_many(family, [key_of(sink, partition, number, bulk=entry.bulk)])
        cause = _cause(stored, bytes.fromhex(store_id or ""), sink, partition, entry)
        name = names.get(sink, f"sink {sink}")
        size = len(stored or b"")
        page = Quarantined(name, partition, entry.base, entry.end - 1, entry.count, number, size, cause)
        yield page, stored or b""


def _cause(stored: bytes | None, store_id: bytes, sink: int, partition: int, entry: Entry) -> str:
    if stored is None:
        return "the bytes are missing"
    try:
        body_of(stored, Header(store_id, sink, partition, entry.number, entry.base, entry.count, entry.encoding, 0))
    except Damaged as damage:
        return str(damage)
    return "the page is readable now"
