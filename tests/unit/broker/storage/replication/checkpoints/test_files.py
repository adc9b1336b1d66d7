from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from forebay.broker.storage.errors import StoreUnreadable
from forebay.broker.storage.records.pages.page import BULK_PAGE
from forebay.broker.storage.records.store import HIGHEST
from forebay.broker.storage.replication.checkpoints.damage_notes import DAMAGED
from forebay.broker.storage.replication.checkpoints.files import CheckpointFiles
from forebay.broker.storage.replication.checkpoints.manifests import load_manifest
from forebay.broker.storage.store.bulk.remote import KEPT, RemoteNotYet
from forebay.broker.storage.store.contract import DeleteRange, Family, Put
from tests.support.storage.checkpointed import Checkpointed, page_of

NEVER = threading.Event()


@pytest.fixture
def shard(tmp_path: Path) -> Iterator[Checkpointed]:
    with closing(Checkpointed.with_checkpoint(tmp_path)) as made:
        yield made


def bulk_of(shard: Checkpointed) -> list[Path]:
    """The bulk files of the owner, by rising keys."""
    return sorted((shard.directory / "bulk").iterdir())


def stored(shard: Checkpointed, path: Path) -> str:
    """The name in the engine of a bulk file of the newest checkpoint."""
    [piece] = [
        piece for piece in load_manifest(shard.engine.files(), shard.newest()).pieces if piece.path.endswith(path.name)
    ]
    return piece.name


def remove_all_of(shard: Checkpointed, path: Path) -> None:
    """Delete the pages of a file, and release their space."""
    first, last = (bytes.fromhex(key) for key in path.stem.split("-"))
    shard.store.commit([], [DeleteRange(Family.BULK, first, last + b"\0")])
    shard.store.compact(Family.BULK, first, last + b"\0")


def test_a_file_has_the_bytes_of_the_checkpoint(shard: Checkpointed, tmp_path: Path) -> None:
    files = CheckpointFiles(shard.engine)

    for path in bulk_of(shard):
        found = files.fetch(path.name, tmp_path / "loading", NEVER)
        assert found is not None
        assert found.read_bytes() == path.read_bytes()


def test_a_file_that_was_kept_is_used_again_if_it_has_the_same_bytes(shard: Checkpointed, tmp_path: Path) -> None:
    kept = tmp_path / "loading" / KEPT
    kept.mkdir(parents=True)
    first, second = bulk_of(shard)[:2]
    (kept / first.name).write_bytes(first.read_bytes())
    (kept / second.name).write_bytes(bytes(second.stat().st_size))
    files = CheckpointFiles(shard.engine)

    assert files.fetch(first.name, tmp_path / "loading", NEVER) == kept / first.name
    found = files.fetch(second.name, tmp_path / "loading", NEVER)
    assert found not in {None, kept / second.name}
    assert found is not None
    assert found.read_bytes() == second.read_bytes()


def test_a_file_of_which_no_page_is_left_in_the_newest_checkpoint_is_not_needed(
    shard: Checkpointed, tmp_path: Path
) -> None:
    gone, other = bulk_of(shard)[:2]
    files = CheckpointFiles(shard.engine)
    assert files.fetch(other.name, tmp_path / "loading", NEVER) is not None
    remove_all_of(shard, gone)
    shard.check_point()

    with pytest.raises(RemoteNotYet, match="a checkpoint beyond what was read of the journal has replaced it"):
        files.fetch(gone.name, tmp_path / "loading", NEVER)
    files.applied = lambda: shard.newest().position
    assert files.fetch(gone.name, tmp_path / "loading", NEVER) is None


def test_a_file_that_a_newer_checkpoint_has_written_again_is_read_from_there(
    shard: Checkpointed, tmp_path: Path
) -> None:
    keys = [BULK_PAGE.key(number, 1, 0) for number in (1 << 50, (1 << 50) + 1)]
    pages = [page_of(1 << 50, b"x" * 2_000_000), page_of((1 << 50) + 1, b"y" * 100_000)]
    shard.store.commit(list(zip(keys, pages, strict=True)), [HIGHEST.put(HIGHEST.key(), ((1 << 50) + 1, 2))])
    shard.check_point()
    *_, path = bulk_of(shard)
    files = CheckpointFiles(shard.engine)
    assert files.fetch(path.name, tmp_path / "before", NEVER) is not None
    before = stored(shard, path)
    shard.store.commit([], [DeleteRange(Family.BULK, keys[0], keys[1])])
    shard.store.compact(Family.BULK, keys[0], keys[1])
    shard.check_point()
    assert stored(shard, path) != before, "its old bytes are deleted"

    with pytest.raises(RemoteNotYet, match="a checkpoint beyond what was read of the journal has replaced it"):
        files.fetch(path.name, tmp_path / "loading", NEVER)
    files.applied = lambda: shard.newest().position
    found = files.fetch(path.name, tmp_path / "loading", NEVER)

    assert found is not None
    assert found.read_bytes() == path.read_bytes()
    assert found.stat().st_blocks * 512 < 1_000_000


