"""Keys and values of the store, byte for byte: a broker must read what an older one has stored.

``stored_bytes.txt`` says what every write of the core becomes. A line that is changed or removed there is a new format;
see the chapter about changes in CONTRIBUTING.md. To add lines, run this file as a program.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from forebay.broker.core import writes
from forebay.broker.storage.journal import Journal
from forebay.broker.storage.recovery import recover
from forebay.broker.storage.store.contract import Delete, DeleteRange, Operation, Put, PutAll, Value
from forebay.broker.storage.store.memory import MemoryStore
from tests.support.storage.writes import FULL, PAGES

STORED: Final = Path(__file__).with_name("stored_bytes.txt")
STORE_ID: Final = bytes(range(16))
SETTINGS: Final = ("fsync", "partitions", "retry_backoff_factor")
"""Settings of a sink that are compared: each version adds some."""


class Recorder(MemoryStore):
    """A store that notes what it is asked to do."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def ingest(self, items: Sequence[tuple[bytes, Value]]) -> None:
        self.asked += [
            f"ingest {key.hex()} {shown(b''.join(value))}" for key, value in items if isinstance(value, tuple)
        ]
        super().ingest(items)

    def write(self, operations: Sequence[Operation]) -> None:
        self.asked += [line for operation in operations for line in lines_of(operation)]
        super().write(operations)


def lines_of(operation: Operation) -> Iterator[str]:
    match operation:
        case Put(family, key, value):
            yield f"put {family} {key.hex()} {shown(value)}"
        case PutAll(family, keys, values):
            yield from (f"put {family} {key.hex()} {shown(value)}" for key, value in zip(keys, values, strict=True))
        case Delete(family, key):
            yield f"delete {family} {key.hex()}"
        case DeleteRange(family, first, end):
            yield f"delete {family} {first.hex()} to {end.hex()}"


def shown(value: bytes) -> str:
    """A value as hex; a sink without the settings that are not compared."""
    if b'"settings"' not in value:
        return value.hex()
    assert value == sealed(value[5:])
    sink = json.loads(value[5:])
    sink["settings"] = {name: sink["settings"][name] for name in SETTINGS}
    return json.dumps(sink, sort_keys=True)


def everything_stored() -> list[str]:
    """Result of each write and page, one per line."""
    found: list[str] = []
    for write in FULL:
        store = Recorder()
        Journal(store, STORE_ID).commit([], [write])
        asked = sorted(store.asked) if isinstance(write, writes.DropSink) else store.asked  # nothing is in two of them
        found += [f"{type(write).__name__} {line}" for line in asked]
    for page in PAGES:
        store = Recorder()
        Journal(store, STORE_ID).commit([page], [])
        found += [f"{type(page).__name__} {line}" for line in store.asked]
    store = Recorder()
    journal = recover(store).journal
    made = sealed(journal.store_id.hex().encode()).hex()
    return found + [f"start {line.replace(made, 'store-id')}" for line in store.asked]


def sealed(content: bytes) -> bytes:
    """Content after its checksum and the number of the layout."""
    return zlib.crc32(content).to_bytes(4, "big") + b"\1" + content


def test_every_write_becomes_the_bytes_that_it_always_became() -> None:
    assert "\n".join(everything_stored()) == STORED.read_text(encoding="utf-8").rstrip()


def test_every_kind_of_write_is_compared() -> None:
    known = {
        name
        for name, found in vars(writes).items()
        if isinstance(found, type) and name.startswith(("Put", "Drop", "Reclaim"))
    }

    assert {type(write).__name__ for write in FULL} == known


if __name__ == "__main__":
    STORED.write_text("\n".join(everything_stored()) + "\n", encoding="utf-8")
