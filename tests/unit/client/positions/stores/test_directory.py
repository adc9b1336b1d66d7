"""Positions in a local directory."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from forebay.client import InvalidArgument
from forebay.client.errors import PositionStoreError, PositionStoreUnavailable
from forebay.client.positions.store import open_store
from forebay.client.positions.stores.directory import LOCK, DirectoryPositions
from tests.support.positions.conformance import KEY, Opened, PositionStoreConformance
from tests.support.positions.no_channels import no_channels


class TestDirectoryPositions(PositionStoreConformance):
    @pytest.fixture
    def opened(self, tmp_path: Path) -> Opened:
        return lambda: DirectoryPositions(tmp_path / "positions", 10.0)


def test_files_and_folders_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    DirectoryPositions(tmp_path / "positions", 10.0).compare_and_write(KEY, b"1", None)

    found = {path.stat().st_mode & 0o777 for path in (tmp_path / "positions").rglob("*")}
    assert found == {0o700, 0o600}


def test_a_half_written_file_of_a_crashed_write_is_no_document(tmp_path: Path) -> None:
    store = DirectoryPositions(tmp_path, 10.0)
    version = store.compare_and_write(KEY, b"1", None)
    (tmp_path / f"{KEY}.new").write_bytes(b"half of a docu")

    assert list(store.list("")) == [KEY]
    assert store.compare_and_write(KEY, b"2", version)
    found = store.read(KEY)
    assert found is not None
    assert found.document == b"2"


def test_a_lock_that_is_held_for_too_long_makes_the_store_unavailable(tmp_path: Path) -> None:
    store = DirectoryPositions(tmp_path, 0.05)
    with (tmp_path / LOCK).open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)

        with pytest.raises(PositionStoreUnavailable, match="held by another process"):
            store.compare_and_write(KEY, b"1", None)


def test_a_path_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(PositionStoreError):
        DirectoryPositions(tmp_path / "file" / "positions", 10.0)


@pytest.mark.parametrize("url", ["file:relative", "file://host/var/lib"])
def test_a_url_without_an_absolute_local_path_is_refused(url: str) -> None:
    with pytest.raises(InvalidArgument, match="absolute path"):
        open_store(url, channels=no_channels())
