from __future__ import annotations

import errno
from pathlib import Path

import pytest

from forebay.broker.storage.backup.snapshot import take_snapshot
from forebay.broker.storage.directory import SNAPSHOT


class Failing:
    """A store whose checkpoint fails when some files are linked."""

    def flush(self) -> None:
        pass

    def remote_bytes(self) -> int:
        return 0

    def checkpoint(self, into: Path) -> list[Path]:
        (into / "db").mkdir()
        (into / "db" / "000001.sst").write_bytes(b"linked")
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_snapshot_that_fails_leaves_no_links_behind(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left"):
        take_snapshot(Failing(), tmp_path, 1)

    assert list((tmp_path / SNAPSHOT).iterdir()) == []
