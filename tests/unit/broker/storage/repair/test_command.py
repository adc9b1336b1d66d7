"""The tools for a directory whose broker has stopped, on a disk that does not give everything back."""

from __future__ import annotations

import errno
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forebay.broker.core.partition.log import Head, Tail
from forebay.broker.core.settings import DEFAULTS
from forebay.broker.core.writes import PutHead, PutSink, PutTail, SinkRecord
from forebay.broker.storage.errors import StoreLocked
from forebay.broker.storage.permissions import close_to_others
from forebay.broker.storage.recovery import recover
from forebay.broker.storage.repair.command import repair, verify
from forebay.broker.storage.store.rocks.store import RocksStore
from tests.support.pages.stored_pages import bulk, page, put

RECORD = SinkRecord(1, "orders", "abc", replace(DEFAULTS), 7)


def filled(directory: Path) -> None:
    """A directory with three pages in files."""
    store = RocksStore(directory)
    journal = recover(store).journal
    entries = [replace(bulk(base), size=len(page(bulk(base)).body.data)) for base in range(3)]
    put(journal, entries)
    size = sum(entry.size for entry in entries)
    journal.commit([], [PutSink(RECORD, fresh=True), PutHead(1, 0, Head()), PutTail(1, 0, Tail(3, size, 3))])
    store.close()


