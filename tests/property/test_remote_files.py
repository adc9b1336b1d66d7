"""Histories of a broker that starts on an empty disk and serves before it has all pages.

Owner A appends, deletes, releases space and makes checkpoints, which replace those that broker B reads from. Files of
them, and their manifests, are damaged in the journal. B is killed, falls behind, loads again. Whenever B has read the
journal to its end, as an owner has, every live page can be read, and no other one; of what is damaged once A has made
another checkpoint. At the end it has all of them, and the space of no other.
"""

from __future__ import annotations

import tempfile
import threading
from contextlib import closing
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from forebay.broker.storage.backup.manifest import manifest_name
from forebay.broker.storage.errors import StoreUnreadable
from forebay.broker.storage.records.pages.page import ALL_BULK, BULK_PAGE
from forebay.broker.storage.records.store import HIGHEST
from forebay.broker.storage.replication.checkpoints import job as jobs
from forebay.broker.storage.replication.checkpoints.damage_notes import DAMAGED
from forebay.broker.storage.replication.checkpoints.errors import CheckpointDamaged
from forebay.broker.storage.replication.checkpoints.files import CheckpointFiles
from forebay.broker.storage.replication.checkpoints.loading import Pages, is_loaded, load
from forebay.broker.storage.replication.checkpoints.manifests import load_manifest
from forebay.broker.storage.replication.checkpoints.mark import Mark, Marks
from forebay.broker.storage.replication.engines.directory import DirectoryEngine
from forebay.broker.storage.replication.history import ReaderPosition
from forebay.broker.storage.replication.reader import Reader, Trimmed
from forebay.broker.storage.replication.replica import Replica
from forebay.broker.storage.store.bulk import remote as remotes
from forebay.broker.storage.store.contract import DeleteRange, Family, Put
from forebay.broker.storage.store.rocks.store import RocksStore
from tests.support.calls.eventually import until
from tests.support.storage.checkpointed import Checkpointed, page_of
from tests.support.storage.disk_directory import SMALL_STORE
from tests.support.storage.memory_folder import memory_folder

SIZES: Final = st.lists(st.sampled_from([10, 5_000, 300_000]), min_size=1, max_size=4)
"""Bytes of the pages of one file."""
PLACES: Final = st.integers(0, 99)
"""Of pages, modulo their number."""
RANGES: Final = st.tuples(PLACES, st.integers(1, 6))
"""First page and number of pages."""
STEPS: Final = st.lists(
    st.one_of(
        st.tuples(st.just("append"), SIZES),
        st.tuples(st.just("delete"), RANGES),
        st.tuples(st.just("release")),
        st.tuples(st.just("checkpoint")),
        st.tuples(st.just("damage"), PLACES),
        st.tuples(st.just("damage the manifest")),
        st.tuples(st.just("follow")),
        st.tuples(st.just("read"), PLACES),
        st.tuples(st.just("replace"), RANGES),
        st.tuples(st.just("release in B")),
        st.tuples(st.just("kill B")),
        st.tuples(st.just("empty the disk of B")),
    ),
    max_size=20,
)


