"""Checkpoints after one whose manifest is damaged: they share nothing with it, and replace it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from forebay.broker.storage.backup.errors import BackupError, TargetFailed
from forebay.broker.storage.backup.manifest import FORMAT, manifest_name
from forebay.broker.storage.backup.target import Target
from forebay.broker.storage.backup.transfer import Pace
from forebay.broker.storage.errors import StoreError
from forebay.broker.storage.replication.checkpoints import job as jobs
from forebay.broker.storage.replication.checkpoints import mark as marks
from forebay.broker.storage.replication.checkpoints.errors import CheckpointDamaged
from forebay.broker.storage.replication.checkpoints.job import CheckpointJob, Origin
from forebay.broker.storage.replication.checkpoints.loading import is_loaded, load_newest
from forebay.broker.storage.replication.checkpoints.manifests import load_manifest
from forebay.broker.storage.replication.checkpoints.mark import Mark, Marks, mark_name
from forebay.broker.storage.replication.engine import Engine, EngineAway
from forebay.broker.storage.replication.engines.memory import MemoryEngine
from forebay.broker.storage.replication.followers.upkeep import CheckpointFailed
from forebay.broker.storage.replication.replica import Replica
from forebay.broker.storage.store.contract import Family, Put
from tests.support.storage.checkpointed import AT_US, Checkpointed, content_of, follow
from tests.support.storage.jobs import STEPS, begun, run
from tests.support.storage.journals import interrupting

NEVER = threading.Event()


def cut_off(content: bytes) -> bytes:
    return content[: len(content) // 2]


def empty(content: bytes) -> bytes:
    return b""


def flipped(content: bytes) -> bytes:
    return content[:40] + bytes([content[40] ^ 1]) + content[41:]


DAMAGES: Final = [cut_off, empty, flipped]


@pytest.fixture
def shard(tmp_path: Path) -> Iterator[Checkpointed]:
    """A shard whose journal has one checkpoint."""
    made = Checkpointed.with_checkpoint(tmp_path)
    yield made
    with suppress(StoreError):
        made.close()


def damage(shard: Checkpointed, how: Callable[[bytes], bytes] = flipped) -> Mark:
    """Damage the manifest of the newest checkpoint, and return its mark."""
    newest, files = shard.newest(), shard.engine.files()
    content = b"".join(files.get(manifest_name(newest.id)))
    files.put(manifest_name(newest.id), [how(content)])
    return newest


def append(shard: Checkpointed, count: int = 1) -> None:
    for number in range(count):
        shard.store.commit([], [Put(Family.META, b"later", b"%d" % number)])


def records_in(engine: Engine) -> list[int]:
    return [position for position, _ in engine.sizes(0, 1 << 63)]


def assert_whole(shard: Checkpointed, folder: Path) -> None:
    """Assert that an empty disk gets everything, and that the journal has nothing else than the newest checkpoint."""
    newest = shard.newest()
    manifest = load_manifest(shard.engine.files(), newest)
    held = {piece.name for piece in manifest.pieces}
    assert set(shard.engine.files().names()) - held == {manifest_name(newest.id), f"{newest.id}/started"}
    assert load_newest(shard.engine, Marks(shard.engine), folder, NEVER) == newest
    with closing(follow(shard.engine, folder)) as store:
        assert content_of(store) == content_of(shard.store)


@pytest.mark.parametrize("how", DAMAGES)
def test_a_checkpoint_after_one_with_a_damaged_manifest_has_everything_and_trims_the_journal(
    shard: Checkpointed, tmp_path: Path, how: Callable[[bytes], bytes]
) -> None:
    before = damage(shard, how)
    append(shard, 5)

    made = shard.check_point()

    manifest = load_manifest(shard.engine.files(), shard.newest())
    assert (shard.newest().number, made.parent) == (before.number + 1, "")
    assert {piece.held_by for piece in manifest.pieces} == {shard.newest().id}
    assert records_in(shard.engine) == [0]
    assert_whole(shard, tmp_path / "b")


def test_a_follower_replaces_a_checkpoint_with_a_damaged_manifest(tmp_path: Path) -> None:
    engine = MemoryEngine()
    with closing(Checkpointed(engine, tmp_path / "a")) as shard:
        shard.check_point()
        folder = tmp_path / "follower"
        load_newest(engine, Marks(engine), folder, NEVER)
        damage(shard)
        append(shard, 5)
        with closing(follow(engine, folder)) as store:
            replica = Replica(store)
            origin = Origin(store, folder, lambda: replica.place, lambda: replica.journal)
            run(
                CheckpointJob(
                    *(engine, origin),
                    tables_of="",
                    pace=Pace(time.monotonic),
                    clock_us=lambda: AT_US,
                    failed=CheckpointFailed,
                )
            )

        assert shard.newest().number == 1
        assert records_in(engine) == [0]
        assert_whole(shard, tmp_path / "b")


def test_a_checkpoint_after_one_whose_manifest_is_missing_has_everything(shard: Checkpointed, tmp_path: Path) -> None:
    shard.engine.files().delete([manifest_name(shard.newest().id)])
    append(shard)

    shard.check_point()

    assert_whole(shard, tmp_path / "b")


def test_the_checkpoint_after_the_one_that_shares_nothing_shares_its_files(shard: Checkpointed, tmp_path: Path) -> None:
    damage(shard)
    append(shard)
    second = shard.check_point()
    append(shard)

    third = shard.check_point()

    assert third.parent == second.id
    assert third.transferred_bytes < second.transferred_bytes
    assert_whole(shard, tmp_path / "b")


def test_a_manifest_that_is_damaged_is_logged_once_with_what_replaced_it(
    shard: Checkpointed, caplog: pytest.LogCaptureFixture
) -> None:
    before = damage(shard)
    append(shard)

    size = shard.check_point().size
    append(shard)
    shard.check_point()

    [record] = [each for each in caplog.records if each.levelno >= logging.WARNING and each.name == jobs.__name__]
    assert record.getMessage() == (
        "checkpoint replaced one without a readable manifest, everything was transferred journal="
        f"{shard.engine.address} checkpoint=1 bytes={size} cause=its manifest {before.id}/manifest has other bytes "
        "than its checksum says"
    )


def test_an_empty_disk_refuses_a_checkpoint_with_a_damaged_manifest_and_is_filled_from_the_next_one(
    shard: Checkpointed, tmp_path: Path
) -> None:
    damage(shard)
    append(shard)

    with pytest.raises(
        CheckpointDamaged, match=r"checkpoint 0 is damaged: its manifest .* Start a broker of the shard"
    ):
        load_newest(shard.engine, Marks(shard.engine), tmp_path / "b", NEVER)
    assert not is_loaded(tmp_path / "b")
    shard.check_point()

    assert_whole(shard, tmp_path / "b")


@pytest.mark.parametrize("step", ["prepare", "take", "copy", "read back", "mark"])
def test_a_crash_before_the_mark_deletes_nothing_of_the_checkpoint_before(
    shard: Checkpointed, tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage(shard)
    append(shard, 3)
    files, records = set(shard.engine.files().names()), records_in(shard.engine)
    job = begun(shard.source.job(), step if step in STEPS else STEPS[-1])
    if step in {"read back", "mark"}:
        killed: tuple[object, str] = (Marks, "add") if step == "mark" else (CheckpointJob, "_read_back")
        monkeypatch.setattr(*killed, _killed)
        with pytest.raises(CheckpointFailed, match="killed"):
            job.finish(lambda: 1.0)
        monkeypatch.undo()
    job.remove()

    assert files <= set(shard.engine.files().names())
    assert records_in(shard.engine) == records
    append(shard)
    shard.check_point()
    assert_whole(shard, tmp_path / "b")


def _killed(*_: object) -> bool:
    raise EngineAway("killed")


@pytest.mark.parametrize("step", ["trim", "sweep", "delete_notes"])
def test_a_crash_after_the_mark_leaves_a_trim_that_the_next_checkpoint_completes(
    shard: Checkpointed, tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage(shard)
    append(shard, 3)
    monkeypatch.setattr(jobs, step, _killed)
    with pytest.raises(CheckpointFailed, match="killed"):
        shard.check_point()
    monkeypatch.undo()
    append(shard, 3)

    shard.check_point()

    assert records_in(shard.engine) == [0]
    assert_whole(shard, tmp_path / "b")


@pytest.mark.parametrize("kills", [1, 2, 3])
def test_records_that_checkpoints_with_damaged_manifests_did_not_trim_are_trimmed_by_the_next_one(
    shard: Checkpointed, tmp_path: Path, kills: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each broker is killed after its mark, and before its trim; the manifest of each is damaged."""
    kept = 1
    for _ in range(kills):
        append(shard, 3)
        kept += 3
        job = begun(shard.source.job())
        monkeypatch.setattr(jobs, "trim", _killed)
        with pytest.raises(CheckpointFailed, match="killed"):
            job.finish(lambda: 1.0)
        monkeypatch.undo()
        job.remove()
        damage(shard)
        assert len(records_in(shard.engine)) == kept, "a checkpoint that cannot be loaded replaces no record"
    append(shard, 3)

    shard.check_point()

    assert shard.newest().number == kills + 1
    assert records_in(shard.engine) == [0]
    assert_whole(shard, tmp_path / "b")


