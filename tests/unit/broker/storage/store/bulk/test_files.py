from __future__ import annotations

import errno
import gc
import os
import resource
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from forebay.broker.storage.store.bulk import file as bulk_file
from forebay.broker.storage.store.bulk.files import BulkFiles
from forebay.broker.storage.store.bulk.remote import RemoteFiles
from forebay.broker.storage.store.key_ranges import KeyRanges

NOTHING = KeyRanges()


def key(number: int) -> bytes:
    return number.to_bytes(4, "big")


def filled(folder: Path, *, files: int = 3, each: int = 4, size: int = 10_000, open_max: int = 8) -> BulkFiles:
    """Files of ``each`` values, with keys that rise by one."""
    found = BulkFiles(folder, open_max=open_max)
    for file in range(files):
        found.add([(key(file * each + index), bytes([file, index]) * (size // 2)) for index in range(each)])
    return found


def test_a_folder_that_is_opened_again_has_the_same_keys(tmp_path: Path) -> None:
    filled(tmp_path).close()

    found = BulkFiles(tmp_path, open_max=8)

    assert list(found.keys(key(0), key(99), NOTHING)) == [key(number) for number in range(12)]
    assert found.lasts == [key(3), key(7), key(11)]
    assert found.highest == key(11)


def test_keys_come_in_both_directions_and_without_what_is_deleted(tmp_path: Path) -> None:
    files = filled(tmp_path)
    deleted = NOTHING.added(key(2), key(6))

    assert list(files.keys(key(1), key(9), deleted)) == [key(1), key(6), key(7), key(8)]
    assert list(files.keys(key(1), key(9), deleted, reverse=True)) == [key(8), key(7), key(6), key(1)]
    assert files.read([key(1), key(2), key(6)], deleted)[1] is None


def test_a_prefetch_skips_a_missing_file_and_advises_the_system_of_the_other_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    files = filled(tmp_path)
    sorted(tmp_path.iterdir())[1].unlink()
    advised: list[int] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda handle, first, size, advice: advised.append(size))

    files.prefetch([key(number) for number in (0, 1, 5, 8, 77)], NOTHING.added(key(1), key(2)))

    assert advised == [10_000] * 2
    assert not caplog.records  # a read of the missing file reports it


def test_a_system_that_cannot_take_a_hint_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: int) -> None:
        raise OSError(errno.ESPIPE, "no such thing here")

    files = filled(tmp_path)
    monkeypatch.setattr(os, "posix_fadvise", refused)

    files.prefetch([key(0)], NOTHING)

    assert files.read([key(0)], NOTHING) == [bytes([0, 0]) * 5_000]


def test_no_more_files_are_held_open_than_allowed(tmp_path: Path) -> None:
    files = filled(tmp_path, files=12, each=1, open_max=3)
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else None

    found = files.read([key(number) for number in range(12)], NOTHING)

    assert all(value is not None for value in found)
    if before is not None:
        assert len(os.listdir("/proc/self/fd")) - before <= 3


def test_a_file_goes_when_the_last_of_its_keys_is_deleted(tmp_path: Path) -> None:
    files = filled(tmp_path)

    files.compact(key(0), key(12), NOTHING.added(key(0), key(7)))
    first = sorted(path.name for path in tmp_path.iterdir())
    files.compact(key(0), key(12), NOTHING.added(key(0), key(8)))

    assert len(first) == 2
    assert [path.name for path in tmp_path.iterdir()] == [first[1]]
    assert files.lasts == [key(11)]


def test_a_reader_in_the_middle_of_a_file_that_goes_has_what_it_has(tmp_path: Path) -> None:
    files = filled(tmp_path, files=1)
    keys = files.keys(key(0), key(9), NOTHING)
    first = next(keys)

    files.compact(key(0), key(9), NOTHING.added(key(0), key(4)))

    assert [first, *keys] == [key(number) for number in range(4)]
    assert files.read([key(0)], NOTHING) == [None]


@pytest.mark.parametrize("size", [0, 30, 3_000])
def test_a_file_that_was_cut_off_while_it_was_written_continuesce_all_it_could_hold_is_deleted(
    tmp_path: Path, size: int
) -> None:
    filled(tmp_path, files=2).close()
    cut = max(tmp_path.iterdir())
    os.truncate(cut, size)
    files = BulkFiles(tmp_path, open_max=8)

    files.compact(key(4), key(8), NOTHING.added(key(4), key(7)))
    half = cut.exists()
    files.compact(key(4), key(8), NOTHING.added(key(4), key(8)))

    assert half
    assert not cut.exists()
    assert files.lasts == [key(3)]


def test_a_file_truncated_by_a_crash_is_opened_and_compacted_without_a_log_message(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    filled(tmp_path, files=2).close()
    os.truncate(max(tmp_path.iterdir()), 30)

    BulkFiles(tmp_path, open_max=8).compact(key(4), key(8), NOTHING.added(key(4), key(8)))

    assert caplog.text == ""


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")

    files = filled(tmp_path, files=1)
    files.compact(b"", b"\xff", NOTHING.added(b"", b"\xff"))

    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


# -- what fails and passes


def test_a_file_is_written_again_after_a_shortage_and_nothing_of_the_first_try_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = filled(tmp_path, files=1)
    real = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: _short())

    with pytest.raises(OSError, match="memory"):
        files.add([(key(4), b"x" * 10_000)])
    left = len(list(tmp_path.iterdir()))
    monkeypatch.setattr(os, "write", real)
    files.add([(key(4), b"y" * 10_000)])

    assert left == 1
    assert files.read([key(0), key(4)], NOTHING) == [bytes([0, 0]) * 5_000, b"y" * 10_000]


def _short() -> int:
    raise OSError(errno.ENOMEM, "Cannot allocate memory")


def test_a_failed_sync_of_names_is_never_taken_for_a_shortage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = filled(tmp_path, files=1)

    def fsync(_: int) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(os, "fsync", fsync)

    with pytest.raises(OSError, match="names of files could not be synced") as failure:
        files.add([(key(4), b"x" * 10)])

    assert failure.value.errno == errno.EIO


def test_files_are_still_written_and_read_when_the_process_has_no_descriptor_left(tmp_path: Path) -> None:
    files = filled(tmp_path, files=3, open_max=1)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(number) for number in os.listdir("/proc/self/fd"))  # other tests of this process have some open
    taken: list[int] = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, highest + 20), hard))
        with suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        read = files.read([key(0), key(5), key(9)], NOTHING)
        files.add([(key(90), b"z" * 10)])
    finally:
        for handle in taken:
            os.close(handle)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    assert None not in read
    assert files.read([key(90)], NOTHING) == [b"z" * 10]
    files.close()