class Run:
    """One history."""

    def __init__(self, folder: Path) -> None:
        self.engine = DirectoryEngine(folder / "journal")
        self.a = Checkpointed(self.engine, folder / "a", filled=False)
        self._folder = folder
        self._disks = 0
        self._b: Replica | None = None
        self._reader = Reader(self.engine, ReaderPosition())
        self._has_no_manifest: Mark | None = None
        """Checkpoint whose manifest is damaged."""
        self.pages: list[bytes | None] = []
        """Pages by their index; None for a deleted one."""

    def do(self, kind: str, *given: Any) -> None:
        """Do one step."""
        match kind:
            case "append":
                self.append(*given)
            case "delete":
                self.delete(*given[0])
            case "replace":
                self.replace(*given[0])
            case "release":
                self.a.store.compact(Family.BULK, *ALL_BULK)
            case "checkpoint":
                self.checkpoint()
            case "damage":
                self.damage(*given)
            case "damage the manifest":
                self.damage_manifest()
            case "follow":
                self.follow()
            case "read":
                self.read(*given)
            case "release in B":
                self.release()
            case "kill B":
                self.close_b()
            case "empty the disk of B":
                self.close_b()
                self._disks += 1

    def append(self, sizes: list[int]) -> None:
        """Append pages as one file."""
        first = len(self.pages)
        self.pages += [page_of(_number(first + at), bytes([at]) * size) for at, size in enumerate(sizes)]
        highest = HIGHEST.put(HIGHEST.key(), (_number(len(self.pages) - 1), len(self.pages)))
        items = [(_key(index), self.pages[index] or b"") for index in range(first, len(self.pages))]
        self.a.store.commit(items, [highest])

    def delete(self, place: int, count: int) -> None:
        """Delete a range of pages."""
        first = place % len(self.pages)
        end = min(first + count, len(self.pages))
        self.a.store.commit([], [DeleteRange(Family.BULK, _key(first), _key(end))])
        self.pages[first:end] = [None] * (end - first)

    def replace(self, place: int, count: int) -> None:
        """Replace the checkpoint, after a deletion that B has applied: it does not load the new one."""
        self.delete(place, count)
        self.a.store.compact(Family.BULK, *ALL_BULK)
        self.follow()
        self.checkpoint()

    def checkpoint(self) -> None:
        """Make a checkpoint, unless nothing is new."""
        marks = Marks(self.engine)
        newest = marks.refresh()
        if (newest.position if newest is not None else 0) < self.a.store.place().position:
            self.a.check_point()

    def damage(self, place: int) -> None:
        """Damage a file with pages of the newest checkpoint, if it has one."""
        files, newest = self.engine.files(), Marks(self.engine).refresh()
        assert newest is not None
        if self._has_no_manifest == newest:
            return
        pieces = [piece for piece in load_manifest(files, newest).pieces if piece.path.endswith(".pages")]
        if pieces:
            piece = pieces[place % len(pieces)]
            files.put(piece.name, [b"\xff" * piece.stored_bytes])

    def damage_manifest(self) -> None:
        """Damage the manifest of the newest checkpoint."""
        self._has_no_manifest = newest = Marks(self.engine).refresh()
        assert newest is not None
        self.engine.files().put(manifest_name(newest.id), [b"\xff" * 100])

    def renew(self) -> None:
        """Make another checkpoint, which writes the files again that B has found damaged."""
        self.a.store.commit([], [Put(Family.META, b"later", b"1")])
        self.a.check_point()

    def follow(self) -> Replica:
        """Let B read to the end; it loads the newest checkpoint where it has no store, or is behind."""
        while True:
            try:
                return self._followed()
            except Trimmed:
                self.close_b()
                self.load()

    def _followed(self) -> Replica:
        if self._b is None:
            if not is_loaded(self.disk):
                self.load()
            files = CheckpointFiles(self.engine)
            self._b = replica = Replica(RocksStore(self.disk, settings=SMALL_STORE, remote=files))
            files.applied = lambda: replica.place.position
            self._reader = Reader(self.engine, self._b.place)
        self._reader.check()
        for position, header, batch in self._reader.read():
            if position == 0:
                self._b.journal = header.owner.hex()
            if batch is not None:
                self._b.apply(batch, self._reader.place)
        return self._b

    def load(self) -> None:
        """Load the newest checkpoint, if there is one."""
        newest = Marks(self.engine).refresh()
        if newest is not None and newest == self._has_no_manifest:
            with pytest.raises(CheckpointDamaged, match="its manifest"):
                load(self.engine, newest, self.disk, threading.Event(), pages=Pages.LATER)
            self.renew()
            newest = Marks(self.engine).refresh()
        if newest is not None:
            load(self.engine, newest, self.disk, threading.Event(), pages=Pages.LATER)

    @property
    def disk(self) -> Path:
        """Directory of B."""
        return self._folder / f"b{self._disks}"

    def read(self, place: int) -> None:
        """Read a page in B."""
        index = place % len(self.pages)
        try:
            found = self.follow().store.get_many(Family.BULK, [_key(index)])
        except StoreUnreadable:
            assert self.engine.names(DAMAGED) or self._has_no_manifest == Marks(self.engine).refresh()
            self.renew()
            found = self.follow().store.get_many(Family.BULK, [_key(index)])
        assert found == [self.pages[index]]

    def release(self) -> None:
        """Release the space of deleted pages in B."""
        self.follow().store.compact(Family.BULK, *ALL_BULK)

    def close_b(self) -> None:
        """End B."""
        if self._b is not None:
            self._b.store.close()
            self._b = None

    def check_end(self) -> None:
        """Check what B has once all has arrived, where it is opened without the journal.

        The space of what arrives after the last release is released as it arrives.
        """
        self.release()
        self.close_b()
        with patch.object(remotes, "THREADS", 2), patch.object(remotes, "RETRY_S", 0.01):
            self.follow()
            until(self._has_arrived)
        self.close_b()
        with closing(RocksStore(self.disk, settings=SMALL_STORE)) as store:
            live = [_key(index) for index, page in enumerate(self.pages) if page is not None]
            assert store.bulk_keys(*ALL_BULK, 1_000) == live
            keys = [_key(index) for index in range(len(self.pages))]
            assert store.get_many(Family.BULK, keys) == self.pages
        assert not list((self.disk / "bulk").glob("*.draft"))
        sizes = sum(len(page) for page in self.pages if page is not None)
        files = [path for path in (self.disk / "bulk").iterdir() if path.suffix == ".pages"]
        assert sum(path.stat().st_blocks * 512 for path in files) <= sizes + len(files) * 20_000 + len(live) * 4_096

    def _has_arrived(self) -> bool:
        """Return whether B has all files, and write those again that it has found damaged."""
        if self.engine.names(DAMAGED) or self._has_no_manifest == Marks(self.engine).refresh():
            self.renew()
        return self.follow().store.remote_bytes() == 0


def _number(index: int) -> int:
    return (1 << 40) + index


def _key(index: int) -> bytes:
    return BULK_PAGE.key(_number(index), 1, 0)


@settings(max_examples=20)
@example([("replace", (0, 1)), ("read", 1)])
@example([("replace", (0, 2)), ("read", 3)])
@example([("damage", 0), ("read", 0), ("damage", 0), ("empty the disk of B",), ("delete", (1, 1)), ("damage", 1)])
@example([("damage the manifest",), ("empty the disk of B",), ("read", 1)])
@example([("damage the manifest",), ("kill B",), ("read", 1), ("checkpoint",), ("read", 3)])
@example([("damage", 0), ("damage the manifest",), ("replace", (0, 2)), ("read", 3), ("damage the manifest",)])
@given(STEPS)
def test_a_broker_reads_each_live_page_before_its_disk_has_them_and_has_them_all_in_the_end(
    steps: list[tuple[Any, ...]],
) -> None:
    with (
        tempfile.TemporaryDirectory(dir=memory_folder()) as folder,
        patch.object(jobs, "inspect", lambda *_: ""),
        patch.object(remotes, "THREADS", 0),
    ):
        run = Run(Path(folder))
        try:
            for sizes in ([300_000, 10], [5_000], [10, 300_000, 300_000]):
                run.append(sizes)
            run.checkpoint()
            run.read(2)  # B knows this checkpoint from here on
            for step in steps:
                run.do(*step)
            run.check_end()
        finally:
            run.close_b()
            run.a.store.close()