def test_a_trim_after_damaged_manifests_that_was_interrupted_is_completed_by_the_next_checkpoint(
    tmp_path: Path,
) -> None:
    for changes in (0, 2, 4, 7):
        engine = MemoryEngine()
        shard = Checkpointed(engine, tmp_path / f"a{changes}")
        engine.before_trim = interrupting(0)
        with pytest.raises(CheckpointFailed, match="killed"):
            shard.check_point()
        damage(shard)
        append(shard, 3)
        engine.before_trim = interrupting(changes)
        with suppress(CheckpointFailed):
            shard.check_point()
        engine.before_trim = lambda position: None
        append(shard, 3)

        shard.check_point()

        assert records_in(engine) == [0]
        assert_whole(shard, tmp_path / f"b{changes}")
        shard.close()


def test_of_two_brokers_that_replace_a_damaged_checkpoint_one_gives_up_and_leaves_nothing(
    shard: Checkpointed,
) -> None:
    before = damage(shard)
    append(shard)
    slower = begun(shard.source.job())
    Marks(shard.engine).add(replace(before, number=1, id="0000000001-rival"))

    with pytest.raises(CheckpointFailed, match="another broker has made checkpoint 1"):
        slower.finish(lambda: 1.0)

    slower.remove()
    assert {name.partition("/")[0] for name in shard.engine.files().names()} == {before.id}


