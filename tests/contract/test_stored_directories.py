"""Data directories and backups of earlier versions: every version opens those of all formats since the first release.

`python -m tests.support.storage.stored_directory` writes the archive of a new format.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.broker.storage.backup.catalog import find
from forebay.broker.storage.backup.restores.restore import OnDamage, restore, verify_backup
from forebay.broker.storage.backup.targets import open_target
from forebay.broker.storage.formats import FORMAT
from forebay.broker.storage.repair.command import verify
from tests.support.storage.disk_directory import judged
from tests.support.storage.stored_directory import ARCHIVES, DATA, TARGET, unpack

ALL = sorted(ARCHIVES.glob("format-*.tar.xz"))


def test_there_is_an_archive_of_the_format_that_this_version_writes() -> None:
    assert f"format-{FORMAT}.tar.xz" in [path.name for path in ALL]


@pytest.mark.parametrize("archive", ALL, ids=lambda path: path.name)
def test_a_directory_of_an_earlier_version_is_opened_without_a_loss(archive: Path, tmp_path: Path) -> None:
    unpack(archive, tmp_path)

    assert verify(tmp_path / DATA).clean
    verdict = judged(tmp_path / DATA)
    assert (verdict.wrong, sum(verdict.lost.values()), verdict.repairs) == ([], 0, 0)


@pytest.mark.parametrize("archive", ALL, ids=lambda path: path.name)
def test_a_backup_of_an_earlier_version_is_verified_and_restored(archive: Path, tmp_path: Path) -> None:
    unpack(archive, tmp_path)
    target = open_target(str(tmp_path / TARGET))
    manifest = find(target)

    assert verify_backup(target, manifest, work_dir=tmp_path).clean
    restore(target, manifest, tmp_path / "new", on_damage=OnDamage.STOP, store_id="8" * 32, at_us=1)
    assert judged(tmp_path / "new").wrong == []
