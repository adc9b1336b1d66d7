"""Checkpoints of a store on disk: what they hold, what they refuse, and the way back onto an empty disk."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from forebay.broker.core.last_check import LastCheck
from forebay.broker.storage.backup.errors import BackupStopped
from forebay.broker.storage.errors import StoreError
from forebay.broker.storage.records.pages.page import ALL_BULK, BULK_PAGE
from forebay.broker.storage.records.store import HIGHEST
from forebay.broker.storage.repair import last_check
from forebay.broker.storage.replication.checkpoints import job as jobs
from forebay.broker.storage.replication.checkpoints.errors import CheckpointDamaged, MarkDamaged
from forebay.broker.storage.replication.checkpoints.loading import is_loaded, load
from forebay.broker.storage.replication.checkpoints.manifests import load_manifest
from forebay.broker.storage.replication.checkpoints.mark import Mark, Marks, mark_name
from forebay.broker.storage.replication.engine import Engine, EngineAway
from forebay.broker.storage.replication.engines.directory import DirectoryEngine
from forebay.broker.storage.replication.engines.memory import MemoryEngine
from forebay.broker.storage.replication.followers.upkeep import CheckpointFailed
from forebay.broker.storage.store.contract import Delete, DeleteRange, Family, Put
from tests.support.storage.checkpointed import Checkpointed, Stop, content_of, follow, page_of
from tests.support.storage.jobs import STEPS, begun

NEVER = threading.Event()


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return DirectoryEngine(tmp_path / "journal")


@pytest.fixture
def shard(engine: Engine, tmp_path: Path) -> Iterator[Checkpointed]:
    made = Checkpointed(engine, tmp_path / "a")
    yield made
    with suppress(StoreError):
        made.store.close()


def records_in(engine: Engine) -> list[int]:
    return [position for position, _ in engine.sizes(0, 1 << 63)]


def load_newest(shard: Checkpointed, directory: Path) -> dict[Family, list[tuple[bytes, bytes]]]:
    """Load the newest checkpoint into a directory, follow to the end, and return the content."""
    load(shard.engine, shard.newest(), directory, NEVER)
    with closing(follow(shard.engine, directory)) as store:
        return content_of(store)


def test_checkpoint_and_journal_give_an_empty_disk_the_content_of_the_owner(
    shard: Checkpointed, tmp_path: Path
) -> None:
    shard.check_point()
    shard.store.commit([], [Put(Family.META, b"later", b"1")])

    loaded = load_newest(shard, tmp_path / "b")

    assert loaded == content_of(shard.store)
    assert loaded[Family.BULK]
    assert loaded[Family.SMALL]


def test_a_checkpoint_trims_the_records_that_it_replaces(shard: Checkpointed) -> None:
    before = records_in(shard.engine)

    shard.check_point()

    assert len(before) > 10
    assert records_in(shard.engine) == [0]
    assert shard.newest().position == shard.store.owner.position
    assert not (shard.directory / "snapshot").exists()


def test_the_next_checkpoint_transfers_only_what_is_new_and_deletes_what_it_does_not_name(
    shard: Checkpointed, tmp_path: Path
) -> None:
    shard.check_point()
    files = shard.engine.files()
    pages = {name for name in files.names() if name.endswith(".pages")}
    shard.store.commit([], [DeleteRange(Family.BULK, *ALL_BULK)])
    shard.store.compact(Family.BULK, *ALL_BULK)
    key = BULK_PAGE.key(1 << 50, 1, 0)
    shard.store.commit([(key, page_of(1 << 50))], [HIGHEST.put(HIGHEST.key(), (1 << 50, 1))])
    for entry, _ in content_of(shard.store)[Family.INDEX]:
        shard.store.commit([], [Delete(Family.INDEX, entry)])

    second = shard.check_point()

    assert second.parent
    left = {name for name in files.names() if name.endswith(".pages")}
    assert pages
    assert not left & pages
    assert {name.partition("/")[0] for name in left} == {shard.newest().id}
    assert load_newest(shard, tmp_path / "b") == content_of(shard.store)


def test_bulk_files_are_shared_with_the_checkpoint_before(shard: Checkpointed, tmp_path: Path) -> None:
    first = shard.check_point()
    shard.store.commit([], [Put(Family.META, b"later", b"1")])

    second = shard.check_point()

    assert second.transferred_bytes < first.transferred_bytes
    held_by = {name.partition("/")[0] for name in shard.engine.files().names() if name.endswith(".pages")}
    assert held_by == {first.id}
    assert load_newest(shard, tmp_path / "b") == content_of(shard.store)


def test_a_directory_that_is_behind_keeps_its_bulk_files(shard: Checkpointed, tmp_path: Path) -> None:
    with closing(follow(shard.engine, tmp_path / "b")):
        pass
    kept = {path: path.stat().st_ino for path in (tmp_path / "b" / "bulk").iterdir()}
    shard.store.commit([], [Put(Family.META, b"later", b"1")])
    shard.check_point()

    loaded = load_newest(shard, tmp_path / "b")

    assert loaded == content_of(shard.store)
    assert {path: path.stat().st_ino for path in (tmp_path / "b" / "bulk").iterdir()} == kept


def test_a_damaged_replica_makes_no_checkpoint(shard: Checkpointed) -> None:
    path = max((shard.directory / "bulk").iterdir())
    content = bytearray(path.read_bytes())
    content[1_000] ^= 1
    path.write_bytes(content)
    before = records_in(shard.engine)

    for _ in range(3):
        with pytest.raises(CheckpointFailed, match=r"is damaged: page \d+ of sink \d, partition 0 in .*: the checksum"):
            shard.check_point()

    assert Marks(shard.engine).refresh() is None
    assert records_in(shard.engine) == before
    assert not list(shard.engine.files().names())


def test_a_replica_that_misses_pages_makes_no_checkpoint(shard: Checkpointed) -> None:
    max((shard.directory / "bulk").iterdir()).unlink()

    with pytest.raises(CheckpointFailed, match=r"is damaged: page \d+ of sink \d, partition 0 is missing"):
        shard.check_point()

    assert Marks(shard.engine).refresh() is None


def test_a_checkpoint_whose_files_are_not_read_back_as_they_were_written_is_not_named(
    shard: Checkpointed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damage(*_: object) -> str:
        [name] = [name for name in shard.engine.files().names() if name.endswith("CURRENT")]
        shard.engine.files().put(name, [b"MANIFEST-999999\n"])
        return ""

    monkeypatch.setattr(jobs, "inspect", damage)
    before = records_in(shard.engine)

    with pytest.raises(CheckpointFailed, match="db/CURRENT has other bytes than its checksum says"):
        shard.check_point()

    assert Marks(shard.engine).refresh() is None
    assert records_in(shard.engine) == before
    assert not list(shard.engine.files().names())


def test_a_checkpoint_whose_mark_may_exist_keeps_its_files(
    shard: Checkpointed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = Marks.add

    def lose_the_answer(marks: Marks, mark: Mark) -> bool:
        add(marks, mark)
        raise EngineAway("the answer was lost")

    monkeypatch.setattr(Marks, "add", lose_the_answer)
    with pytest.raises(CheckpointFailed, match="the answer was lost"):
        shard.check_point()

    assert load_newest(shard, tmp_path / "b") == content_of(shard.store)


def test_of_two_brokers_that_make_the_same_checkpoint_one_gives_up_and_leaves_nothing(shard: Checkpointed) -> None:
    job = begun(shard.source.job())
    Marks(shard.engine).add(Mark(0, "0000000000-rival", 3, 1, "", 2, 1))

    with pytest.raises(CheckpointFailed, match="another broker has made checkpoint 0"):
        job.finish(lambda: 1.0)

    job.remove()
    assert not list(shard.engine.files().names())
    assert shard.newest().id == "0000000000-rival"


def test_a_checkpoint_whose_files_another_broker_has_deleted_meanwhile_is_given_up(shard: Checkpointed) -> None:
    job = begun(shard.source.job())
    shard.check_point()

    with pytest.raises(CheckpointFailed, match="was deleted before it was complete"):
        job.finish(lambda: 1.0)

    job.remove()
    assert {name.partition("/")[0] for name in shard.engine.files().names()} == {shard.newest().id}


@pytest.mark.parametrize("step", ["prepare", "take", "copy", "mark", "trim"])
def test_a_crash_at_any_step_costs_nothing_and_the_next_checkpoint_cleans_up(
    shard: Checkpointed, tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = begun(shard.source.job(), step if step in STEPS else STEPS[-1])
    if step in {"mark", "trim"}:
        monkeypatch.setattr(jobs, "trim" if step == "trim" else "inspect", _killed)
        if step == "mark":
            monkeypatch.setattr(Marks, "add", _killed)
        with pytest.raises(CheckpointFailed, match="killed"):
            job.finish(lambda: 1.0)
        monkeypatch.undo()
    job.remove()
    shard.store.commit([], [Put(Family.META, b"later", b"1")])
    shard.store.commit([], [Put(Family.META, b"later", b"2")])

    shard.check_point()

    assert records_in(shard.engine) == [0]
    assert load_newest(shard, tmp_path / "b") == content_of(shard.store)
    shard.store.commit([], [Put(Family.META, b"later", b"3")])
    shard.check_point()
    held = {piece.held_by for piece in load_manifest(shard.engine.files(), shard.newest()).pieces}
    assert {name.partition("/")[0] for name in shard.engine.files().names()} == held


def _killed(*_: object) -> bool:
    raise EngineAway("killed")


def test_a_load_that_was_interrupted_is_begun_again(shard: Checkpointed, tmp_path: Path) -> None:
    shard.check_point()
    directory = tmp_path / "b"
    for pieces in (1, 3, 6):
        with pytest.raises(BackupStopped):
            load(shard.engine, shard.newest(), directory, Stop(pieces))
        assert not is_loaded(directory)

    assert load_newest(shard, directory) == content_of(shard.store)


def test_a_load_forgets_what_a_verification_said_of_the_former_data(shard: Checkpointed, tmp_path: Path) -> None:
    directory = tmp_path / "b"
    directory.mkdir()
    last_check.save(directory, LastCheck(at_us=1, damage=0, damaged_pages=0, lost_records=0))
    shard.check_point()

    load_newest(shard, directory)

    assert last_check.last(directory) is None


def test_a_damaged_checkpoint_is_named(shard: Checkpointed, tmp_path: Path) -> None:
    shard.check_point()
    [name] = [name for name in shard.engine.files().names() if name.endswith("CURRENT")]
    shard.engine.files().put(name, [b"MANIFEST-999999\n"])

    with pytest.raises(CheckpointDamaged, match="checkpoint 0 is damaged: db/CURRENT has other bytes"):
        load(shard.engine, shard.newest(), tmp_path / "b", NEVER)

    assert not is_loaded(tmp_path / "b")


def test_a_checkpoint_that_is_stopped_is_incomplete_and_says_why(shard: Checkpointed) -> None:
    job = shard.source.job()
    job.prepare()
    job.take()
    job.stop("the broker takes over")

    with pytest.raises(CheckpointFailed, match="incomplete: the broker takes over"):
        job.copy_bulk(lambda: None)

    job.remove()


def test_a_checkpoint_is_due_once_its_tail_is_above_the_limit_and_not_again_after_it(shard: Checkpointed) -> None:
    assert not shard.source.is_due()
    for number in range(5):
        shard.store.commit([], [Put(Family.META, b"filler", bytes([number]) * 100_000)])
    assert shard.source.is_due()

    shard.check_point()
    shard.store.commit([], [Put(Family.META, b"later", b"1")])

    assert not shard.source.is_due()


def test_a_checkpoint_is_due_once_most_of_the_last_one_is_deleted(shard: Checkpointed) -> None:
    key = BULK_PAGE.key(1 << 50, 1, 0)
    shard.store.commit([(key, page_of(1 << 50, b"x" * 2_000_000))], [HIGHEST.put(HIGHEST.key(), (1 << 50, 1))])
    before = shard.check_point()
    shard.store.commit([], [DeleteRange(Family.BULK, key, key + b"\0")])
    shard.store.compact(Family.BULK, key, key + b"\0")

    assert shard.source.is_due()

    assert shard.check_point().size < before.size / 10
    shard.store.commit([], [Put(Family.META, b"later", b"1")])
    assert not shard.source.is_due()


def test_a_bulk_file_that_is_mostly_deleted_is_written_again_without_them(shard: Checkpointed, tmp_path: Path) -> None:
    keys = [BULK_PAGE.key(number, 1, 0) for number in (1 << 50, (1 << 50) + 1)]
    pages = [page_of(1 << 50, b"x" * 2_000_000), page_of((1 << 50) + 1, b"y" * 100_000)]
    shard.store.commit(list(zip(keys, pages, strict=True)), [HIGHEST.put(HIGHEST.key(), ((1 << 50) + 1, 2))])
    shard.check_point()
    shard.store.commit([], [DeleteRange(Family.BULK, keys[0], keys[1])])
    shard.store.compact(Family.BULK, keys[0], keys[1])

    assert shard.check_point().size < 1_000_000

    assert load_newest(shard, tmp_path / "b") == content_of(shard.store)


def test_marks_have_one_order_and_the_newest_is_found_from_any_number_of_them() -> None:
    engine = MemoryEngine()
    for number in range(20):
        marks = Marks(engine)
        newest = marks.refresh()
        assert (newest.number if newest is not None else -1) == number - 1
        mark = Mark(number, f"{number}-x", 10 * number + 1, 1, "", 0, 0)
        assert marks.add(mark)
        assert not marks.add(Mark(number, "other", 1, 1, "", 0, 0))
        assert marks.refresh() == mark


def test_a_damaged_mark_is_named() -> None:
    engine = MemoryEngine()
    engine.create_named(mark_name(0), b'{"format": 1}\n00000000\n')

    with pytest.raises(MarkDamaged, match="the mark of checkpoint 0 is damaged"):
        Marks(engine).refresh()