def test_a_file_that_was_kept_and_cannot_be_read_is_read_from_the_checkpoint(
    shard: Checkpointed, tmp_path: Path
) -> None:
    kept = tmp_path / "loading" / KEPT
    kept.mkdir(parents=True)
    path = bulk_of(shard)[0]
    (kept / path.name).symlink_to(kept / path.name)

    found = CheckpointFiles(shard.engine).fetch(path.name, tmp_path / "loading", NEVER)

    assert found is not None
    assert found.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("damage", ["is missing", "has other bytes"])
def test_a_missing_or_damaged_file_of_the_newest_checkpoint_is_unreadable_and_named(
    shard: Checkpointed, tmp_path: Path, damage: str
) -> None:
    path = bulk_of(shard)[0]
    target, name = shard.engine.files(), stored(shard, path)
    whole = b"".join(target.get(name))
    target.delete([name])
    if damage != "is missing":
        target.put(name, [bytes(len(whole))])
    files = CheckpointFiles(shard.engine)

    with pytest.raises(StoreUnreadable, match=rf"checkpoint 0 is damaged: bulk/{path.name} {damage}.*another"):
        files.fetch(path.name, tmp_path / "loading", NEVER)
    assert len(shard.engine.names(DAMAGED)) == (damage != "is missing")

    target.delete([name])
    target.put(name, [whole])
    assert files.fetch(path.name, tmp_path / "loading", NEVER) is not None


def test_an_engine_that_cannot_be_reached_is_the_cause(shard: Checkpointed, tmp_path: Path) -> None:
    files = CheckpointFiles(shard.engine)
    (tmp_path / "journal").rename(tmp_path / "away")

    with pytest.raises(StoreUnreadable, match=r"directory of the journal|journal"):
        files.fetch(bulk_of(shard)[0].name, tmp_path / "loading", NEVER)

    (tmp_path / "away").rename(tmp_path / "journal")


def test_a_stop_ends_a_fetch(shard: Checkpointed, tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()

    with pytest.raises(StoreUnreadable, match="the broker is stopping"):
        CheckpointFiles(shard.engine).fetch(bulk_of(shard)[0].name, tmp_path / "loading", stop)


def test_a_shortage_of_threads_is_the_cause(
    shard: Checkpointed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = bulk_of(shard)[0].name
    files = CheckpointFiles(shard.engine)

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(StoreUnreadable, match="can't start new thread"):
            files.fetch(name, tmp_path / "loading", NEVER)
    assert files.fetch(name, tmp_path / "loading", NEVER) is not None


def test_an_error_tells_the_own_disk_from_the_journal(shard: Checkpointed, tmp_path: Path) -> None:
    path = bulk_of(shard)[0]
    files = CheckpointFiles(shard.engine)
    (tmp_path / "loading").mkdir()
    (tmp_path / "loading" / "bulk").write_bytes(b"in the way")
    with pytest.raises(StoreUnreadable, match=f"read: directory {tmp_path}/loading: "):
        files.fetch(path.name, tmp_path / "loading", NEVER)

    stored_at = tmp_path / "journal" / "files" / stored(shard, path)
    stored_at.unlink()
    stored_at.symlink_to(stored_at)
    with pytest.raises(StoreUnreadable, match=f"read: journal {tmp_path}/journal/files: "):
        files.fetch(path.name, tmp_path / "other", NEVER)


@pytest.mark.parametrize("damage", ["is missing", "has other bytes", "has 3 bytes instead of"])
def test_a_file_that_the_checkpoint_before_has_lost_or_damaged_is_written_again(
    shard: Checkpointed, tmp_path: Path, damage: str
) -> None:
    path = bulk_of(shard)[0]
    target, name = shard.engine.files(), stored(shard, path)
    size = sum(map(len, target.get(name)))
    target.delete([name])
    if damage != "is missing":
        target.put(name, [bytes(size if damage == "has other bytes" else 3)])
    files = CheckpointFiles(shard.engine)
    with pytest.raises(StoreUnreadable, match=damage):
        files.fetch(path.name, tmp_path / "loading", NEVER)
    shard.store.commit([], [Put(Family.META, b"later", b"1")])

    shard.check_point()

    assert name not in target.names()
    found = files.fetch(path.name, tmp_path / "loading", NEVER)
    assert found is not None
    assert found.read_bytes() == path.read_bytes()
