from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import copytree
from typing import Any, Final

import pytest

from forebay.broker.core.partition.pages import DropReason
from forebay.broker.storage.backup.catalog import find, prune
from forebay.broker.storage.backup.directory_target import DirectoryTarget
from forebay.broker.storage.backup.errors import BackupDamaged, BackupError, BackupNotFound
from forebay.broker.storage.backup.manifest import Manifest, PartitionAccount, manifest_name
from forebay.broker.storage.backup.restores.restore import OnDamage, RestoreReport, restore, verify_backup
from forebay.broker.storage.backup.restores.restored import resumed_offset, starts_skipped
from forebay.broker.storage.backup.target import Target
from forebay.broker.storage.backup.targets import open_target
from forebay.broker.storage.permissions import close_to_others
from forebay.broker.storage.recovery import Recovered, recover
from forebay.broker.storage.repair.command import verify
from forebay.broker.storage.store.rocks.store import RocksStore
from tests.support.storage.backed_up import BackedUp
from tests.support.storage.disk_directory import END, NAMES, SMALL_STORE, judged

NEW_ID: Final = "9" * 32
AT_US: Final = 1_800_000_000_000_000


@dataclass(frozen=True, slots=True)
class Kept:
    """A target with one backup."""

    folder: Path

    @property
    def target(self) -> Target:
        return open_target(str(self.folder))

    def manifest(self) -> Manifest:
        return find(self.target, "")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a target with one backup, which no test changes."""
    made = BackedUp(tmp_path_factory.mktemp("made"))
    made.back_up()
    made.store.close()
    return Path(made.target_text)


@pytest.fixture
def kept(made: Path, tmp_path: Path) -> Kept:
    return Kept(copytree(made, tmp_path / "target"))


def restored(
    kept: Kept,
    into: Path,
    *,
    on_damage: OnDamage = OnDamage.STOP,
    manifest: Manifest | None = None,
    store_id: str = NEW_ID,
) -> RestoreReport:
    found = manifest or kept.manifest()
    return restore(kept.target, found, into, on_damage=on_damage, store_id=store_id, at_us=AT_US)


def recovered_from(directory: Path) -> Recovered:
    store = RocksStore(directory, settings=SMALL_STORE)
    try:
        return recover(store)
    finally:
        store.close()


def piece_file(kept: Kept, beginning: str) -> Path:
    """The last file whose path begins so: its pages are live."""
    *_, last = (
        one for one in kept.manifest().pieces if one.path.startswith(beginning) and not one.path.endswith("log")
    )
    return kept.folder / last.name


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(bytes(content))


def test_a_restored_directory_has_all_records(kept: Kept, tmp_path: Path) -> None:
    restored(kept, tmp_path / "new")

    assert verify(tmp_path / "new").clean
    assert judged(tmp_path / "new").wrong == []


def test_a_restored_directory_is_closed_to_other_accounts(kept: Kept, tmp_path: Path) -> None:
    restored(kept, tmp_path / "new")

    assert close_to_others(tmp_path / "new") == 0


def test_a_restore_reports_the_bytes_that_it_has_read(kept: Kept, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []

    restore(
        kept.target,
        kept.manifest(),
        tmp_path / "new",
        on_damage=OnDamage.STOP,
        store_id=NEW_ID,
        at_us=AT_US,
        on_bytes=lambda total, done: seen.append((total, done)),
    )

    total = sum(piece.stored_bytes for piece in kept.manifest().pieces)
    assert {each for each, _ in seen} == {total}
    assert [done for _, done in seen] == sorted(done for _, done in seen)
    assert (seen[0], seen[-1]) == ((total, 0), (total, total))


def test_a_verification_reports_bytes_and_then_partitions(kept: Kept, tmp_path: Path) -> None:
    seen: list[str] = []
    partitions: list[tuple[int, int]] = []

    def on_partition(total: int, done: int) -> None:
        seen.append("partitions")
        partitions.append((total, done))

    verify_backup(
        kept.target,
        kept.manifest(),
        work_dir=tmp_path,
        on_bytes=lambda _total, _done: seen.append("bytes"),
        on_partition=on_partition,
    )

    assert sorted(set(seen)) == ["bytes", "partitions"]
    assert seen == sorted(seen)
    assert partitions == [(len(NAMES), done) for done in range(len(NAMES) + 1)]


def test_each_partition_continues_after_all_that_may_have_been_assigned(kept: Kept, tmp_path: Path) -> None:
    report = restored(kept, tmp_path / "new")

    found = recovered_from(tmp_path / "new")
    assert [sink.name for sink in report.sinks] == list(NAMES)
    part = report.sinks[0].partitions[0]
    resumes_at = resumed_offset(END, AT_US)
    assert (part.records, part.end, part.resumes_at) == (240, END, resumes_at)
    for sink in found.sinks:
        assert sink.tails[0].next_offset == resumes_at
        gap = sink.gaps[0][-1]
        assert (gap.first, gap.end, gap.reason, gap.at_most) == (END, resumes_at, DropReason.RESTORED, True)
        assert all(cursor.balances(resumes_at) for cursor in sink.cursors.values())


def test_a_restore_counts_as_many_starts_and_makes_a_new_store(kept: Kept, tmp_path: Path) -> None:
    before = kept.manifest()

    restored(kept, tmp_path / "new")

    found = recovered_from(tmp_path / "new")
    assert found.restored is not None
    assert found.start_count > before.start_count + starts_skipped(found.restored, before.start_count + 1)
    assert found.store_id == NEW_ID != found.journal.store_id.hex()
    assert (found.restored.backup, found.restored.restored_at_us) == (before.id, AT_US)


def test_two_restores_of_a_backup_at_the_same_time_continue_with_different_starts(kept: Kept, tmp_path: Path) -> None:
    counts = set()
    for number in (1, 2):
        restored(kept, tmp_path / str(number), store_id=f"{number:032x}")
        counts.add(recovered_from(tmp_path / str(number)).start_count)

    assert len(counts) == 2


def test_the_report_says_per_sink_what_is_delivered_and_who_wrote_epochs(kept: Kept, tmp_path: Path) -> None:
    sink = restored(kept, tmp_path / "new").sinks[0]

    assert [(one.name, one.unsettled) for one in sink.subscriptions] == [("default", 190), ("second", 240)]
    assert [(one.write_name, one.epoch) for one in sink.producers] == [("query", 3)]
    assert sink.writers == 1


def test_a_directory_with_content_is_left_alone(kept: Kept, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "mine").write_text("x")

    with pytest.raises(BackupError, match="not empty"):
        restored(kept, tmp_path / "new")


def test_data_of_a_newer_format_is_refused_with_the_version_that_wrote_it(kept: Kept, tmp_path: Path) -> None:
    newer = replace(kept.manifest(), data_format=99)

    with pytest.raises(BackupError, match=r"format 99 and was written by Forebay 1\.2\.3"):
        restored(kept, tmp_path / "new", manifest=newer)


@pytest.mark.parametrize("beginning", ["bulk/", "db/0"])
def test_a_damaged_file_stops_a_restore_and_leaves_nothing(kept: Kept, tmp_path: Path, beginning: str) -> None:
    flip(piece_file(kept, beginning), 5)

    with pytest.raises(BackupDamaged, match=rf"{beginning}.* has other bytes"):
        restored(kept, tmp_path / "new")

    assert not (tmp_path / "new").exists()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_missing_file_is_damage_too(kept: Kept, tmp_path: Path) -> None:
    piece_file(kept, "bulk/").unlink()

    with pytest.raises(BackupDamaged, match="is missing"):
        restored(kept, tmp_path / "new")


def test_skip_loses_the_damaged_page_and_remove_all_pages_of_the_file(kept: Kept, tmp_path: Path) -> None:
    flip(piece_file(kept, "bulk/"), 600)

    skipped = restored(kept, tmp_path / "skipped", on_damage=OnDamage.SKIP)
    removed = restored(kept, tmp_path / "removed", on_damage=OnDamage.REMOVE)

    assert len(skipped.damaged) == len(removed.damaged) == 1
    records = [sum(part.records for sink in each.sinks for part in sink.partitions) for each in (skipped, removed)]
    assert records == [710, 690]
    assert any("damaged" in line for line in skipped.repaired)
    for name in ("skipped", "removed"):
        assert verify(tmp_path / name).clean


def test_a_verification_finds_a_sound_backup_clean(kept: Kept, tmp_path: Path) -> None:
    report = verify_backup(kept.target, kept.manifest(), work_dir=tmp_path)

    assert report.clean, report.problems
    assert sum(part.records for part in report.partitions) == 720


def test_a_verification_names_each_damaged_file(kept: Kept, tmp_path: Path) -> None:
    flip(piece_file(kept, "bulk/"), 5)

    report = verify_backup(kept.target, kept.manifest(), work_dir=tmp_path)

    assert not report.clean
    assert "has other bytes" in report.problems[0]


def test_a_verification_compares_the_accounts(kept: Kept, tmp_path: Path) -> None:
    manifest = kept.manifest()
    sink = manifest.sinks[0]
    wrong = replace(sink, partitions=(replace(sink.partitions[0], next_offset=301),))

    report = verify_backup(kept.target, replace(manifest, sinks=(wrong, *manifest.sinks[1:])), work_dir=tmp_path)

    assert report.problems == ("first/0 offsets: (50, 300), and (50, 301) in the manifest",)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"incarnation": "other"}, "first incarnation: abc, and other in the manifest"),
        ({"settled": {"default": 100, "second": 51}}, "first settled of second: 50, and 51 in the manifest"),
        ({"epochs": {"query": 4}}, "first last epoch of query: 3, and 4 in the manifest"),
        ({"epochs": {}}, "first last epoch of query: 3, and None in the manifest"),
        ({"partitions": (PartitionAccount(50, 300, 239),)}, "first/0 records: 240, and 239 in the manifest"),
    ],
)
def test_a_verification_compares_each_fact_of_an_account(
    kept: Kept, tmp_path: Path, change: dict[str, Any], problem: str
) -> None:
    manifest = kept.manifest()
    sink, *others = manifest.sinks

    report = verify_backup(kept.target, replace(manifest, sinks=(replace(sink, **change), *others)), work_dir=tmp_path)

    assert report.problems == (problem,)


def test_a_verification_compares_sinks_and_saved_positions(kept: Kept, tmp_path: Path) -> None:
    manifest = kept.manifest()

    report = verify_backup(kept.target, replace(manifest, sinks=manifest.sinks[:-1], positions=9), work_dir=tmp_path)

    assert f"{manifest.sinks[-1].name} incarnation: abc, and None in the manifest" in report.problems
    assert f"saved positions: {manifest.positions}, and 9 in the manifest" in report.problems


class BadSector(DirectoryTarget):
    """A target with one file of which only the first bytes can be read."""

    def __init__(self, folder: Path, file: str, readable: int) -> None:
        super().__init__(folder)
        self._file = file
        self._readable = readable

    def get(self, name: str) -> Iterator[bytes]:
        if name != self._file:
            yield from super().get(name)
            return
        with self._failing():
            yield (self.directory / name).read_bytes()[: self._readable]
            raise OSError(errno.EIO, "Input/output error")


def test_a_file_that_cannot_be_read_to_its_end_is_damaged_like_any_other(kept: Kept, tmp_path: Path) -> None:
    piece = next(one for one in kept.manifest().pieces if one.path.startswith("bulk/"))
    target = BadSector(kept.folder, piece.name, 4096)

    with pytest.raises(BackupDamaged, match=rf"{piece.path} cannot be read from byte 4096 on: Input/output error"):
        restore(target, kept.manifest(), tmp_path / "new", on_damage=OnDamage.STOP, store_id=NEW_ID, at_us=AT_US)
    verified = verify_backup(target, kept.manifest(), work_dir=tmp_path)
    skipped = restore(target, kept.manifest(), tmp_path / "new", on_damage=OnDamage.SKIP, store_id=NEW_ID, at_us=AT_US)

    assert "cannot be read from byte 4096" in verified.problems[0]
    assert "cannot be read from byte 4096" in skipped.damaged[0]
    assert verify(tmp_path / "new").clean


# -- beside others


class Interrupted(DirectoryTarget):
    """A target in which something happens before the first page file is read."""

    def __init__(self, folder: Path, meanwhile: Callable[[], None]) -> None:
        super().__init__(folder)
        self._meanwhile: Callable[[], None] | None = meanwhile

    def get(self, name: str) -> Iterator[bytes]:
        if "/bulk/" in name and self._meanwhile is not None:
            meanwhile, self._meanwhile = self._meanwhile, None
            meanwhile()
        return super().get(name)


@pytest.mark.parametrize("on_damage", OnDamage)
def test_a_backup_that_is_pruned_during_its_restore_is_no_damage_and_nothing_is_restored(
    kept: Kept, tmp_path: Path, on_damage: OnDamage
) -> None:
    manifest = kept.manifest()

    def delete() -> None:
        later = replace(manifest, id="later", number=manifest.number + 1, pieces=())
        kept.target.put(manifest_name("later"), [later.encode()])
        assert prune(kept.target, now_us=AT_US, keep_last=1, keep_days=0).backups == (manifest.id,)

    with pytest.raises(BackupNotFound, match="deleted while it was read"):
        restore(
            Interrupted(kept.folder, delete),
            manifest,
            tmp_path / "new",
            on_damage=on_damage,
            store_id=NEW_ID,
            at_us=AT_US,
        )

    assert not (tmp_path / "new").exists()


def test_of_two_restores_into_one_directory_the_second_is_refused_and_the_first_is_whole(
    kept: Kept, tmp_path: Path
) -> None:
    refused: list[str] = []

    def again() -> None:
        with pytest.raises(BackupError, match="another restore into") as second:
            restored(kept, tmp_path / "new")
        refused.append(str(second.value))

    target = Interrupted(kept.folder, again)
    restore(target, kept.manifest(), tmp_path / "new", on_damage=OnDamage.STOP, store_id=NEW_ID, at_us=AT_US)

    assert len(refused) == 1
    assert verify(tmp_path / "new").clean
    with pytest.raises(BackupError, match="not empty"):
        restored(kept, tmp_path / "new")


def test_a_directory_that_was_filled_during_a_restore_is_left_alone(kept: Kept, tmp_path: Path) -> None:
    def fill() -> None:
        (tmp_path / "new").mkdir()
        (tmp_path / "new" / "mine").write_text("x")

    with pytest.raises(BackupError, match="not empty"):
        restore(
            Interrupted(kept.folder, fill),
            kept.manifest(),
            tmp_path / "new",
            on_damage=OnDamage.STOP,
            store_id=NEW_ID,
            at_us=AT_US,
        )

    assert [path.name for path in (tmp_path / "new").iterdir()] == ["mine"]


def test_leftovers_of_a_killed_restore_are_deleted_by_the_next_one(kept: Kept, tmp_path: Path) -> None:
    left = tmp_path / ".new.restoring" / "data" / "bulk"
    left.mkdir(parents=True)
    (left / "x.pages").write_text("x")

    restored(kept, tmp_path / "new")

    assert verify(tmp_path / "new").clean
    assert not (tmp_path / ".new.restoring").exists()
