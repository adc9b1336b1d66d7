"""Loads without the bulk files, which are remote then; `test_job.py` has those of whole checkpoints."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from forebay.broker.storage.backup.errors import BackupError, BackupStopped
from forebay.broker.storage.backup.snapshot import take_snapshot
from forebay.broker.storage.errors import StoreCorrupt, StoreFailed, StoreUnreadable
from forebay.broker.storage.records.pages.page import ALL_BULK, BULK_PAGE
from forebay.broker.storage.records.store import HIGHEST
from forebay.broker.storage.repair.command import repair, verify
from forebay.broker.storage.replication.checkpoints.loading import Pages, is_loaded, load
from forebay.broker.storage.store.bulk import remote as remotes
from forebay.broker.storage.store.bulk.remote import KEPT, LOADING
from forebay.broker.storage.store.bulk.remote_list import NAME as LIST
from forebay.broker.storage.store.contract import DeleteRange, Family, Put
from forebay.broker.storage.store.rocks.store import RocksStore
from forebay.broker.storage.store.settings import RocksSettings
from tests.support.calls.eventually import until
from tests.support.storage.checkpointed import Checkpointed, Stop, content_of, follow, page_of

NEVER = threading.Event()


@pytest.fixture
def shard(tmp_path: Path) -> Iterator[Checkpointed]:
    with closing(Checkpointed.with_checkpoint(tmp_path)) as made:
        yield made


@pytest.fixture
def on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is fetched but what a reader needs."""
    monkeypatch.setattr(remotes, "THREADS", 0)


def load_later(shard: Checkpointed, directory: Path) -> RocksStore:
    load(shard.engine, shard.newest(), directory, NEVER, pages=Pages.LATER)
    return follow(shard.engine, directory)


def local(directory: Path) -> set[str]:
    return {path.name for path in (directory / "bulk").iterdir()}


def test_a_directory_is_readable_before_its_pages_are_there(
    shard: Checkpointed, tmp_path: Path, on_demand: None
) -> None:
    with closing(load_later(shard, tmp_path / "b")) as store:
        assert local(tmp_path / "b") == set()
        assert store.remote_bytes() == sum(path.stat().st_size for path in (shard.directory / "bulk").iterdir())
        keys = [key for key, _ in content_of(shard.store)[Family.BULK]]

        assert store.get_many(Family.BULK, keys[:1]) == shard.store.get_many(Family.BULK, keys[:1])
        assert len(local(tmp_path / "b")) == 1
        assert content_of(store) == content_of(shard.store)


def test_all_pages_arrive_in_the_background_and_the_directory_is_one_like_others_then(
    shard: Checkpointed, tmp_path: Path
) -> None:
    with closing(load_later(shard, tmp_path / "b")) as store:
        until(lambda: store.remote_bytes() == 0)
        assert local(tmp_path / "b") == local(shard.directory)
        take_snapshot(store, tmp_path / "b", 1).remove()

    assert not (tmp_path / "b" / LIST).exists()
    assert not (tmp_path / "b" / LOADING).exists()
    with closing(RocksStore(tmp_path / "b")) as store:
        assert content_of(store) == content_of(shard.store)


def test_a_directory_without_all_pages_is_opened_only_by_who_can_read_them(
    shard: Checkpointed, tmp_path: Path, on_demand: None
) -> None:
    load_later(shard, tmp_path / "b").close()

    with pytest.raises(StoreFailed, match="start the broker with this journal, which reads them"):
        RocksStore(tmp_path / "b")
    with closing(RocksStore(tmp_path / "b", settings=RocksSettings(opens_incomplete=True))) as store:
        assert store.get_many(Family.META, [b"none"]) == [None]
    with closing(follow(shard.engine, tmp_path / "b")) as store:
        assert content_of(store) == content_of(shard.store)


def test_verify_and_repair_name_the_files_that_are_in_the_journal_only(
    shard: Checkpointed, tmp_path: Path, on_demand: None
) -> None:
    load_later(shard, tmp_path / "b").close()
    files = len(local(shard.directory))

    for report in (verify(tmp_path / "b"), repair(tmp_path / "b", tmp_path / "repaired")):
        assert report.damage[0] == f"{files} files with pages must be read from the journal of the shard"
        assert not report.clean
    (tmp_path / "b" / LIST).write_bytes(b"{}")
    assert verify(tmp_path / "b").damage[0] == "its list of remote files is damaged"
    with closing(RocksStore(tmp_path / "repaired")) as store:
        assert content_of(store)[Family.SMALL] == content_of(shard.store)[Family.SMALL]


def test_a_store_has_no_snapshot_before_its_pages_are_there(
    shard: Checkpointed, tmp_path: Path, on_demand: None
) -> None:
    with closing(load_later(shard, tmp_path / "b")) as store:
        with pytest.raises(BackupError, match="bytes of pages are still being read from the checkpoint"):
            take_snapshot(store, tmp_path / "b", 1)
        assert not list((tmp_path / "b").glob("snapshot/*"))

        content_of(store)  # reads all

        take_snapshot(store, tmp_path / "b", 1).remove()


