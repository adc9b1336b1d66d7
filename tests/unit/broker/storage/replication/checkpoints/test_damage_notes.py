"""Notes of damaged files: who writes them, what the next checkpoint does with them, and when they are deleted."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from forebay.broker.storage.backup.manifest import Piece
from forebay.broker.storage.errors import StoreError
from forebay.broker.storage.replication.checkpoints import job as jobs
from forebay.broker.storage.replication.checkpoints.damage_notes import DAMAGED, DamageNotes, delete_notes, noted
from forebay.broker.storage.replication.checkpoints.errors import CheckpointDamaged
from forebay.broker.storage.replication.checkpoints.job import CheckpointJob
from forebay.broker.storage.replication.checkpoints.loading import load
from forebay.broker.storage.replication.checkpoints.manifests import load_manifest
from forebay.broker.storage.replication.checkpoints.mark import Mark, Marks
from forebay.broker.storage.replication.engine import EngineAway
from forebay.broker.storage.replication.engines.memory import MemoryEngine
from forebay.broker.storage.replication.followers.upkeep import CheckpointFailed
from forebay.broker.storage.store.contract import Family, Put
from tests.support.storage.checkpointed import Checkpointed, content_of, follow
from tests.support.storage.jobs import begun

NEVER = threading.Event()
STEPS = ["prepare", "take", "copy", "mark", "trim", "notes"]


@pytest.fixture
def shard(tmp_path: Path) -> Iterator[Checkpointed]:
    made = Checkpointed.with_checkpoint(tmp_path)
    yield made
    with suppress(StoreError):
        made.close()


def damage(shard: Checkpointed, ending: str) -> Piece:
    """Damage a file of the newest checkpoint in the engine, and return it."""
    files = shard.engine.files()
    pieces = load_manifest(files, shard.newest()).pieces
    piece = next(piece for piece in pieces if piece.path.endswith(ending))
    files.put(piece.name, [bytes(piece.stored_bytes)])
    return piece


def find(shard: Checkpointed, piece: Piece, folder: Path) -> None:
    """Load the newest checkpoint, which finds a damaged file and writes a note."""
    with pytest.raises(CheckpointDamaged, match=f"{piece.path} has other bytes"):
        load(shard.engine, shard.newest(), folder, NEVER)
    assert noted(shard.engine, load_manifest(shard.engine.files(), shard.newest())) == [piece]


def append(shard: Checkpointed) -> None:
    shard.store.commit([], [Put(Family.META, b"later", b"1")])


def assert_intact(shard: Checkpointed, folder: Path) -> None:
    """Assert that the newest checkpoint and the journal give an empty disk all of the store, and no note is left."""
    load(shard.engine, shard.newest(), folder, NEVER)
    with closing(follow(shard.engine, folder)) as store:
        assert content_of(store) == content_of(shard.store)
    assert shard.engine.names(DAMAGED) == []


@pytest.mark.parametrize("ending", [".pages", ".sst", "CURRENT"])
def test_a_file_that_a_load_has_found_damaged_is_written_again_by_the_broker_that_has_it(
    shard: Checkpointed, tmp_path: Path, ending: str
) -> None:
    piece = damage(shard, ending)
    find(shard, piece, tmp_path / "b")
    append(shard)

    shard.check_point()

    assert piece.name not in shard.engine.files().names()
    assert_intact(shard, tmp_path / "c")


def test_only_the_damaged_file_is_written_again(shard: Checkpointed, tmp_path: Path) -> None:
    piece = damage(shard, ".pages")
    find(shard, piece, tmp_path / "b")
    append(shard)

    shard.check_point()

    newest = shard.newest()
    pages = [one for one in load_manifest(shard.engine.files(), newest).pieces if one.path.endswith(".pages")]
    assert len(pages) > 1
    assert [one.path for one in pages if one.held_by == newest.id] == [piece.path]


def test_a_damaged_file_without_a_note_is_taken_over_and_noted_by_its_next_reader(
    shard: Checkpointed, tmp_path: Path
) -> None:
    piece = damage(shard, ".pages")
    append(shard)
    shard.check_point()

    find(shard, piece, tmp_path / "b")
    append(shard)
    shard.check_point()

    assert_intact(shard, tmp_path / "c")


@pytest.mark.parametrize("step", STEPS)
def test_a_crash_at_any_step_keeps_the_note_until_the_file_is_written_again(
    shard: Checkpointed, tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    piece = damage(shard, ".pages")
    find(shard, piece, tmp_path / "b")
    append(shard)
    job = shard.source.job()
    _run_until(job, step, monkeypatch)
    monkeypatch.undo()
    job.remove()
    if step != "notes":
        assert len(shard.engine.names(DAMAGED)) == 1
    append(shard)

    shard.check_point()

    assert piece.name not in shard.engine.files().names()
    assert_intact(shard, tmp_path / "c")


def _run_until(job: CheckpointJob, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a checkpoint that is killed in a step."""
    at = STEPS.index(step)
    job.prepare()
    if at >= STEPS.index("take"):
        job.take()
    if at >= STEPS.index("copy"):
        job.copy_bulk(lambda: None)
    if at >= STEPS.index("mark"):
        killed: tuple[object, str] = {"mark": (Marks, "add"), "trim": (jobs, "trim")}.get(step, (jobs, "delete_notes"))
        monkeypatch.setattr(*killed, _killed)
        with pytest.raises(CheckpointFailed, match="killed"):
            job.finish(lambda: 1.0)


