"""The directory of a store: who may have it, and what it must look like."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import resource
import socket
from typing import TYPE_CHECKING

import pytest

from forebay.broker.storage.directory import StoreDirectory, write_durably
from forebay.broker.storage.errors import StoreDirectoryForeign, StoreFormatUnsupported, StoreLocked
from forebay.broker.storage.formats import FORMAT

if TYPE_CHECKING:
    from pathlib import Path


def test_a_new_directory_gets_its_layout(tmp_path: Path) -> None:
    directory = StoreDirectory(tmp_path / "a" / "b")

    assert sorted(path.name for path in directory.path.iterdir()) == ["FORMAT", "bulk", "db", "owner.json"]
    assert (directory.path / "FORMAT").read_text() == f"{FORMAT}\n"
    directory.release()


def test_the_owner_says_who_it_is(tmp_path: Path) -> None:
    directory = StoreDirectory(tmp_path)
    owner = json.loads((tmp_path / "owner.json").read_text())

    assert (owner["pid"], owner["host"]) == (os.getpid(), socket.gethostname())
    assert owner["started"].endswith("+00:00")
    directory.release()


def test_a_directory_in_use_is_refused_until_it_is_released(tmp_path: Path) -> None:
    directory = StoreDirectory(tmp_path)

    with pytest.raises(StoreLocked) as caught:
        StoreDirectory(tmp_path)
    assert (caught.value.directory, caught.value.pid) == (tmp_path, os.getpid())

    directory.release()
    directory.release()
    StoreDirectory(tmp_path).release()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": "x"}', "7"])
def test_a_file_of_a_dead_owner_does_not_matter(tmp_path: Path, content: str) -> None:
    (tmp_path / "owner.json").write_text(content)

    StoreDirectory(tmp_path).release()


@pytest.mark.parametrize(
    ("content", "found"), [(f"{FORMAT + 1}\n", FORMAT + 1), ("0", 0), ("", None), ("one", None), ("\xb2", None)]
)
def test_another_format_is_refused_and_nothing_is_touched(tmp_path: Path, content: str, found: int | None) -> None:
    StoreDirectory(tmp_path).release()
    (tmp_path / "FORMAT").write_text(content)
    (tmp_path / "bulk" / "kept").touch()

    with pytest.raises(StoreFormatUnsupported) as caught:
        StoreDirectory(tmp_path)

    assert (caught.value.directory, caught.value.found, caught.value.supported) == (tmp_path, found, FORMAT)
    assert (tmp_path / "bulk" / "kept").exists()


def test_a_refused_format_names_the_version_that_wrote_it(tmp_path: Path) -> None:
    StoreDirectory(tmp_path).release()
    (tmp_path / "FORMAT").write_text(f"{FORMAT + 1}")
    (tmp_path / "owner.json").write_text('{"pid": 1, "version": "9.1.0"}')

    with pytest.raises(StoreFormatUnsupported, match=r"use Forebay 9\.1\.0, which wrote it"):
        StoreDirectory(tmp_path)

    assert "9.1.0" in (tmp_path / "owner.json").read_text()


def test_data_without_a_format_is_refused(tmp_path: Path) -> None:
    StoreDirectory(tmp_path).release()
    (tmp_path / "FORMAT").unlink()

    with pytest.raises(StoreFormatUnsupported, match="format unknown"):
        StoreDirectory(tmp_path)


def test_a_refused_directory_is_not_kept_locked(tmp_path: Path) -> None:
    StoreDirectory(tmp_path).release()
    (tmp_path / "FORMAT").write_text("9")
    with pytest.raises(StoreFormatUnsupported):
        StoreDirectory(tmp_path)
    (tmp_path / "FORMAT").write_text(f"{FORMAT}")

    StoreDirectory(tmp_path).release()


def test_a_file_with_two_names_takes_its_space_once(tmp_path: Path) -> None:
    directory = StoreDirectory(tmp_path)
    before = directory.live_bytes()
    (directory.bulk / "a").write_bytes(os.urandom(1_000_000))
    (directory.database / "a").hardlink_to(directory.bulk / "a")

    assert 1_000_000 <= directory.live_bytes() - before < 1_100_000
    directory.release()


@pytest.mark.parametrize("name", ["owner.json", "db/LOCK"])
def test_a_second_owner_is_refused_though_another_process_removed_a_lock_file(tmp_path: Path, name: str) -> None:
    directory = StoreDirectory(tmp_path)
    (tmp_path / name).unlink(missing_ok=True)

    with pytest.raises(StoreLocked):
        StoreDirectory(tmp_path)

    directory.release()
    StoreDirectory(tmp_path).release()


def test_a_file_system_that_locks_files_only_is_taken_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = fcntl.flock

    def flock(handle: int, operation: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{handle}"):
            raise OSError(errno.EBADF, "Bad file descriptor")
        real(handle, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    directory = StoreDirectory(tmp_path)

    with pytest.raises(StoreLocked):
        StoreDirectory(tmp_path)

    directory.release()
    assert "directory itself cannot be locked" in caplog.text


def test_a_directory_that_was_moved_away_is_noticed(tmp_path: Path) -> None:
    directory = StoreDirectory(tmp_path / "data")
    there = directory.is_there()
    (tmp_path / "data").rename(tmp_path / "elsewhere")
    gone = directory.is_there()
    StoreDirectory(tmp_path / "data").release()

    assert (there, gone, directory.is_there()) == (True, False, False)
    directory.release()


@pytest.mark.parametrize("parts", [["www/index.html"], ["db/000001.sst"], ["notes"]])
def test_a_directory_with_other_files_is_refused_and_not_changed(tmp_path: Path, parts: list[str]) -> None:
    tmp_path.chmod(0o755)
    for part in parts:
        (tmp_path / part).parent.mkdir(mode=0o755, exist_ok=True)
        (tmp_path / part).touch(0o644)
    before = {path: path.stat().st_mode for path in [tmp_path, *tmp_path.rglob("*")]}

    with pytest.raises((StoreDirectoryForeign, StoreFormatUnsupported)):
        StoreDirectory(tmp_path)

    (tmp_path / "owner.json").unlink(missing_ok=True)  # the lock of the attempt
    assert {path: path.stat().st_mode for path in [tmp_path, *tmp_path.rglob("*")]} == before


def test_the_error_names_a_file_that_is_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    (tmp_path / ".snapshot").mkdir()
    (tmp_path / "notes").touch()

    with pytest.raises(StoreDirectoryForeign, match="such as 'notes': name an empty directory"):
        StoreDirectory(tmp_path)


def test_a_new_file_system_is_an_empty_directory(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    (tmp_path / ".snapshot").mkdir()

    StoreDirectory(tmp_path).release()
    StoreDirectory(tmp_path).release()


def test_a_file_that_the_disk_takes_in_part_does_not_replace_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "remote"
    write_durably(path, b"before")
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
    try:
        with pytest.raises(OSError, match="File too large"):
            write_durably(path, bytes(1001))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    assert path.read_bytes() == b"before"
    write_durably(path, bytes(1001))
    assert path.read_bytes() == bytes(1001)