def test_the_space_of_remote_files_is_not_free(shard: Checkpointed, tmp_path: Path, on_demand: None) -> None:
    with closing(load_later(shard, tmp_path / "b")) as store:
        size = store.remote_bytes()
        before = store.free_bytes()
        content_of(store)

        assert size > 10_000
        assert store.remote_bytes() == 0
        assert abs(store.free_bytes() - before) < 1 << 30, "others use the disk too"


def test_pages_that_are_deleted_before_they_arrive_are_not_fetched(
    shard: Checkpointed, tmp_path: Path, on_demand: None
) -> None:
    with closing(load_later(shard, tmp_path / "b")) as store:
        store.write([DeleteRange(Family.BULK, *ALL_BULK)])
        store.compact(Family.BULK, *ALL_BULK)

        assert store.remote_bytes() == 0
        assert content_of(store)[Family.BULK] == []
    assert local(tmp_path / "b") == set()
    with closing(RocksStore(tmp_path / "b")) as store:
        assert store.deleted_bulk() == []


def test_the_space_of_pages_that_are_deleted_before_they_arrive_is_released_as_they_do(
    shard: Checkpointed, tmp_path: Path, on_demand: None
) -> None:
    numbers = (1 << 50, (1 << 50) + 1)
    keys = [BULK_PAGE.key(number, 1, 0) for number in numbers]
    pages = [page_of(numbers[0], b"x" * 2_000_000), page_of(numbers[1], b"y" * 100_000)]
    shard.store.commit(list(zip(keys, pages, strict=True)), [HIGHEST.put(HIGHEST.key(), (numbers[1], 2))])
    shard.check_point()
    with closing(load_later(shard, tmp_path / "b")) as store:
        store.write([DeleteRange(Family.BULK, keys[0], keys[1])])
        store.compact(Family.BULK, keys[0], keys[1])
        assert store.get_many(Family.BULK, keys[:1]) == [None]
        assert local(tmp_path / "b") == set()

        assert store.get_many(Family.BULK, keys[1:]) == pages[1:]

        [path] = (tmp_path / "b" / "bulk").iterdir()
        assert path.stat().st_size > 2_000_000
        assert path.stat().st_blocks * 512 < 1_000_000


def test_a_page_of_a_journal_that_cannot_be_reached_is_unreadable_for_now(
    shard: Checkpointed, tmp_path: Path, on_demand: None
) -> None:
    with closing(load_later(shard, tmp_path / "b")) as store:
        [key, *_] = [key for key, _ in content_of(shard.store)[Family.BULK]]
        (tmp_path / "journal").rename(tmp_path / "away")
        with pytest.raises(StoreUnreadable, match="journal"):
            store.get_many(Family.BULK, [key])
        store.prefetch([key])
        (tmp_path / "away").rename(tmp_path / "journal")

        assert store.get_many(Family.BULK, [key]) == shard.store.get_many(Family.BULK, [key])


def test_a_store_tells_which_pages_are_remote_and_ends_the_reads_that_wait_for_them(
    shard: Checkpointed, tmp_path: Path, on_demand: None
) -> None:
    with closing(load_later(shard, tmp_path / "b")) as store:
        keys = [key for key, _ in content_of(shard.store)[Family.BULK]]
        assert (store.is_remote(keys), store.is_remote([]), store.is_remote([b"none"])) == (True, False, False)
        store.get_many(Family.BULK, keys[:1])
        assert (store.is_remote(keys[:1]), store.is_remote(keys)) == (False, True)

        store.end_transfers()

        with pytest.raises(StoreUnreadable, match="the broker is stopping"):
            store.get_many(Family.BULK, keys[-1:])
        assert store.get_many(Family.BULK, keys[:1]) == shard.store.get_many(Family.BULK, keys[:1])


def test_the_keys_of_a_store_without_those_in_remote_files_are_listed_without_a_transfer(
    shard: Checkpointed, tmp_path: Path, on_demand: None
) -> None:
    with closing(load_later(shard, tmp_path / "b")) as store:
        keys = [key for key, _ in content_of(shard.store)[Family.BULK]]
        assert store.bulk_keys(*ALL_BULK, 1_000, here=True) == []
        assert local(tmp_path / "b") == set()
        store.get_many(Family.BULK, keys[:1])

        of_one = store.bulk_keys(*ALL_BULK, 1_000, here=True)

        assert of_one == keys[: len(of_one)]
        assert 0 < len(of_one) < len(keys)
        assert store.remote_bytes() > 0
        assert store.bulk_keys(*ALL_BULK, 1_000) == keys
        assert store.remote_bytes() == 0
        assert store.bulk_keys(*ALL_BULK, 1_000, here=True) == keys


