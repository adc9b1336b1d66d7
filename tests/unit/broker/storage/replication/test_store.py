"""The store of an owner: which ends hand the journal over at once."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from forebay.broker.storage.errors import StoreFailed
from forebay.broker.storage.records.pages.page import BULK_PAGE
from forebay.broker.storage.records.store import HIGHEST
from forebay.broker.storage.replication.engine import EngineAway
from forebay.broker.storage.replication.engines.memory import MemoryEngine
from forebay.broker.storage.replication.followers.follower import Follower, Takeover
from forebay.broker.storage.replication.reader import Reader
from forebay.broker.storage.replication.record import RecordKind, decode_header
from forebay.broker.storage.replication.replica import Replica
from forebay.broker.storage.replication.store import ReplicatedStore
from forebay.broker.storage.store.contract import Family, Put, Value
from forebay.broker.storage.store.rocks.store import RocksStore
from tests.support.storage.journals import NUMBER, read_all, read_history, take_over

PAGE = BULK_PAGE.key(1, 1, 0)


def owned(engine: MemoryEngine, directory: Path) -> ReplicatedStore:
    """A store in a directory that owns a journal."""
    replica = Replica(RocksStore(directory))
    reader = Reader(engine, replica.place)
    owner = Follower(reader, replica, directory, Takeover(0.0, ""), lambda: 100.0).follow(threading.Event())
    assert owner is not None
    return ReplicatedStore(replica, owner, engine)


def put(store: ReplicatedStore, number: int) -> None:
    store.commit([], [Put(Family.META, NUMBER, number.to_bytes(8, "big"))])


def test_a_store_that_is_closed_releases_its_journal(tmp_path: Path) -> None:
    engine = MemoryEngine()
    store = owned(engine, tmp_path)
    put(store, 1)

    store.close()

    assert read_history(engine)[0].place.released


def test_a_store_whose_local_part_failed_confirms_nothing_more_and_releases_its_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise StoreFailed("commit", "the disk failed")

    engine = MemoryEngine()
    store = owned(engine, tmp_path)
    put(store, 1)
    monkeypatch.setattr(RocksStore, "commit", fail)

    for number in (2, 3):
        with pytest.raises(StoreFailed):
            put(store, number)
    store.close()

    assert read_all(engine) == [1, 2]
    assert read_history(engine)[0].place.released


def test_an_owner_sees_that_its_journal_was_replaced_by_another_one(tmp_path: Path) -> None:
    engine = MemoryEngine()
    store = owned(engine, tmp_path / "a")
    assert store.has_journal()
    assert store.journal()

    engine.records.clear()
    assert not store.has_journal()
    with closing(take_over(engine, b"b")):
        assert not store.has_journal()
        engine.away = True
        with pytest.raises(EngineAway):
            store.has_journal()
        engine.away = False
        store.owner.end()
        store.close()


def test_a_store_that_was_fenced_releases_nothing(tmp_path: Path) -> None:
    engine = MemoryEngine()
    store = owned(engine, tmp_path)
    with closing(take_over(engine, b"b")):
        with pytest.raises(StoreFailed, match="journal"):
            put(store, 1)

        store.close()

    assert RecordKind.RELEASE not in [decode_header(record).kind for record in engine.records.values()]


def test_pages_are_written_locally_while_the_journal_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = MemoryEngine()
    store = owned(engine, tmp_path)
    written, ingest = threading.Event(), RocksStore.ingest

    def note(self: RocksStore, items: Sequence[tuple[bytes, Value]]) -> None:
        ingest(self, items)
        written.set()

    def wait(*_: object) -> None:
        assert written.wait(30.0)

    monkeypatch.setattr(RocksStore, "ingest", note)
    engine.before_create = wait

    store.commit([(PAGE, b"x")], [HIGHEST.put(HIGHEST.key(), (1, 1))])

    assert store.get_many(Family.BULK, [PAGE]) == [b"x"]
    store.close()


def test_pages_of_a_group_that_was_fenced_are_not_read_and_the_next_start_removes_them(tmp_path: Path) -> None:
    engine = MemoryEngine()
    store = owned(engine, tmp_path)
    put(store, 1)
    with closing(take_over(engine, b"b")):
        with pytest.raises(StoreFailed, match="journal"):
            store.commit([(PAGE, b"x")], [HIGHEST.put(HIGHEST.key(), (1, 1))])
        assert store.bulk_keys(PAGE, PAGE + b"\0", 1) == [PAGE]
        assert store.get_many(Family.META, [HIGHEST.key()]) == [None]
        store.close()

    with closing(RocksStore(tmp_path)) as local:
        Replica(local)

        assert local.bulk_keys(PAGE, PAGE + b"\0", 1) == []


def test_a_store_whose_pages_cannot_be_written_confirms_nothing_more_and_releases_its_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise StoreFailed("ingest", "the disk failed")

    engine = MemoryEngine()
    store = owned(engine, tmp_path)
    monkeypatch.setattr(RocksStore, "ingest", fail)

    with pytest.raises(StoreFailed, match="the disk failed"):
        store.commit([(PAGE, b"x")], [HIGHEST.put(HIGHEST.key(), (1, 1))])
    with pytest.raises(StoreFailed, match="an earlier append failed"):
        put(store, 2)
    store.close()

    assert read_history(engine)[0].place.released
