from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from forebay.broker.storage.repair.salvage import copy_readable


def test_a_file_that_can_be_read_is_copied_whole(tmp_path: Path) -> None:
    content = os.urandom((1 << 20) + 5_000)
    (tmp_path / "file").write_bytes(content)

    assert copy_readable(tmp_path / "file", tmp_path / "copy") == 0
    assert (tmp_path / "copy").read_bytes() == content


def test_a_block_that_cannot_be_read_is_zeros_and_all_around_it_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = b"x" * ((2 << 20) + 10)
    (tmp_path / "file").write_bytes(content)
    bad = (1 << 20) + 3 * 4_096
    real = os.pread

    def pread(handle: int, size: int, at: int) -> bytes:
        if at <= bad < at + size:
            raise OSError(errno.EIO, "Input/output error")
        return real(handle, size, at)

    monkeypatch.setattr(os, "pread", pread)

    assert copy_readable(tmp_path / "file", tmp_path / "copy") == 4_096
    assert (tmp_path / "copy").read_bytes() == content[:bad] + bytes(4_096) + content[bad + 4_096 :]