def _killed(*_: object) -> bool:
    raise EngineAway("killed")


def test_a_file_that_is_noted_while_a_checkpoint_takes_it_over_is_written_again_by_the_next_one(
    shard: Checkpointed, tmp_path: Path
) -> None:
    piece = damage(shard, ".pages")
    append(shard)
    job = shard.source.job()
    job.prepare()
    find(shard, piece, tmp_path / "b")
    job.take()
    job.copy_bulk(lambda: None)
    job.finish(lambda: 1.0)
    job.remove()
    assert len(shard.engine.names(DAMAGED)) == 1
    append(shard)

    shard.check_point()

    assert_intact(shard, tmp_path / "c")


def test_a_checkpoint_that_another_broker_has_overtaken_leaves_the_note(shard: Checkpointed, tmp_path: Path) -> None:
    piece = damage(shard, ".pages")
    find(shard, piece, tmp_path / "b")
    append(shard)
    job = begun(shard.source.job())
    Marks(shard.engine).add(Mark(1, "0000000001-rival", 3, 1, "", 2, 1))

    with pytest.raises(CheckpointFailed, match="another broker has made checkpoint 1"):
        job.finish(lambda: 1.0)

    job.remove()
    assert len(shard.engine.names(DAMAGED)) == 1


def test_the_file_is_taken_over_where_the_copy_of_the_broker_is_damaged_too(
    shard: Checkpointed, tmp_path: Path
) -> None:
    piece = damage(shard, ".pages")
    find(shard, piece, tmp_path / "b")
    own = shard.directory / piece.path
    content = bytearray(own.read_bytes())
    content[600] ^= 1
    own.write_bytes(content)
    append(shard)

    with pytest.raises(CheckpointFailed, match="the store is damaged"):
        shard.check_point()
    shard.check_point()

    assert shard.newest().number == 1
    assert piece in load_manifest(shard.engine.files(), shard.newest()).pieces
    assert len(shard.engine.names(DAMAGED)) == 1


def test_notes_of_files_that_no_checkpoint_names_are_deleted_but_those_of_later_ones(shard: Checkpointed) -> None:
    notes, [piece, *_] = DamageNotes(shard.engine), load_manifest(shard.engine.files(), shard.newest()).pieces
    notes.add(Piece("bulk/old.pages", 1, 1, "0000000000-old", None, None), "is damaged")
    notes.add(piece, "is damaged")
    notes.add(Piece("bulk/new.pages", 1, 1, "0000000001-new", None, None), "is damaged")

    delete_notes(shard.engine, shard.newest(), load_manifest(shard.engine.files(), shard.newest()))

    left = [name.partition("/")[2].partition(".")[0] for name in shard.engine.names(DAMAGED)]
    assert left == [piece.held_by, "0000000001-new"]


def test_a_note_that_the_engine_has_not_taken_is_written_by_the_next_attempt() -> None:
    engine = MemoryEngine()
    notes, piece = DamageNotes(engine), Piece("bulk/a.pages", 1, 1, "0000000000-a", None, None)

    engine.away = True
    notes.add(piece, "is damaged")
    engine.away = False
    assert engine.names(DAMAGED) == []
    notes.add(piece, "is damaged")

    assert engine.names(DAMAGED) == [f"{DAMAGED}/0000000000-a.bulk.a.pages"]
    assert engine.read_named(f"{DAMAGED}/0000000000-a.bulk.a.pages") == b"is damaged"
