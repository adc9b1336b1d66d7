from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.broker.storage.backup.catalog import RUNNING_US, list_backups, prune
from forebay.broker.storage.backup.restores.restore import verify_backup
from forebay.broker.storage.store.contract import Family, Put
from tests.support.storage.backed_up import STORE_ID, BackedUp, Refused
from tests.support.storage.disk_directory import NAMES


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[BackedUp]:
    kept = BackedUp(tmp_path)
    yield kept
    kept.store.close()


def test_the_first_backup_is_full_and_the_next_one_transfers_what_is_new(kept: BackedUp) -> None:
    first = kept.back_up()
    kept.store.write([Put(Family.META, b"\x01new", b"x")])
    second = kept.back_up()

    assert (first.parent, first.transferred_bytes) == ("", first.size)
    assert second.parent == first.id
    assert second.transferred_bytes < first.transferred_bytes
    again = {piece.path for piece in kept.manifest().pieces if piece.held_by == first.id}
    assert any(path.startswith("bulk/") for path in again)
    assert any(path.endswith(".sst") for path in again)


def test_a_table_of_the_same_name_and_size_that_was_written_later_is_transferred(kept: BackedUp) -> None:
    kept.back_up()
    table = next(path for path in (kept.directory / "db").glob("*.sst"))
    os.utime(table, ns=(1, 1))

    second = kept.back_up()

    held_by = {piece.path: piece.held_by for piece in kept.manifest().pieces}
    assert held_by[f"db/{table.name}"] == second.id
    assert len(set(held_by.values())) == 2


def test_a_file_of_the_parent_that_the_target_lost_is_transferred_again(kept: BackedUp) -> None:
    first = kept.back_up()
    lost = next(piece for piece in kept.manifest().pieces if piece.path.startswith("bulk/"))
    (Path(kept.target_text) / lost.name).unlink()

    second = kept.back_up()

    held_by = {piece.path: piece.held_by for piece in kept.manifest().pieces}
    assert held_by[lost.path] == second.id
    assert first.id in held_by.values()


def test_a_full_backup_transfers_everything_again(kept: BackedUp) -> None:
    kept.back_up()

    assert kept.back_up(full=True).parent == ""


def test_a_backup_of_another_store_is_no_parent(kept: BackedUp, tmp_path: Path) -> None:
    kept.back_up()
    other = BackedUp(tmp_path / "other")
    other.store.close()
    origin = kept.backups._origin

    assert origin.store_id == STORE_ID
    assert other.backups.newest() is None
    newest = kept.backups.newest()
    assert newest is not None
    assert newest.sinks == len(NAMES)


def test_the_manifest_has_the_accounts_of_the_sinks(kept: BackedUp) -> None:
    kept.back_up()

    sink = kept.manifest().sinks[0]
    assert (sink.name, sink.incarnation) == ("first", "abc")
    assert [(part.earliest, part.next_offset, part.records) for part in sink.partitions] == [(50, 300, 240)]
    assert sink.settled == {"default": 100, "second": 50}
    assert sink.epochs == {"query": 3}


def test_the_snapshot_is_gone_after_a_backup_and_at_the_next_start(kept: BackedUp) -> None:
    kept.back_up()
    assert not (kept.directory / "snapshot").exists()

    job = kept.backups.job(full=False, at_us=1, busy=lambda: False)
    job.prepare()
    job.take()
    assert len(list((kept.directory / "snapshot").glob("*/db/CURRENT"))) == 1
    kept.store.close()
    reopened = type(kept.store)(kept.directory)
    reopened.close()

    assert not (kept.directory / "snapshot").exists()


def test_a_backup_shares_no_file_with_the_snapshot_that_a_killed_broker_left(kept: BackedUp) -> None:
    killed = kept.backups.job(full=False, at_us=1, busy=lambda: False)
    killed.prepare()
    killed.take()
    [left] = (kept.directory / "snapshot").iterdir()
    before = sorted(path.name for path in left.rglob("*"))

    kept.back_up()

    assert sorted(path.name for path in left.rglob("*")) == before
    assert list((kept.directory / "snapshot").iterdir()) == [left]


def test_a_stopped_backup_is_incomplete_and_says_why(kept: BackedUp) -> None:
    job = kept.backups.job(full=False, at_us=1, busy=lambda: False)
    job.prepare()
    job.take()
    job.stop("the test wants it")

    with pytest.raises(Refused, match="incomplete: the test wants it"):
        job.copy_bulk(lambda: None)

    assert [one.complete for one in list_backups(kept.target)] == [False]


def test_a_target_that_fails_is_named(kept: BackedUp, tmp_path: Path) -> None:
    Path(kept.target_text).write_text("")

    with pytest.raises(Refused, match="backup target"):
        kept.back_up()


def test_a_backup_after_the_clock_went_back_is_the_newest_and_the_parent_of_the_next_one(kept: BackedUp) -> None:
    ahead = kept.back_up()
    times = iter(range(1, 1_000))
    kept.clock = lambda: next(times)
    kept.backups._clock_us = kept.clock
    behind = kept.back_up()

    assert behind.taken_at_us < ahead.taken_at_us
    assert kept.manifest().id == behind.id
    assert kept.back_up().parent == behind.id
    newest = kept.backups.newest()
    assert newest is not None
    assert newest.parent == behind.id


def test_brokers_that_share_a_target_do_not_lose_a_backup_that_runs_while_the_other_is_pruned(tmp_path: Path) -> None:
    target = str(tmp_path / "target")
    one, other = (
        BackedUp(tmp_path / "one", target=target),
        BackedUp(tmp_path / "other", target=target, store_id="6" * 32),
    )
    for _ in range(3):
        one.back_up()
    first = other.back_up()
    job = other.backups.job(full=False, at_us=other.clock(), busy=lambda: False)
    job.prepare()
    job.take()
    job.copy_bulk(lambda: None)

    one.back_up()
    prune(one.target, now_us=one.clock(), keep_last=1, keep_days=0)
    one.backups.prune(one.clock())
    job.copy_rest(lambda: None)
    second = job.finish(lambda: 1.0)
    job.remove()
    prune(one.target, now_us=one.clock(), keep_last=1, keep_days=0)

    assert second.parent == first.id
    left = [found.manifest for found in list_backups(one.target) if found.manifest is not None]
    assert sorted(manifest.store_id for manifest in left) == ["5" * 32, "6" * 32]
    for manifest in left:
        assert verify_backup(one.target, manifest, work_dir=tmp_path).clean
    one.store.close()
    other.store.close()


def test_a_backup_that_was_pruned_as_an_abandoned_one_does_not_become_complete(kept: BackedUp) -> None:
    job = kept.backups.job(full=False, at_us=kept.clock(), busy=lambda: False)
    job.prepare()
    job.take()
    job.copy_bulk(lambda: None)

    prune(kept.target, now_us=kept.clock() + 2 * RUNNING_US, keep_last=1, keep_days=0)
    job.copy_rest(lambda: None)
    with pytest.raises(Refused, match="deleted before it was complete"):
        job.finish(lambda: 1.0)

    assert not any(one.complete for one in list_backups(kept.target))


def test_old_backups_are_pruned_as_the_settings_say(kept: BackedUp) -> None:
    made = [kept.back_up() for _ in range(4)]

    assert kept.backups.prune(kept.clock()) == 2
    assert [one.id for one in list_backups(kept.target)] == [one.id for one in made[2:]]
