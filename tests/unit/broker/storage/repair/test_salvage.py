from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from forebay.broker.storage.repair.salvage import copy_readable


def test_a_file_that_can_be_read_is_copied_whole(tmp_path: Path) -> None:
    content = os.urandom((1 << 20) + 5_000)
    (tmp_path / "file").write_bytes(content)

    assert copy_readable(tmp_path / "file", tmp_path / "copy") == 0
    assert (tmp_path / "copy").read_bytes() == content


def reading_with_a_bad_sector(at_bad: int, *, short: bool) -> Callable[[int, int, int], bytes]:
    """Return a ``pread`` of a disk with a bad block; most systems return what is before it, and then an error."""
    real = os.pread

    def pread(handle: int, size: int, at: int) -> bytes:
        if at <= at_bad < at + size:
            before = at_bad - at_bad % 4_096 - at
            if before <= 0 or not short:
                raise OSError(errno.EIO, "Input/output error")
            return real(handle, before, at)
        return real(handle, size, at)

    return pread


@pytest.mark.parametrize("short", [True, False])
@pytest.mark.parametrize("bad", [0, 4_096 * 7 + 5, (1 << 20) + 3 * 4_096, 2 << 20])
def test_a_block_that_cannot_be_read_is_zeros_and_all_around_it_is_kept(
    bad: int, short: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = b"x" * ((2 << 20) + 5_000)
    (tmp_path / "file").write_bytes(content)
    monkeypatch.setattr(os, "pread", reading_with_a_bad_sector(bad, short=short))
    block = bad - bad % 4_096

    assert copy_readable(tmp_path / "file", tmp_path / "copy") == 4_096
    assert (tmp_path / "copy").read_bytes() == content[:block] + bytes(4_096) + content[block + 4_096 :]


def test_a_failure_that_is_no_bad_sector_is_no_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"x")

    def pread(*_: int) -> bytes:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(os, "pread", pread)
    with pytest.raises(OSError, match="Cannot allocate memory"):
        copy_readable(tmp_path / "file", tmp_path / "copy")


def test_partial_writes_are_continued_to_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = os.urandom(200_000)
    (tmp_path / "file").write_bytes(content)
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda handle, part, at: real(handle, part[:1_000], at))

    copy_readable(tmp_path / "file", tmp_path / "copy")

    assert (tmp_path / "copy").read_bytes() == content


def test_space_that_was_released_takes_none_in_the_copy(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        file.write(b"first")
        file.seek(8 << 20)
        file.write(b"last")

    copy_readable(tmp_path / "file", tmp_path / "copy")

    copied = (tmp_path / "copy").stat()
    assert copied.st_size == (8 << 20) + 4
    assert copied.st_blocks * 512 < 1 << 20
    assert (tmp_path / "copy").read_bytes() == (tmp_path / "file").read_bytes()


def test_a_copy_is_on_the_disk_when_it_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"x")
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.fstat(handle).st_ino))

    copy_readable(tmp_path / "file", tmp_path / "copy")

    assert synced == [(tmp_path / "copy").stat().st_ino]
