from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.broker.storage.backup.directory_target import DirectoryTarget
from forebay.broker.storage.backup.errors import TargetFailed
from forebay.broker.storage.backup.target import read_all


@pytest.mark.parametrize("size", [0, 1, 4_095, 4_096, 4_097, 5 << 20])
def test_any_number_of_bytes_round_trips(tmp_path: Path, size: int) -> None:
    target = DirectoryTarget(tmp_path / "target")

    target.put("a/b/c", [b"x" * size])
    target.sync()

    assert read_all(target, "a/b/c") == b"x" * size
    assert (tmp_path / "target" / "a" / "b" / "c").stat().st_mode & 0o077 == 0


def test_a_write_that_fails_leaves_no_name(tmp_path: Path) -> None:
    target = DirectoryTarget(tmp_path / "target")

    def broken() -> Iterator[bytes]:
        yield b"x" * 10_000
        raise ValueError("gone")

    with pytest.raises(ValueError, match="gone"):
        target.put("a/b", broken())

    assert list(target.names()) == []
    assert list((tmp_path / "target" / "a").iterdir()) == []


def test_names_are_listed_by_their_beginning(tmp_path: Path) -> None:
    target = DirectoryTarget(tmp_path / "target")
    for name in ("a/x", "a/y/z", "b/x"):
        target.put(name, [b"1"])

    assert sorted(target.names()) == ["a/x", "a/y/z", "b/x"]
    assert sorted(target.names("a/")) == ["a/x", "a/y/z"]


def test_deleted_names_take_their_empty_folders_with_them(tmp_path: Path) -> None:
    target = DirectoryTarget(tmp_path / "target")
    for name in ("a/y/z", "b/x"):
        target.put(name, [b"1"])

    target.delete(["a/y/z", "a/absent"])

    assert [path.name for path in (tmp_path / "target").iterdir()] == ["b"]


def test_a_target_that_does_not_exist_yet_has_no_names(tmp_path: Path) -> None:
    assert list(DirectoryTarget(tmp_path / "absent").names()) == []


def test_a_target_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(TargetFailed, match=r"backup target .*file"):
        DirectoryTarget(tmp_path / "file").put("a", [b"1"])
