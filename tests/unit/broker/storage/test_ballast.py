"""Room kept for a bad day: allocated, given up where the disk is full, counted as no data."""

from __future__ import annotations

import os
import shutil
from errno import ENOSPC
from pathlib import Path
from typing import NamedTuple

import pytest

from forebay.broker.storage.ballast import Ballast
from forebay.broker.storage.directory import StoreDirectory

MIB = 1 << 20


class Disk(NamedTuple):
    """Remaining size of the reserve."""

    free: int


def left(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    """Let the disk have so much left."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Disk(free))


def test_its_blocks_are_allocated(tmp_path: Path) -> None:
    ballast = Ballast(tmp_path)
    assert ballast.size == 0

    ballast.make(2 * MIB)

    assert ballast.size == 2 * MIB
    assert ballast.path.stat().st_blocks * 512 >= 2 * MIB


@pytest.mark.parametrize("size", [MIB, 3 * MIB])
def test_it_can_be_made_smaller_and_larger(size: int, tmp_path: Path) -> None:
    ballast = Ballast(tmp_path)
    ballast.make(2 * MIB)

    ballast.make(size)

    assert ballast.size == size


def test_it_is_released_when_less_than_its_size_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ballast = Ballast(tmp_path)
    ballast.make(MIB)
    left(monkeypatch, MIB)
    ballast.release_where_full()
    kept = ballast.size
    left(monkeypatch, MIB - 1)

    ballast.release_where_full()

    assert (kept, ballast.size) == (MIB, 0)
    ballast.release_where_full()
    ballast.release()


def test_a_failed_allocation_leaves_no_file_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_file: int, _first: int, _size: int) -> None:
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    ballast = Ballast(tmp_path)

    with pytest.raises(OSError, match="No space"):
        ballast.make(MIB)

    assert list(tmp_path.iterdir()) == []


def test_a_store_that_meets_a_full_disk_gives_it_up_before_anything_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    StoreDirectory(tmp_path).release()
    Ballast(tmp_path).make(MIB)
    left(monkeypatch, 0)

    directory = StoreDirectory(tmp_path)

    assert Ballast(tmp_path).size == 0
    directory.release()


def test_the_file_of_another_store_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = StoreDirectory(tmp_path)
    Ballast(tmp_path).make(MIB)
    left(monkeypatch, 0)

    with pytest.raises(Exception, match="in use"):
        StoreDirectory(tmp_path)

    assert Ballast(tmp_path).size == MIB
    directory.release()


def test_it_is_no_data(tmp_path: Path) -> None:
    directory = StoreDirectory(tmp_path)
    before = directory.live_bytes()

    Ballast(tmp_path).make(MIB)

    assert directory.live_bytes() == before
    assert shutil.disk_usage(tmp_path).free > 0
    directory.release()
