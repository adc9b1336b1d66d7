from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from forebay.broker.storage.directory import StoreDirectory
from forebay.broker.storage.permissions import close_to_others
from forebay.broker.storage.store.rocks.store import RocksStore


def open_to_others(directory: Path) -> list[str]:
    """Paths that another account could reach, were the directory above open."""
    found = [directory, *directory.rglob("*")]
    return [str(path) for path in found if path.lstat().st_mode & 0o077 and not path.is_symlink()]


def test_a_new_store_is_closed_to_other_accounts_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        directory = StoreDirectory(tmp_path / "data")
        directory.release()
    finally:
        os.umask(before)

    assert open_to_others(tmp_path / "data") == []


@pytest.mark.slow
def test_a_store_that_was_open_to_others_is_closed_at_the_start_which_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "data"
    RocksStore(path).close()
    for each in [path, *path.rglob("*")]:
        each.chmod(0o755 if each.is_dir() else 0o644)

    with caplog.at_level(logging.WARNING):
        RocksStore(path).close()
        path.chmod(0o700)
        StoreDirectory(path).release()

    logged = [record.message for record in caplog.records if "rights of other accounts" in record.message]
    assert path.stat().st_mode & 0o777 == 0o700
    assert open_to_others(path / "bulk") == []
    assert f"directory={path}" in logged[0]


def test_the_target_of_a_symbolic_link_outside_the_directory_is_left_unchanged(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").touch(0o644)
    outside.chmod(0o755)
    data = tmp_path / "data"
    data.mkdir(0o700)
    (data / "bulk").symlink_to(outside)

    assert close_to_others(data) == 0
    assert outside.stat().st_mode & 0o777 == 0o755


def test_a_directory_named_by_a_link_is_closed_itself(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(0o755)
    (tmp_path / "link").symlink_to(data)

    assert close_to_others(tmp_path / "link") == 1
    assert data.stat().st_mode & 0o777 == 0o700


def test_a_new_directory_is_closed_without_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "file").chmod(0o644)

    with caplog.at_level(logging.WARNING):
        assert close_to_others(tmp_path, is_new=True) >= 1

    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600
    assert caplog.messages == []
