from __future__ import annotations

import os
from pathlib import Path

import pytest

from forebay.broker.storage.store.bulk.ranges import give_back

KIB = 1024


def test_the_room_of_a_range_is_released_and_the_rest_stays(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * (256 * KIB))
    os.sync()
    full = path.stat().st_blocks
    handle = os.open(path, os.O_RDWR)
    try:
        if not give_back(handle, 64 * KIB, 128 * KIB):
            pytest.skip("the file system cannot")
    finally:
        os.close(handle)

    assert full - path.stat().st_blocks == 128 * KIB // 512
    content = path.read_bytes()
    assert content == b"x" * (64 * KIB) + bytes(128 * KIB) + b"x" * (64 * KIB)


def test_a_range_that_the_system_refuses_to_release_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * KIB)
    handle = os.open(path, os.O_RDWR)
    try:
        with pytest.raises(OSError, match="Invalid argument"):
            give_back(handle, -1, KIB)
    finally:
        os.close(handle)
