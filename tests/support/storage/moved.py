"""Stores that move into a journal and back, and an engine that is killed at a chosen write."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path

from forebay.broker.storage.backup.target import Target
from forebay.broker.storage.records.journal_position import JOURNAL_POSITION
from forebay.broker.storage.records.store import START
from forebay.broker.storage.replication.checkpoints.loading import load_newest
from forebay.broker.storage.replication.checkpoints.mark import Marks
from forebay.broker.storage.replication.engine import Engine
from forebay.broker.storage.replication.engines.memory import MemoryEngine, MemoryTarget
from forebay.broker.storage.replication.moves.journal_export import Exported, export_store
from forebay.broker.storage.replication.moves.journal_import import Imported, import_store
from forebay.broker.storage.replication.moves.shard_removal import Removed, checked_removal
from forebay.broker.storage.replication.pieces import Piece
from forebay.broker.storage.replication.record import decode_header
from forebay.broker.storage.replication.shard_directory import ShardDirectory
from forebay.broker.storage.replication.store import ReplicatedStore
from forebay.broker.storage.store.contract import Family, Store
from forebay.broker.storage.store.rocks.store import RocksStore
from tests.support.storage.checkpointed import content_of, own
from tests.support.storage.disk_directory import SMALL_STORE, fill

SILENCE_S = 10.0
AT_US = 1_700_000_000_000_000


class Killed(BaseException):
    """The process ends here."""


class _Files(MemoryTarget):
    def __init__(self, write: Callable[[str], None]) -> None:
        super().__init__()
        self._write = write

    def put(self, name: str, chunks: Iterable[bytes | memoryview]) -> None:
        """See ``Target.put``."""
        self._write(name.rpartition("/")[2])
        super().put(name, chunks)


class KillingEngine(MemoryEngine):
    """Ends the process before or after the write of a name: ``IMPORT``, ``EXPORT``, ``manifest``, ``marks``…"""

    def __init__(self) -> None:
        super().__init__()
        self.killed_before = ""
        self.killed_after = ""
        self._written = _Files(self._before)

    def files(self) -> Target:
        """See ``Engine.files``."""
        return self._written

    def create(self, position: int, pieces: Sequence[Piece]) -> bool:
        """See ``Engine.create``."""
        kind = decode_header(b"".join(pieces)).kind.name
        self._before(kind)
        created = super().create(position, pieces)
        self._after(kind)
        return created

    def create_named(self, name: str, content: bytes) -> bool:
        """See ``Engine.create_named``."""
        folder = name.partition("/")[0]
        self._before(folder)
        created = super().create_named(name, content)
        self._after(folder)
        return created

    def _before(self, name: str) -> None:
        if name == self.killed_before:
            raise Killed

    def _after(self, name: str) -> None:
        if name == self.killed_after:
            raise Killed


class Waits:
    """Clock of an export that advances while it waits, and calls back."""

    def __init__(self, called: Callable[[], object] = lambda: None) -> None:
        self.now = 100.0
        self._called = called

    def clock(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += max(seconds, 1.0)
        self._called()


def filled(directory: Path) -> Path:
    """Fill a directory, as a broker without a journal."""
    with closing(RocksStore(directory, settings=SMALL_STORE)) as store:
        fill(store)
    return directory


def moved_in(engine: Engine, directory: Path) -> Imported:
    """Import a directory."""
    return import_store(engine, directory, clock_us=lambda: AT_US, monotonic=time.monotonic)


def moved_out(engine: Engine, into: Path, waits: Waits | None = None) -> Exported:
    """Export a journal."""
    waits = waits or Waits()
    return export_store(engine, into, silence_s=SILENCE_S, host="here", clock=waits.clock, wait=waits.wait)


def removed(
    fleet: ShardDirectory,
    engine: Engine | None,
    folder: Path,
    waits: Waits | None = None,
    *,
    deletes_journal: bool = False,
    before_removal: Callable[[], object] = lambda: None,
) -> Removed:
    """Remove the shard ``b`` of a fleet."""
    waits = waits or Waits()
    folder.mkdir()
    with checked_removal(
        fleet,
        engine,
        "b",
        folder,
        fleet="memory://",
        silence_s=SILENCE_S,
        clock=waits.clock,
        clock_us=lambda: AT_US,
        wait=waits.wait,
    ) as removal:
        before_removal()
        return removal.remove(deletes_journal=deletes_journal)


def own_new(engine: Engine, directory: Path) -> ReplicatedStore:
    """Take a journal over in an empty directory, as a broker does that starts."""
    load_newest(engine, Marks(engine), directory, threading.Event())
    return own(engine, directory)


def data_of(store: Store) -> dict[Family, dict[bytes, bytes]]:
    """The content of a store but its start count and its position in a journal."""
    content = {family: dict(found) for family, found in content_of(store).items()}
    for kind in (START, JOURNAL_POSITION):
        content[Family.META].pop(kind.key(), None)
    return content


def data_in(directory: Path) -> dict[Family, dict[bytes, bytes]]:
    """The same of a directory."""
    with closing(RocksStore(directory, settings=SMALL_STORE)) as store:
        return data_of(store)