def test_a_broker_whose_checkpoint_was_replaced_meanwhile_deletes_nothing_of_the_newer_one(
    shard: Checkpointed, tmp_path: Path
) -> None:
    damage(shard)
    append(shard)
    slower = begun(shard.source.job())
    append(shard)
    shard.check_point()
    append(shard)
    shard.check_point()

    with pytest.raises(CheckpointFailed, match="was deleted before it was complete"):
        slower.finish(lambda: 1.0)

    slower.remove()
    assert_whole(shard, tmp_path / "b")


def test_a_manifest_that_another_broker_has_replaced_while_it_was_read_is_not_damaged(
    shard: Checkpointed, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(shard)
    job = shard.source.job()
    refresh = Marks.refresh

    def refresh_late(of: Marks) -> Mark | None:
        found = refresh(of)
        monkeypatch.undo()
        shard.check_point()
        return found

    monkeypatch.setattr(Marks, "refresh", refresh_late)
    with pytest.raises(CheckpointFailed, match="manifest"):
        job.prepare()

    job.remove()
    assert shard.newest().number == 1
    assert {name.partition("/")[0] for name in shard.engine.files().names()} >= {shard.newest().id}


def test_a_manifest_of_a_later_version_is_not_damaged_and_no_checkpoint_replaces_it(
    shard: Checkpointed, tmp_path: Path
) -> None:
    newest, files = shard.newest(), shard.engine.files()
    later = replace(load_manifest(files, newest), format=FORMAT + 1, version="99.0").encode()
    files.put(manifest_name(newest.id), [later])
    append(shard)
    before = set(files.names()), records_in(shard.engine)

    with pytest.raises(CheckpointFailed, match=r"was written by Forebay 99.0; .*: use that version, or a newer one"):
        shard.check_point()
    with pytest.raises(BackupError, match="use that version, or a newer one") as refused:
        load_newest(shard.engine, Marks(shard.engine), tmp_path / "b", NEVER)

    assert not isinstance(refused.value, CheckpointDamaged)
    assert (set(files.names()), records_in(shard.engine)) == before
    assert shard.newest() == newest


def test_a_mark_of_a_later_version_is_not_replaced(shard: Checkpointed) -> None:
    append(shard)
    later = replace(shard.newest(), number=1, format=marks.FORMAT + 1)
    shard.engine.create_named(mark_name(1), later.encode())

    with pytest.raises(CheckpointFailed, match="checkpoint 1 has format 2; this version reads up to 1"):
        shard.check_point()


def test_a_manifest_that_a_journal_without_an_answer_does_not_give_is_not_damaged(tmp_path: Path) -> None:
    with closing(Checkpointed.with_checkpoint(tmp_path)) as shard:
        append(shard)
        job = shard.source.job()
        newest = shard.newest()
        (tmp_path / "journal").rename(tmp_path / "away")
        (tmp_path / "journal").mkdir()
        try:
            with pytest.raises(CheckpointFailed, match="Another directory is in its place"):
                job.prepare()
            assert list((tmp_path / "journal").iterdir()) == []
        finally:
            (tmp_path / "journal").rmdir()
            (tmp_path / "away").rename(tmp_path / "journal")
        job.remove()
        shard.check_point()

        assert load_manifest(shard.engine.files(), shard.newest()).parent == newest.id


@pytest.mark.parametrize("failure", [TargetFailed("the bucket does not answer"), EngineAway("no answer")])
def test_a_manifest_whose_read_fails_is_not_damaged(
    shard: Checkpointed, failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(shard)
    files = shard.engine.files()

    def fail(self: object, name: str) -> Iterator[bytes]:
        if name == manifest_name(newest.id):
            raise failure
        yield b""

    newest = shard.newest()
    with monkeypatch.context() as away:
        away.setattr(type(files), "get", fail)
        with pytest.raises(CheckpointFailed, match=str(failure)):
            shard.check_point()
    assert shard.newest() == newest

    shard.check_point()

    assert load_manifest(files, shard.newest()).parent == newest.id


def test_a_checkpoint_whose_manifest_is_not_read_back_as_it_was_written_gets_no_mark(
    shard: Checkpointed, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(shard)
    before, records = shard.newest(), records_in(shard.engine)
    files = shard.engine.files()
    put = type(files).put

    def put_damaged(self: Target, name: str, chunks: Iterable[bytes]) -> None:
        put(self, name, [flipped(b"".join(chunks))] if name.endswith("/manifest") else chunks)

    monkeypatch.setattr(type(files), "put", put_damaged)
    with pytest.raises(
        CheckpointFailed, match="checkpoint 1 is damaged: its manifest has other bytes than were written"
    ):
        shard.check_point()

    assert shard.newest() == before
    assert records_in(shard.engine) == records
    assert {name.partition("/")[0] for name in files.names()} == {before.id}


def test_a_damaged_replica_does_not_replace_a_checkpoint_with_a_damaged_manifest(shard: Checkpointed) -> None:
    before = damage(shard)
    path = max((shard.directory / "bulk").iterdir())
    content = bytearray(path.read_bytes())
    content[1_000] ^= 1
    path.write_bytes(content)
    append(shard)
    files = set(shard.engine.files().names())

    for _ in range(2):
        with pytest.raises(CheckpointFailed, match="the store is damaged"):
            shard.check_point()

    assert shard.newest() == before
    assert set(shard.engine.files().names()) == files
