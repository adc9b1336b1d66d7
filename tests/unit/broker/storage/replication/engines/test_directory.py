"""The engine in a directory."""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from errno import EIO, ENOSPC
from pathlib import Path

import pytest

from forebay.broker.storage.backup.errors import TargetFailed
from forebay.broker.storage.replication.engine import Engine, EngineAway, EngineFull
from forebay.broker.storage.replication.engines.directory import (
    ABANDONED_S,
    DIRECT_BYTES,
    RACES,
    TEMPORARY,
    DirectoryEngine,
)
from tests.support.storage.engine_conformance import EngineConformance
from tests.support.storage.journals import batch_of, read_all, take_over


class TestDirectoryEngine(EngineConformance):
    @pytest.fixture
    def engine(self, tmp_path: Path) -> Engine:
        return DirectoryEngine(tmp_path / "journal")


def test_records_are_files_that_sort_by_position_and_no_temporary_one_is_left(tmp_path: Path) -> None:
    engine = DirectoryEngine(tmp_path)
    for position in (10, 9, 10):
        engine.create(position, [b"x"])

    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == [
        "00000000000000000009",
        "00000000000000000010",
    ]


def test_a_temporary_file_that_a_writer_abandoned_is_removed_and_that_of_a_living_one_is_not(tmp_path: Path) -> None:
    old, new = tmp_path / ".new-old", tmp_path / ".new-new"
    for path in (old, new):
        path.touch()
    past = time.time() - ABANDONED_S - 10
    os.utime(old, (past, past))

    DirectoryEngine(tmp_path)

    assert not old.exists()
    assert new.exists()


def test_a_directory_that_is_gone_is_an_engine_that_is_unreachable_and_no_end_of_the_journal(tmp_path: Path) -> None:
    engine = DirectoryEngine(tmp_path / "journal")
    (tmp_path / "journal").rename(tmp_path / "elsewhere")

    with pytest.raises(EngineAway):
        engine.read(0)
    with pytest.raises(EngineAway):
        engine.create(0, [b"x"])


