"""Working folders: one process at a time, without what a killed one left."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.broker.storage.backup.errors import BackupError
from forebay.broker.storage.backup.working_folder import working_folder


def test_the_folder_is_beside_the_directory_and_is_removed(tmp_path: Path) -> None:
    with working_folder(tmp_path / "new", purpose="copy", suffix="copying") as work:
        (work / "data").mkdir()
        assert work == tmp_path / ".new.copying"

    assert list(tmp_path.iterdir()) == []


def test_leftovers_of_a_killed_process_are_removed_first(tmp_path: Path) -> None:
    (tmp_path / ".new.copying" / "data").mkdir(parents=True)

    with working_folder(tmp_path / "new", purpose="copy", suffix="copying") as work:
        assert list(work.iterdir()) == []


def test_another_process_with_the_same_directory_is_refused(tmp_path: Path) -> None:
    with (
        working_folder(tmp_path / "new", purpose="copy", suffix="copying"),
        pytest.raises(BackupError, match=f"another copy into {tmp_path}/new is running"),
        working_folder(tmp_path / "new", purpose="copy", suffix="copying"),
    ):
        pass
