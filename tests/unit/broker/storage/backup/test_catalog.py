from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from forebay.broker.storage.backup.catalog import DAY_US, RUNNING_US, find, list_backups, mark_started, new_id, prune
from forebay.broker.storage.backup.directory_target import DirectoryTarget
from forebay.broker.storage.backup.errors import BackupError, BackupNotFound
from forebay.broker.storage.backup.manifest import Manifest, Piece, manifest_name

NOW: Final = 100 * DAY_US


@pytest.fixture
def target(tmp_path: Path) -> DirectoryTarget:
    return DirectoryTarget(tmp_path / "target")


def begin(target: DirectoryTarget, backup: str, at_us: int, *files: str, parent: str = "") -> None:
    mark_started(target, backup, at_us=at_us, parent=parent)
    for path in files:
        target.put(f"{backup}/files/{path}", [b"1"])


def complete(
    target: DirectoryTarget, backup: str, at_us: int, *pieces: str, store_id: str = "s", number: int = 0
) -> None:
    """Pieces are ``HOLDER:PATH``."""
    named = [piece.split(":") for piece in pieces]
    begin(target, backup, at_us, *(path for holder, path in named if holder == backup))
    found = tuple(Piece(path, 1, 2, holder) for holder, path in named)
    manifest = Manifest(backup, store_id, "v", 3, 1, at_us, found, (), 0, number=number)
    target.put(manifest_name(backup), [manifest.encode()])


def files(target: DirectoryTarget) -> list[str]:
    return sorted(name for name in target.names() if "/files/" in name)


def pruned(target: DirectoryTarget, *, keep_last: int = 1, keep_days: float = 0, store_id: str = "") -> tuple[str, ...]:
    return prune(target, now_us=NOW, keep_last=keep_last, keep_days=keep_days, store_id=store_id).backups


def test_ids_sort_by_time() -> None:
    assert new_id(0, "ff") == "19700101T000000000000Z-ff"
    assert new_id(NOW, "00") > new_id(NOW - 1, "ff")


def test_a_backup_without_a_manifest_is_incomplete(target: DirectoryTarget) -> None:
    complete(target, "a", 1)
    begin(target, "b", 2, "x", parent="a")

    assert [(one.id, one.complete, one.parent) for one in list_backups(target)] == [("a", True, ""), ("b", False, "a")]
    assert find(target).id == "a"


def test_a_mark_that_was_cut_off_is_that_of_an_incomplete_backup(target: DirectoryTarget) -> None:
    target.put("a/started", [b'{"star'])

    assert [(one.id, one.complete, one.started_at_us) for one in list_backups(target)] == [("a", False, 0)]


def test_a_damaged_manifest_is_reported(target: DirectoryTarget) -> None:
    target.put("a/manifest", [b"{}\n0\n"])

    assert "damaged" in list_backups(target)[0].damage


def test_an_absent_or_incomplete_backup_is_not_found(target: DirectoryTarget) -> None:
    begin(target, "b", 2)

    with pytest.raises(BackupNotFound, match="no complete backup; `forebay backup list` shows what it has"):
        find(target)
    with pytest.raises(BackupNotFound, match="'b' does not exist or is incomplete"):
        find(target, "b")


def test_a_prune_keeps_files_that_a_remaining_backup_names(target: DirectoryTarget) -> None:
    complete(target, "a", NOW - 3 * DAY_US, "a:x", "a:y")
    complete(target, "b", NOW - 2 * DAY_US, "a:x", "b:z")

    assert pruned(target) == ("a",)
    assert files(target) == ["a/files/x", "b/files/z"]
    assert [one.id for one in list_backups(target)] == ["b"]
    assert pruned(target) == ()


def test_a_prune_keeps_the_newest_and_the_young_ones(target: DirectoryTarget) -> None:
    for day in range(1, 7):
        complete(target, f"{10 - day}", NOW - day * DAY_US)

    assert pruned(target, keep_last=2, keep_days=3.5) == ("4", "5", "6")
    assert [one.id for one in list_backups(target)] == ["7", "8", "9"]


def test_a_prune_leaves_the_backups_of_other_brokers(target: DirectoryTarget) -> None:
    complete(target, "a", 1, "a:x", store_id="other")
    complete(target, "b", 2, "b:x")
    complete(target, "c", 3, "c:x")

    assert pruned(target, store_id="s") == ("b",)
    assert files(target) == ["a/files/x", "c/files/x"]


def test_a_prune_keeps_the_newest_of_each_store(target: DirectoryTarget) -> None:
    complete(target, "a", 1, "a:x", store_id="quiet")
    complete(target, "b", 2, "b:x", store_id="quiet")
    for number in range(3, 9):
        complete(target, str(number), number, store_id="busy")

    assert pruned(target, keep_last=1) == ("a", "3", "4", "5", "6", "7")
    assert [one.id for one in list_backups(target)] == ["8", "b"]


def test_the_newest_backup_of_a_store_is_its_last_one_although_the_clock_went_back(target: DirectoryTarget) -> None:
    complete(target, "a", 2_000, "a:x", number=1)
    complete(target, "b", 1_000, "b:x", number=2)

    assert find(target).id == "b"
    assert pruned(target, keep_last=1) == ("a",)
    assert files(target) == ["b/files/x"]


def test_of_several_stores_the_newest_backup_is_that_of_the_latest_time(target: DirectoryTarget) -> None:
    complete(target, "a", 1_000, store_id="busy", number=900)
    complete(target, "b", 2_000, store_id="restored", number=1)

    assert find(target).id == "b"


def test_a_prune_leaves_a_running_backup_and_its_parent(target: DirectoryTarget) -> None:
    complete(target, "a", 1, "a:x")
    complete(target, "b", 2, "b:y")
    begin(target, "c", NOW - RUNNING_US // 2, "z", parent="a")

    assert pruned(target) == ()
    assert files(target) == ["a/files/x", "b/files/y", "c/files/z"]


def test_a_prune_deletes_an_incomplete_backup_that_is_a_day_old(target: DirectoryTarget) -> None:
    complete(target, "a", 1, "a:x")
    begin(target, "b", NOW - RUNNING_US, "y")

    found = prune(target, now_us=NOW, keep_last=1, keep_days=0)

    assert (found.incomplete, found.files) == (("b",), 1)
    assert files(target) == ["a/files/x"]


def test_a_prune_deletes_nothing_while_a_manifest_is_damaged(target: DirectoryTarget) -> None:
    complete(target, "a", 1, "a:x")
    complete(target, "b", 2, "b:x")
    target.put("c/manifest", [b"{}\n0\n"])

    with pytest.raises(BackupError, match="nothing was deleted"):
        pruned(target)

    assert files(target) == ["a/files/x", "b/files/x"]
