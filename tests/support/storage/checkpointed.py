"""The owner of a journal with a filled store, and its checkpoints step by step."""

from __future__ import annotations

import itertools
import threading
import time
from pathlib import Path
from typing import Final

from forebay.broker.core.backups.values import BackupSummary
from forebay.broker.storage.records.header import Header
from forebay.broker.storage.replication.checkpoints.files import CheckpointFiles
from forebay.broker.storage.replication.checkpoints.mark import Mark, Marks
from forebay.broker.storage.replication.checkpoints.source import CheckpointSource, checkpoints_of_owner
from forebay.broker.storage.replication.engine import Engine
from forebay.broker.storage.replication.engines.directory import DirectoryEngine
from forebay.broker.storage.replication.followers.follower import Follower, Takeover
from forebay.broker.storage.replication.followers.upkeep import CheckpointFailed
from forebay.broker.storage.replication.reader import Reader
from forebay.broker.storage.replication.replica import Replica
from forebay.broker.storage.replication.store import ReplicatedStore
from forebay.broker.storage.store.contract import Family, Store
from forebay.broker.storage.store.rocks.store import RocksStore
from forebay.page.crc32 import crc32
from tests.support.storage.disk_directory import SMALL_STORE, fill
from tests.support.storage.jobs import run

AT_US: Final = 1_700_000_000_000_000


def own(engine: Engine, directory: Path) -> ReplicatedStore:
    """Take a journal over in a directory."""
    replica = Replica(RocksStore(directory, settings=SMALL_STORE))
    reader = Reader(engine, replica.place)
    owner = Follower(reader, replica, directory, Takeover(0.0, "here:1"), time.monotonic).follow(threading.Event())
    assert owner is not None
    return ReplicatedStore(replica, owner, engine)


def follow(engine: Engine, directory: Path) -> RocksStore:
    """Return the store of a follower that has read to the end."""
    files = CheckpointFiles(engine)
    replica = Replica(RocksStore(directory, settings=SMALL_STORE, remote=files))
    files.applied = lambda: replica.place.position
    reader = Reader(engine, replica.place)
    for position, header, batch in reader.read():
        if position == 0:
            replica.journal = header.owner.hex()
        if batch is not None:
            replica.apply(batch, reader.place)
    return replica.store


class Checkpointed:
    """A filled store of an owner."""

    def __init__(self, engine: Engine, directory: Path, *, filled: bool = True) -> None:
        self.engine: Final = engine
        self.directory: Final = directory
        self.store = own(engine, directory)
        if filled:
            fill(self.store)
        seconds = itertools.count(1)
        self.source: CheckpointSource = checkpoints_of_owner(
            self.store,
            directory,
            1 << 20,
            clock_us=lambda: AT_US + next(seconds) * 1_000_000,
            monotonic=time.monotonic,
            failed=CheckpointFailed,
        )

    @classmethod
    def with_checkpoint(cls, folder: Path) -> Checkpointed:
        """One with a checkpoint of all that it has, whose journal is a directory."""
        made = cls(DirectoryEngine(folder / "journal"), folder / "a")
        made.check_point()
        return made

    def close(self) -> None:
        """End the owner."""
        self.store.close()

    def newest(self) -> Mark:
        """The mark of the newest checkpoint."""
        mark = Marks(self.engine).refresh()
        assert mark is not None
        return mark

    def check_point(self) -> BackupSummary:
        """Make a checkpoint."""
        return run(self.source.job())


class Stop(threading.Event):
    """Set after some looks."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self._left = looks

    def is_set(self) -> bool:
        """See ``threading.Event``."""
        self._left -= 1
        return self._left < 0


def page_of(number: int, body: bytes = b"page") -> bytes:
    """A stored page."""
    return Header(b"s" * 16, 1, 0, number, 0, 1, 0, crc32(body)).encode() + body


def content_of(store: Store) -> dict[Family, list[tuple[bytes, bytes]]]:
    """Everything in a store."""
    return {family: store.scan(family, b"", b"\xff" * 64, 100_000) for family in Family}