def test_a_load_that_was_interrupted_is_begun_again(shard: Checkpointed, tmp_path: Path, on_demand: None) -> None:
    directory = tmp_path / "b"
    for looks in (0, 1, 3):
        stop = Stop(looks)
        with pytest.raises(BackupStopped):
            load(shard.engine, shard.newest(), directory, stop, pages=Pages.LATER)
        assert not is_loaded(directory)

    with closing(load_later(shard, directory)) as store:
        assert content_of(store) == content_of(shard.store)


def test_a_load_that_is_interrupted_keeps_the_files_that_were_not_compared_yet(
    shard: Checkpointed, tmp_path: Path, on_demand: None
) -> None:
    directory = tmp_path / "b"
    load(shard.engine, shard.newest(), directory, NEVER)
    inodes = {path.name: path.stat().st_ino for path in (directory / "bulk").iterdir()}
    assert inodes
    for looks in (1, 0, 1):
        with pytest.raises(BackupStopped):
            load(shard.engine, shard.newest(), directory, Stop(looks), pages=Pages.LATER)
        assert (directory / "FORMAT").read_text().endswith(" incomplete\n")

    with closing(load_later(shard, directory)) as store:
        assert content_of(store) == content_of(shard.store)
    assert {path.name: path.stat().st_ino for path in (directory / "bulk").iterdir()} == inodes


def test_a_list_of_remote_files_that_a_kill_leaves_in_a_complete_directory_is_removed_by_the_next_start(
    shard: Checkpointed, tmp_path: Path, on_demand: None
) -> None:
    directory = tmp_path / "b"
    store = load_later(shard, directory)
    listed = (directory / LIST).read_bytes()
    content_of(store)
    store.close()
    (directory / LIST).write_bytes(listed)
    (directory / LOADING / KEPT).mkdir(parents=True)
    (directory / LOADING / KEPT / "a.pages").write_bytes(b"page")

    with closing(RocksStore(directory)) as store:
        assert not (directory / LIST).exists()
        assert not (directory / LOADING).exists()
        store.write([DeleteRange(Family.BULK, *ALL_BULK)])
        store.compact(Family.BULK, *ALL_BULK)

    assert not [damage for damage in verify(directory).damage if "must be read from the journal" in damage]


@pytest.mark.parametrize("fetched", [0, 1, 100])
def test_a_directory_that_falls_behind_before_its_pages_are_there_keeps_those_that_are(
    shard: Checkpointed, tmp_path: Path, on_demand: None, fetched: int
) -> None:
    with closing(load_later(shard, tmp_path / "b")) as store:
        keys = [key for key, _ in content_of(shard.store)[Family.BULK]]
        store.get_many(Family.BULK, keys[:fetched])
    inodes = {path.name: path.stat().st_ino for path in (tmp_path / "b" / "bulk").iterdir()}
    assert bool(inodes) == bool(fetched)
    shard.store.commit([], [Put(Family.META, b"later", b"1")])
    shard.check_point()

    with closing(load_later(shard, tmp_path / "b")) as store:
        assert {path.name for path in (tmp_path / "b" / LOADING / KEPT).iterdir()} == inodes.keys()
        assert content_of(store) == content_of(shard.store)
    found = {path.name: path.stat().st_ino for path in (tmp_path / "b" / "bulk").iterdir()}
    assert inodes.items() <= found.items()


def test_a_damaged_list_of_remote_files_ends_the_start_and_a_new_load_repairs_it(
    shard: Checkpointed, tmp_path: Path, on_demand: None
) -> None:
    load_later(shard, tmp_path / "b").close()
    (tmp_path / "b" / LIST).write_bytes(b"{}\n00000000\n")

    with pytest.raises(StoreCorrupt, match="its list of remote files is damaged"):
        follow(shard.engine, tmp_path / "b")

    with closing(load_later(shard, tmp_path / "b")) as store:
        assert content_of(store) == content_of(shard.store)


def test_a_whole_load_completes_a_directory_without_all_pages(
    shard: Checkpointed, tmp_path: Path, on_demand: None
) -> None:
    load_later(shard, tmp_path / "b").close()

    load(shard.engine, shard.newest(), tmp_path / "b", NEVER)

    with closing(RocksStore(tmp_path / "b")) as store:
        assert content_of(store) == content_of(shard.store)


def test_a_load_without_pages_is_complete_without_them(shard: Checkpointed, tmp_path: Path) -> None:
    load(shard.engine, shard.newest(), tmp_path / "b", NEVER, pages=Pages.NEVER)

    with closing(RocksStore(tmp_path / "b")) as store:
        assert content_of(store)[Family.BULK] == []
        assert content_of(store)[Family.META] == content_of(shard.store)[Family.META]