def test_a_file_that_goes_while_a_reader_opens_it_is_not_held_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = filled(tmp_path, files=2)
    real = bulk_file.BulkFile.__init__

    def opening(self: bulk_file.BulkFile, path: Path) -> None:
        real(self, path)
        monkeypatch.setattr(bulk_file.BulkFile, "__init__", real)
        files.compact(key(0), key(4), NOTHING.added(key(0), key(4)))

    monkeypatch.setattr(bulk_file.BulkFile, "__init__", opening)

    assert files.read([key(0)], NOTHING) == [bytes([0, 0]) * 5_000]
    gc.collect()
    assert not [name for name in _open_files() if name.endswith("(deleted)") and str(tmp_path) in name]


def _open_files() -> list[str]:
    found: list[str] = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            found.append(os.readlink(f"/proc/self/fd/{name}"))
    return found


def test_files_are_not_missing_while_their_folder_is_unreachable(tmp_path: Path) -> None:
    folder = tmp_path / "bulk"
    folder.mkdir()
    files = filled(folder, open_max=1)
    folder.rename(tmp_path / "unmounted")

    with pytest.raises(OSError, match="No such file"):
        files.read([key(0)], NOTHING)
    folder.mkdir()
    with pytest.raises(OSError, match="another folder"):
        files.read([key(0)], NOTHING)
    folder.rmdir()
    (tmp_path / "unmounted").rename(folder)

    assert files.read([key(0)], NOTHING) == [bytes([0, 0]) * 5_000]


def test_a_file_that_cannot_be_read_keeps_no_other_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = filled(tmp_path)
    bad = sorted(tmp_path.iterdir())[1].stat().st_ino
    real = os.pread

    def pread(handle: int, size: int, at: int) -> bytes:
        if os.fstat(handle).st_ino == bad:
            raise OSError(errno.EIO, "Input/output error")
        return real(handle, size, at)

    monkeypatch.setattr(os, "pread", pread)
    deleted = KeyRanges.of([(key(0), key(5)), (key(8), key(12))])

    failure = files.compact(key(0), key(99), deleted)

    assert failure is not None
    assert failure.errno == errno.EIO
    assert files.lasts == [key(7)]
    assert len(list(tmp_path.iterdir())) == 1


def test_a_file_without_a_deleted_key_is_not_opened_to_release_space(tmp_path: Path) -> None:
    files = filled(tmp_path)
    sorted(tmp_path.iterdir())[1].chmod(0)

    assert files.compact(key(0), key(99), KeyRanges.of([(key(0), key(2))])) is None


def test_a_file_that_cannot_be_removed_stays_listed_until_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = filled(tmp_path)
    names, lasts = sorted(tmp_path.iterdir()), files.lasts
    real = Path.unlink

    def unlink(path: Path, **how: bool) -> None:
        if path == names[0]:
            raise OSError(errno.EIO, "Input/output error")
        real(path, **how)

    monkeypatch.setattr(Path, "unlink", unlink)
    deleted = KeyRanges.of([(key(0), key(99))])
    with pytest.raises(OSError, match="Input/output"):
        files.compact(key(0), key(99), deleted)
    assert (files.lasts, list(tmp_path.iterdir())) == (lasts[:1], names[:1])
    assert files.meets(key(0), key(1))
    monkeypatch.undo()

    assert files.compact(key(0), key(99), deleted) is None
    assert list(tmp_path.iterdir()) == []


class Needless:
    """A source of which no file is needed any more."""

    def fetch(self, name: str, folder: Path, stop: threading.Event) -> Path | None:
        return None


def test_a_remote_file_of_which_no_page_is_needed_is_listed_no_more(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:

    def unlist(path: Path) -> None:
        files.needless(path)

    remote = RemoteFiles(
        tmp_path,
        Needless(),
        {bulk_file.name_of(key(1), key(5)): 10_000},
        on_arrival=lambda path: None,
        on_needless=unlist,
        on_complete=lambda: None,
    )
    (tmp_path / "bulk").mkdir()
    files = BulkFiles(tmp_path / "bulk", open_max=8, remote=remote)
    deleted = NOTHING.added(key(1), key(2)).added(key(5), key(6))
    assert files.meets(key(1), key(6))

    assert list(files.keys(key(0), key(9), deleted)) == []

    assert (files.paths, files.highest, files.meets(key(1), key(6))) == ([], None, False)
    assert files.compact(key(1), key(6), deleted) is None
    assert caplog.records == []