OPERATIONS: dict[str, Callable[[Engine], object]] = {
    "create": lambda engine: engine.create(1, [b"x"]),
    "read": lambda engine: engine.read(0),
    "peek": lambda engine: engine.peek(0),
    "sizes": lambda engine: list(engine.sizes(0, 9)),
    "replace": lambda engine: engine.replace(0, [b"x"]),
    "delete": lambda engine: engine.delete([0]),
    "create_named": lambda engine: engine.create_named("marks/1", b"x"),
    "read_named": lambda engine: engine.read_named("marks/0"),
    "files": lambda engine: engine.files(),
    "race": lambda engine: engine.race("x"),
    "end_races": lambda engine: engine.end_races(["x"]),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_directory_that_another_one_replaced_is_unreachable_and_returns_with_all_records(
    tmp_path: Path, operation: str
) -> None:
    """An unmounted file system leaves its mount point, an empty directory."""
    journal, away = tmp_path / "journal", tmp_path / "away"
    engine = DirectoryEngine(journal)
    engine.create(0, [b"first"])
    engine.create_named("marks/0", b"mark")
    journal.rename(away)
    (journal / "races").mkdir(parents=True)

    with pytest.raises(EngineAway, match="it may be unmounted"):
        OPERATIONS[operation](engine)

    assert [path.name for path in journal.rglob("*")] == ["races"]
    (journal / "races").rmdir()
    journal.rmdir()
    away.rename(journal)
    assert engine.read(0) == b"first"
    assert engine.read_named("marks/0") == b"mark"
    assert OPERATIONS[operation](engine) is not False


def test_an_append_whose_name_was_not_synced_is_confirmed_only_after_a_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = DirectoryEngine(tmp_path / "journal")
    owner = take_over(engine, b"a")
    record = tmp_path / "journal" / f"{owner.position:020d}"
    syncs: list[bool] = []
    sync = os.fsync

    def fail_once(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            syncs.append(record.exists())
            if len(syncs) == 1:
                raise OSError(EIO, "the disk failed")
        sync(handle)

    monkeypatch.setattr(os, "fsync", fail_once)
    with closing(owner):
        owner.append(batch_of(1))

    assert syncs == [True, True]
    assert read_all(engine) == [1]


def test_large_records_are_written_past_the_page_cache_several_at_a_time_and_small_ones_through_it(
    tmp_path: Path,
) -> None:
    engine = DirectoryEngine(tmp_path)
    records = {position: os.urandom(DIRECT_BYTES + position * 1_001) for position in range(8)}
    records[8] = os.urandom(DIRECT_BYTES - 1)

    def create(position: int) -> bool:
        record = memoryview(records[position])
        return engine.create(position, [record[:53], record[53:]])

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(create, records))

    assert all(engine.read(position) == record for position, record in records.items())
    assert not any(path.name.startswith(TEMPORARY) for path in tmp_path.iterdir())
    assert not engine.create(0, [bytes(DIRECT_BYTES)])
    engine.replace(0, [bytes(DIRECT_BYTES + 1)])
    assert engine.read(0) == bytes(DIRECT_BYTES + 1)


@pytest.mark.parametrize("size", [DIRECT_BYTES, DIRECT_BYTES - 1], ids=["large", "small"])
def test_a_record_is_durable_before_it_has_its_name(tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = DirectoryEngine(tmp_path)
    calls: list[str] = []

    def noting(name: str) -> None:
        call = getattr(os, name)

        def note(*args: object, **options: object) -> object:
            calls.append(name)
            return call(*args, **options)

        monkeypatch.setattr(os, name, note)

    for name in ("write", "fsync", "fdatasync", "link"):
        noting(name)
    engine.create(0, [bytes(size)])

    link = calls.index("link")
    assert calls[link - 1] in {"fsync", "fdatasync"}
    assert calls[link + 1 :] == ["fsync"]


@pytest.mark.parametrize("size", [DIRECT_BYTES, DIRECT_BYTES - 1], ids=["large", "small"])
def test_a_record_that_could_not_be_written_leaves_nothing_and_is_created_later(
    tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = DirectoryEngine(tmp_path)

    def fail(_: int) -> None:
        raise OSError(ENOSPC, "the disk is full")

    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, fail)
    with pytest.raises(EngineFull):
        engine.create(0, [bytes(size)])

    assert [path for path in tmp_path.iterdir() if path.is_file()] == []
    monkeypatch.undo()
    assert engine.create(0, [bytes(size)])
    assert engine.read(0) == bytes(size)


def test_nothing_is_written_below_a_mount_point_whose_directory_was_unmounted_during_a_transfer(tmp_path: Path) -> None:
    journal, away = tmp_path / "journal", tmp_path / "away"
    engine = DirectoryEngine(journal)
    files = engine.files()
    files.put("1/first", [b"x"])

    def chunks() -> Iterator[bytes]:
        journal.rename(away)
        journal.mkdir()
        yield b"y"

    changes: list[Callable[[], None]] = [
        lambda: files.put("1/second", chunks()),
        lambda: files.put("1/third", [b"z"]),
        lambda: files.delete(["1/first"]),
        files.sync,
    ]
    for change in changes:
        with pytest.raises(TargetFailed, match="it may be unmounted"):
            change()

    assert list(journal.rglob("*")) == []
    journal.rmdir()
    with pytest.raises(TargetFailed, match="it may be unmounted"):
        files.put("1/third", [b"z"])
    away.rename(journal)
    files.put("1/third", [b"z"])
    assert sorted(files.names()) == ["1/first", "1/third"]


@pytest.mark.parametrize("exists", [False, True], ids=["no directory", "an empty directory"])
def test_a_journal_that_must_exist_is_not_created(tmp_path: Path, exists: bool) -> None:
    """The directory of a mount is there before the mount."""
    journal = tmp_path / "mount" / "journal"
    if exists:
        journal.mkdir(parents=True)

    with pytest.raises(FileNotFoundError, match="There is no journal, it may not be mounted"):
        DirectoryEngine(journal, creates=False)

    assert [path.name for path in tmp_path.rglob("*")] == (["mount", "journal"] if exists else [])


def test_a_journal_that_exists_is_opened_also_where_its_empty_folder_was_left_out_of_a_copy(tmp_path: Path) -> None:
    DirectoryEngine(tmp_path).create(0, [b"first"])
    (tmp_path / RACES).rmdir()

    engine = DirectoryEngine(tmp_path, creates=False)

    assert engine.read(0) == b"first"
    assert engine.race("x")


def test_the_free_bytes_are_those_of_the_device(tmp_path: Path) -> None:
    engine = DirectoryEngine(tmp_path / "journal")
    total = shutil.disk_usage(tmp_path).total

    free = engine.free_bytes()
    (tmp_path / "journal").rename(tmp_path / "elsewhere")

    assert free is not None
    assert 0 < free < total
    with pytest.raises(EngineAway):
        engine.free_bytes()
