"""Store in memory for tests, with injected crashes and failures.

It has two images: the current one, and the one after a power loss. The writes since the last sync are in a journal
between them, so that ``crash`` can produce every state of a disk. It is for the tests of Forebay and of its users.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from forebay.broker.storage.errors import StoreClosed, StoreCorrupt, StoreFailed, StoreUnreadable
from forebay.broker.storage.store.contract import (
    CommitWindow,
    Delete,
    DeleteRange,
    Family,
    Marks,
    Operation,
    Put,
    PutAll,
    Value,
    WriteStall,
    check_ingest,
    check_range,
    check_scan,
)

Action: TypeAlias = Literal["write", "sync", "ingest"]
"""Actions that ``fail_next`` can make fail."""


@dataclass(frozen=True, slots=True)
class _Batch:
    operations: tuple[Operation, ...]


@dataclass(frozen=True, slots=True)
class _Ingested:
    items: tuple[tuple[bytes, bytes], ...]


@dataclass(frozen=True, slots=True)
class _Compacted:
    family: Family
    first: bytes
    end: bytes


_Step: TypeAlias = _Batch | _Ingested | _Compacted


@dataclass(slots=True)
class _Table:
    """Sorted entries of one family."""

    keys: list[bytes] = field(default_factory=list)
    values: dict[bytes, bytes] = field(default_factory=dict)

    def put(self, key: bytes, value: bytes) -> None:
        if key not in self.values:
            insort(self.keys, key)
        self.values[key] = value

    def span(self, first: bytes, end: bytes) -> list[bytes]:
        return self.keys[bisect_left(self.keys, first) : bisect_left(self.keys, end)]

    def remove(self, keys: Sequence[bytes]) -> None:
        """Remove consecutive keys, all of which exist."""
        if keys:
            position = bisect_left(self.keys, keys[0])
            del self.keys[position : position + len(keys)]
        for key in keys:
            del self.values[key]

    def bytes_held(self) -> int:
        return sum(len(key) + len(value) for key, value in self.values.items())

    def copy(self) -> _Table:
        return _Table(list(self.keys), dict(self.values))


@dataclass(slots=True)
class _Image:
    """Image of all families at one moment, with the bulk files and their deleted keys."""

    tables: dict[Family, _Table] = field(default_factory=lambda: {family: _Table() for family in Family})
    files: list[tuple[bytes, bytes]] = field(default_factory=list)
    """First and last key of each ingested file."""
    deleted_bytes: dict[bytes, int] = field(default_factory=dict)
    """Bulk deleted and not yet compacted, by key."""

    def apply(self, step: _Step) -> None:
        match step:
            case _Batch(operations):
                for operation in operations:
                    self._apply_operation(operation)
            case _Ingested(items):
                for key, value in items:
                    self.tables[Family.BULK].put(key, value)
                self.files.append((items[0][0], items[-1][0]))
            case _Compacted(Family.BULK, first, end):
                self._compact_bulk(first, end)
            case _Compacted():
                pass  # only deleted bulk has space to release

    def copy(self) -> _Image:
        tables = {family: table.copy() for family, table in self.tables.items()}
        return _Image(tables, list(self.files), dict(self.deleted_bytes))

    def _apply_operation(self, operation: Operation) -> None:
        table = self.tables[operation.family]
        match operation:
            case Put(_, key, value):
                table.put(key, value)
            case Delete(family, key):
                self._remove(family, [key] if key in table.values else [])
            case PutAll(_, keys, values):
                for key, value in zip(keys, values, strict=True):
                    table.put(key, value)
            case DeleteRange(family, first, end):
                self._remove(family, table.span(first, end))

    def _remove(self, family: Family, keys: list[bytes]) -> None:
        table = self.tables[family]
        if family is Family.BULK:
            self.deleted_bytes.update({key: len(key) + len(table.values[key]) for key in keys})
        table.remove(keys)

    def _compact_bulk(self, first: bytes, end: bytes) -> None:
        for key in [key for key in self.deleted_bytes if first <= key < end]:
            del self.deleted_bytes[key]
        keys = self.tables[Family.BULK].keys
        self.files = [
            (low, high)
            for low, high in self.files
            if high < first or low >= end or bisect_left(keys, low) < bisect_left(keys, high + b"\0")
        ]


class MemoryStore:
    """``Store`` in memory; threads as in the contract."""

    def __init__(self) -> None:
        """Start empty."""
        self._seen = _Image()
        self._durable = _Image()
        self._journal: list[_Step] = []
        self._next_failures: dict[Action, StoreFailed] = {}
        self._damaged: set[tuple[Family, bytes]] = set()
        self._unreadable: set[tuple[Family, bytes | None]] = set()
        self.failed_reads = 0
        """Reads refused since ``fail_reads`` was called."""
        self._fenced_by: StoreFailed | None = None
        self._closed = False
        self._next_marks: Marks = (0, 0)
        self._marks: Marks = (0, 0)
        self._marked: Marks = (0, 0)
        self.room = 1 << 62
        """Result of ``free_bytes``; a test may lower it."""
        self.stall = WriteStall.NONE
        """Result of ``write_stall``; a test may set it."""
        self.stall_s = 0.0
        """Result of ``write_stall_s``; a test may set it."""
        self.ready = False
        """Result of ``is_ready``."""
        self._lock = threading.Lock()  # protects all of the above; the longest hold is a copy of a slice

    def commit(
        self, bulk: Sequence[tuple[bytes, Value]], operations: Sequence[Operation], *, sync: bool = True
    ) -> None:
        """Ingest, write and sync; see ``Store.commit``."""
        self.ingest(bulk)
        self.write(operations)
        if sync:
            self.sync()

    def window(self) -> CommitWindow | None:
        """Return None; see ``Store.window``."""
        return None

    def ingest(self, items: Sequence[tuple[bytes, Value]]) -> None:
        """Add ``items`` to ``BULK``, durable at once; see ``Store.ingest``."""
        with self._lock:
            check_ingest(items, max((last for _, last in self._seen.files), default=None))
            self._begin_change("ingest")
            if items:
                self._do(_Ingested(tuple((key, _whole(value)) for key, value in items)))

    def write(self, operations: Sequence[Operation]) -> None:
        """Apply one batch; see ``Store.write``."""
        with self._lock:
            self._begin_change("write")
            if operations:
                self._do(_Batch(tuple(operations)))
                self._damaged -= {(each.family, each.key) for each in operations if isinstance(each, Put)}
                for each in operations:
                    if isinstance(each, PutAll):
                        self._damaged -= {(each.family, key) for key in each.keys}

    def sync(self) -> None:
        """Make all writes durable; see ``Store.sync``."""
        with self._lock:
            self._begin_change("sync")
            for step in self._journal:
                self._durable.apply(step)
            self._journal.clear()
            self._marks = self._next_marks

    def mark(self, marks: Marks) -> None:
        """Keep two numbers; see ``Store.mark``."""
        self._next_marks = marks

    def marked(self) -> Marks:
        """Return the marks from before the last ``reopen`` or ``crash``."""
        return self._marked

    def is_replica(self) -> bool:
        """Return False; see ``Store.is_replica``."""
        return False

    def rewrite(self, family: Family, wanted: Sequence[bytes] = ()) -> list[tuple[bytes, bytes]]:
        """Remove the damaged values of a family; see ``Store.rewrite``."""
        with self._lock:
            self._begin_change("write")
            self._refuse_unreadable(family, *(key for key in self._seen.tables[family].keys))
            gone = sorted(key for other, key in self._damaged if other is family)
            self._do(_Batch(tuple(Delete(family, key) for key in gone)))
            self._damaged -= {(family, key) for key in gone}
            return [(key, key + b"\0") for key in gone]

    def get_many(self, family: Family, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return values in the order of ``keys``; see ``Store.get_many``."""
        with self._lock:
            self._refuse_closed()
            self._refuse_unreadable(family, *keys)
            return [self._read(family, key) for key in keys]

    def prefetch(self, keys: Sequence[bytes]) -> None:
        """Check the call; see ``Store.prefetch``."""
        with self._lock:
            self._refuse_closed()

    def is_remote(self, keys: Iterable[bytes]) -> bool:
        """Return False: all values are here; see ``Store.is_remote``."""
        return False

    def remote_bytes(self) -> int:
        """Return 0: all values are here; see ``Store.remote_bytes``."""
        return 0

    def end_transfers(self) -> None:
        """Do nothing: there are none; see ``Store.end_transfers``."""

    def scan(
        self, family: Family, first: bytes, end: bytes, limit: int, *, reverse: bool = False
    ) -> list[tuple[bytes, bytes]]:
        """Return a bounded slice; see ``Store.scan``."""
        check_scan(first, end, limit)
        with self._lock:
            self._refuse_closed()
            keys = self._seen.tables[family].span(first, end)
            chosen = keys[: -limit - 1 : -1] if reverse else keys[:limit]
            self._refuse_unreadable(family, *chosen)
            return [(key, self._read(family, key) or b"") for key in chosen]

    def compact(self, family: Family, first: bytes, end: bytes) -> None:
        """Release the deleted keys of the range; see ``Store.compact``."""
        check_range(first, end)
        with self._lock:
            self._refuse_closed()
            self._refuse_fenced("compact")
            self._do(_Compacted(family, first, end))

    def bulk_keys(self, first: bytes, end: bytes, limit: int, *, here: bool = False) -> list[bytes]:
        """Return a bounded slice of keys; see ``Store.bulk_keys``."""
        check_scan(first, end, limit)
        with self._lock:
            self._refuse_closed()
            return self._seen.tables[Family.BULK].span(first, end)[:limit]

    def highest_keys(self) -> list[bytes]:
        """Return the last key of each ingested file."""
        with self._lock:
            self._refuse_closed()
            return [last for _, last in self._seen.files]

    def is_ready(self) -> bool:
        """Return ``ready``; a test may set it, so that small groups are committed on the loop."""
        return self.ready

    def live_bytes(self) -> int:
        """Return the bytes of all keys and values, and of bulk deleted but not compacted."""
        with self._lock:
            self._refuse_closed()
            held = sum(table.bytes_held() for table in self._seen.tables.values())
            return held + sum(self._seen.deleted_bytes.values())

    def free_bytes(self) -> int:
        """Return ``room``; a test may set it. A negative one simulates a failing device."""
        with self._lock:
            self._refuse_closed()
            if self.room < 0:
                raise StoreUnreadable("failure of statvfs, injected")
            return self.room

    def write_stall(self) -> WriteStall:
        """See ``Store.write_stall``."""
        with self._lock:
            self._refuse_closed()
            return self.stall

    def write_stall_s(self) -> float:
        """See ``Store.write_stall_s``."""
        with self._lock:
            self._refuse_closed()
            return self.stall_s

    def close(self) -> None:
        """Reject every later call; ``reopen`` and ``crash`` still work."""
        with self._lock:
            self._closed = True

    def reopen(self) -> MemoryStore:
        """Return the store as the next process finds it, after a stop or a kill.

        It has all writes, synced or not. This handle is closed.
        """
        with self._lock:
            self._closed = True
            successor = MemoryStore()
            successor._seen = self._seen.copy()
            successor._durable = self._durable.copy()
            successor._journal = list(self._journal)
            successor._damaged = set(self._damaged)
            successor._next_marks = successor._marks = successor._marked = self._marks
            return successor

    def crash(self, *, kept_batches: int = 0) -> MemoryStore:
        """Return the store as it is found after a power loss. This handle is closed.

        It has all synced and ingested data, and of the unsynced batches the first ``kept_batches``: a disk may have
        stored any number of them, but never a later one without those before it.
        """
        with self._lock:
            self._closed = True
            successor = MemoryStore()
            successor._damaged = set(self._damaged)
            successor._next_marks = successor._marks = successor._marked = self._marks
            image = self._durable.copy()
            kept = 0
            for step in self._journal:
                if isinstance(step, _Batch):
                    kept += 1
                    if kept > kept_batches:
                        continue
                image.apply(step)
            successor._seen = image
            successor._durable = image.copy()
            return successor

    def fail_next(self, action: Action, error: StoreFailed | None = None) -> None:
        """Make the next ``action`` raise ``error`` and do nothing; the store is fenced by it."""
        with self._lock:
            self._next_failures[action] = error or StoreFailed(action, "injected failure")

    def damage(self, family: Family, key: bytes) -> None:
        """Damage the value of ``key``, here and after a reopen, until it is put again.

        For the effect on reads see ``Store.get_many``.
        """
        with self._lock:
            self._damaged.add((family, key))

    def fail_reads(self, family: Family, key: bytes | None = None) -> None:
        """Let reads of ``key``, or all reads of the family, fail as with an unmounted disk.

        Until ``let_read``; a store that is reopened can be read.
        """
        with self._lock:
            self._unreadable.add((family, key))

    def let_read(self) -> None:
        """Let all reads work again."""
        with self._lock:
            self._unreadable.clear()

    def _refuse_unreadable(self, family: Family, *keys: bytes) -> None:
        if any((family, key) in self._unreadable for key in (None, *keys)):
            self.failed_reads += 1
            raise StoreUnreadable("injected I/O error", family=family)

    def _do(self, step: _Step) -> None:
        self._seen.apply(step)
        self._journal.append(step)

    def _begin_change(self, action: Action) -> None:
        self._refuse_closed()
        self._refuse_fenced(action)
        failure = self._next_failures.pop(action, None)
        if failure is not None:
            self._fenced_by = failure
            raise failure

    def _refuse_closed(self) -> None:
        if self._closed:
            raise StoreClosed

    def _refuse_fenced(self, action: str) -> None:
        if self._fenced_by is not None:
            raise StoreFailed(action, f"fenced: {self._fenced_by}")

    def _read(self, family: Family, key: bytes) -> bytes | None:
        value = self._seen.tables[family].values.get(key)
        if not value or (family, key) not in self._damaged:
            return value
        if family in {Family.BULK, Family.SMALL}:
            return value[:-1] + bytes([value[-1] ^ 1])
        raise StoreCorrupt(family, "injected damage", key=key)


def _whole(value: Value) -> bytes:
    return value if isinstance(value, bytes) else b"".join(value)
