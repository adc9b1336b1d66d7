"""Engine in memory for tests, with injected outages and late outcomes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from forebay.broker.storage.backup.target import Target
from forebay.broker.storage.replication.engine import PROBE_RACES, EngineAway, EngineFull
from forebay.broker.storage.replication.pieces import Piece
from forebay.broker.storage.replication.record import HEADER_BYTES


class MemoryTarget:
    """``Target`` in memory."""

    reads_at_once: int = 4

    def __init__(self) -> None:
        """Start empty."""
        self.content: dict[str, bytes] = {}

    def names(self, prefix: str = "") -> Iterator[str]:
        """See ``Target.names``."""
        yield from [name for name in self.content if name.startswith(prefix)]

    def put(self, name: str, chunks: Iterable[bytes | memoryview]) -> None:
        """See ``Target.put``."""
        self.content[name] = b"".join(bytes(chunk) for chunk in chunks)

    def get(self, name: str) -> Iterator[bytes]:
        """See ``Target.get``."""
        if name not in self.content:
            raise FileNotFoundError(name)
        yield self.content[name]

    def delete(self, names: Iterable[str]) -> None:
        """See ``Target.delete``."""
        for name in names:
            self.content.pop(name, None)

    def sync(self) -> None:
        """See ``Target.sync``."""


class MemoryEngine:
    """``Engine`` in memory, shared by the writers of a test."""

    def __init__(self) -> None:
        """Start empty."""
        self.records: dict[int, bytes] = {}
        self.address = "memory://"
        self.durability = "in memory"
        self.races = PROBE_RACES
        self.atomic = True
        """False makes both of two writers at one position succeed, as stores without conditional creation do."""
        self.before_create: Callable[[int, bytes], None] = lambda position, record: None
        """Called before a record is added, outside of the lock."""
        self.before_trim: Callable[[int], None] = lambda position: None
        """Called before a record is replaced or deleted."""
        self.named: dict[str, bytes] = {}
        self.lost_answers = 0
        """Number of next records that are added, and whose answer is lost."""
        self.away = False
        """True while no call is answered."""
        self.free: int | None = None
        """Free bytes that it reports."""
        self.full = False
        """True while no record can be added."""
        self._races: set[str] = set()
        self._files: Final = MemoryTarget()
        self._lock = threading.Lock()  # protects the records; held for one look-up

    def create(self, position: int, pieces: Sequence[Piece]) -> bool:
        """See ``Engine.create``."""
        record = b"".join(pieces)
        self.before_create(position, record)
        self._answer()
        if self.full:
            raise EngineFull("it has no room")
        with self._lock:
            if position in self.records and self.atomic:
                return False
            self.records[position] = record
            lost = self.lost_answers > 0
            self.lost_answers -= lost
        if lost:
            raise EngineAway("the answer was lost")
        return True

    def read(self, position: int) -> bytes | None:
        """See ``Engine.read``."""
        self._answer()
        return self.records.get(position)

    def peek(self, position: int) -> bytes | None:
        """See ``Engine.peek``."""
        record = self.read(position)
        return record[:HEADER_BYTES] if record is not None else None

    def sizes(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """See ``Engine.sizes``."""
        self._answer()
        with self._lock:
            found = [(at, len(record)) for at, record in self.records.items() if first <= at < end]
        yield from sorted(found)

    def replace(self, position: int, pieces: Sequence[Piece]) -> None:
        """See ``Engine.replace``."""
        self.before_trim(position)
        self._answer()
        with self._lock:
            self.records[position] = b"".join(pieces)

    def delete(self, positions: Sequence[int]) -> None:
        """See ``Engine.delete``."""
        for position in positions:
            self.before_trim(position)
            self._answer()
            with self._lock:
                self.records.pop(position, None)

    def reclaim(self, stop: threading.Event) -> None:
        """Do nothing: a deletion releases the space; see ``Engine.reclaim``."""

    def index(self) -> None:
        """Do nothing: names are listed; see ``Engine.index``."""

    def create_named(self, name: str, content: bytes) -> bool:
        """See ``Engine.create_named``."""
        self._answer()
        with self._lock:
            if name in self.named:
                return False
            self.named[name] = content
        return True

    def read_named(self, name: str) -> bytes | None:
        """See ``Engine.read_named``."""
        self._answer()
        return self.named.get(name)

    def put_named(self, name: str, content: bytes) -> None:
        """See ``Engine.put_named``."""
        self._answer()
        with self._lock:
            self.named[name] = content

    def delete_named(self, name: str) -> None:
        """See ``Engine.delete_named``."""
        self._answer()
        with self._lock:
            self.named.pop(name, None)

    def names(self, folder: str) -> list[str]:
        """See ``Engine.names``."""
        self._answer()
        with self._lock:
            return sorted(name for name in self.named if name.startswith(f"{folder}/"))

    def files(self) -> Target:
        """See ``Engine.files``."""
        return self._files

    def free_bytes(self) -> int | None:
        """See ``Engine.free_bytes``."""
        self._answer()
        return self.free

    def race(self, name: str) -> bool:
        """See ``Engine.race``."""
        self._answer()
        with self._lock:
            won = name not in self._races or not self.atomic
            self._races.add(name)
        return won

    def end_races(self, names: Sequence[str]) -> None:
        """See ``Engine.end_races``."""
        with self._lock:
            self._races.difference_update(names)

    def _answer(self) -> None:
        if self.away:
            raise EngineAway("it is switched off")