@pytest.fixture
def bad_sector(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A directory with one bulk file of which nothing but its table can be read."""
    directory = tmp_path / "data"
    filled(directory)
    [path] = (directory / "bulk").iterdir()
    size = path.stat().st_size
    real = os.pread

    def pread(handle: int, count: int, at: int) -> bytes:
        link = os.readlink(f"/proc/self/fd/{handle}")
        if link.startswith(str(directory)) and link.endswith(".pages") and at > 60 and at + count < size - 60:
            raise OSError(errno.EIO, "Input/output error")
        return real(handle, count, at)

    monkeypatch.setattr(os, "pread", pread)
    return directory


@pytest.mark.slow
def test_verify_reports_pages_that_the_disk_does_not_return(bad_sector: Path) -> None:
    report = verify(bad_sector)

    [orders] = report.partitions
    assert not report.clean
    assert orders.damaged_pages > 0


@pytest.mark.slow
def test_repair_saves_the_rest_of_a_directory_with_a_part_that_cannot_be_read(bad_sector: Path) -> None:
    into = bad_sector.parent / "into"

    repair(bad_sector, into)

    assert verify(into).partitions[0].damaged_pages == 0


@pytest.mark.slow
def test_a_directory_that_cannot_be_written_is_verified_and_repaired_without_a_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, into = tmp_path / "data", tmp_path / "into"
    filled(directory)
    real = os.open

    def opened(path: Any, flags: int, *more: Any, **others: Any) -> int:
        if str(path).endswith(".pages") and flags & os.O_RDWR and ".into.repairing/data/" not in str(path):
            raise OSError(errno.EROFS, "Read-only file system", str(path))
        return real(path, flags, *more, **others)

    monkeypatch.setattr(os, "open", opened)

    assert verify(directory).clean
    report = repair(directory, into)
    assert report.clean
    assert [one.pages for one in verify(into).partitions] == [one.pages for one in report.partitions] == [3]


@pytest.mark.slow
def test_files_that_a_repair_copied_are_on_the_disk_before_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, into = tmp_path / "data", tmp_path / "more" / "into"
    filled(directory)
    real = os.fsync
    synced: set[int] = set()

    def fsync(handle: int) -> None:
        synced.add(os.fstat(handle).st_ino)
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)

    repair(directory, into)

    needed = [*(into / "bulk").iterdir(), into / "bulk", into, into.parent, tmp_path]
    assert {path.name for path in needed if path.stat().st_ino not in synced} == set()


def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the disk become full while pages are copied."""

    def pwrite(handle: int, part: bytes, at: int) -> int:
        assert "into" in os.readlink(f"/proc/self/fd/{handle}")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("forebay.broker.storage.repair.salvage.os.pwrite", pwrite)


@pytest.mark.slow
def test_a_repair_on_a_full_disk_leaves_nothing_behind_and_can_be_repeated(tmp_path: Path) -> None:
    directory, into = tmp_path / "data", tmp_path / "into"
    filled(directory)

    with pytest.MonkeyPatch.context() as patch:
        full_disk(patch)
        with pytest.raises(OSError, match="No space left on device"):
            repair(directory, into)

    assert list(tmp_path.iterdir()) == [directory]
    assert repair(directory, into).clean
    assert verify(into).clean


@pytest.mark.slow
def test_an_interrupted_repair_leaves_nothing_behind(tmp_path: Path) -> None:
    directory, into = tmp_path / "data", tmp_path / "into"
    filled(directory)

    def interrupt(total: int, done: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        repair(directory, into, interrupt)

    assert list(tmp_path.iterdir()) == [directory]


@pytest.mark.slow
def test_a_repair_of_a_directory_in_use_leaves_nothing_behind(tmp_path: Path) -> None:
    directory, into = tmp_path / "data", tmp_path / "into"
    opened = RocksStore(directory)
    try:
        with pytest.raises(StoreLocked):
            repair(directory, into)
    finally:
        opened.close()

    assert list(tmp_path.iterdir()) == [directory]


@pytest.mark.slow
def test_a_directory_that_is_made_during_a_repair_is_left_alone(tmp_path: Path) -> None:
    directory, into = tmp_path / "data", tmp_path / "into"
    filled(directory)

    def make(total: int, done: int) -> None:
        into.mkdir(exist_ok=True)

    with pytest.raises(FileExistsError, match="into"):
        repair(directory, into, make)

    assert sorted(tmp_path.iterdir()) == [directory, into]
    assert list(into.iterdir()) == []


@pytest.mark.slow
def test_the_folder_of_a_killed_repair_is_replaced(tmp_path: Path) -> None:
    directory, into = tmp_path / "data", tmp_path / "into"
    filled(directory)
    (tmp_path / ".into.repairing" / "data" / "db").mkdir(parents=True)

    assert repair(directory, into).clean

    assert sorted(tmp_path.iterdir()) == [directory, into]


@pytest.mark.slow
def test_one_byte_that_cannot_be_read_is_no_plural(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory, into = tmp_path / "data", tmp_path / "into"
    filled(directory)
    monkeypatch.setattr("forebay.broker.storage.repair.command.copy_readable", lambda source, copy: 1)

    damage = repair(directory, into).damage

    assert [line.split(" of ")[0] for line in damage] == ["1 byte"]


@pytest.mark.slow
def test_one_record_that_is_not_counted_is_no_plural(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    filled(directory)
    store = RocksStore(directory)
    recover(store).journal.commit([], [PutHead(1, 0, Head(removed_records=2))])
    store.close()

    [orders] = verify(directory).partitions

    assert "the counters have 1 record, 3 are stored" in orders.problems


@pytest.mark.slow
def test_a_lost_sector_in_the_note_of_the_last_sync_stops_neither_verify_nor_repair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, into = tmp_path / "data", tmp_path / "into"
    filled(directory)
    real = os.pread
    lost = (directory / "synced").stat().st_ino

    def pread(handle: int, count: int, at: int) -> bytes:
        if os.fstat(handle).st_ino == lost:
            raise OSError(errno.EIO, "Input/output error")
        return real(handle, count, at)

    def copyfile(source: Any, copy: Any, **_: Any) -> None:
        raise OSError(errno.EIO, "Input/output error", str(source))

    monkeypatch.setattr(os, "pread", pread)
    monkeypatch.setattr(shutil, "copyfile", copyfile)

    assert [one.pages for one in verify(directory).partitions] == [3]
    assert [one.pages for one in repair(directory, into).partitions] == [3]


@pytest.mark.slow
@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
def test_a_directory_is_verified_also_where_nothing_can_be_created_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    directory = tmp_path / "data"
    filled(directory)
    real = os.mkdir

    def mkdir(path: Any, *more: Any, **others: Any) -> None:
        if Path(path).parent == tmp_path:
            raise OSError(number, os.strerror(number), str(path))
        real(path, *more, **others)

    monkeypatch.setattr(os, "mkdir", mkdir)

    assert verify(directory).clean


def test_a_repaired_directory_is_closed_to_other_accounts(tmp_path: Path) -> None:
    filled(tmp_path / "data")

    repair(tmp_path / "data", tmp_path / "into")

    assert close_to_others(tmp_path / "into") == 0
