"""Windows: open commits are applied in their order, and one that fails ends the window."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from forebay.broker.storage.errors import StoreFailed
from forebay.broker.storage.records.pages.page import BULK_PAGE
from forebay.broker.storage.records.store import HIGHEST
from forebay.broker.storage.replication.engines.memory import MemoryEngine
from forebay.broker.storage.replication.owner import Owner
from forebay.broker.storage.replication.replica import Replica
from forebay.broker.storage.replication.window import Window
from forebay.broker.storage.store.contract import Family, OpenCommit, Operation, Put
from forebay.broker.storage.store.rocks.store import RocksStore
from tests.support.storage.journals import NUMBER, read_all, take_over


@pytest.fixture
def engine() -> MemoryEngine:
    return MemoryEngine()


@pytest.fixture
def replica(tmp_path: Path) -> Iterator[Replica]:
    with closing(RocksStore(tmp_path / "store")) as store:
        yield Replica(store)


@pytest.fixture
def owner(engine: MemoryEngine) -> Iterator[Owner]:
    with closing(take_over(engine, b"a")) as made:
        yield made


@pytest.fixture
def window(replica: Replica, owner: Owner) -> Iterator[Window]:
    with closing(Window(replica, owner)) as made:
        yield made


def begin(window: Window, number: int, *more: Operation) -> OpenCommit:
    """Begin a commit with one bulk page."""
    put = Put(Family.META, NUMBER, number.to_bytes(8, "big"))
    return window.begin([(BULK_PAGE.key(number, 1, 0), b"page")], [put, *more])


def number_in(replica: Replica) -> int:
    """Return the number that the replica has applied last; 0 for none."""
    [found] = replica.store.get_many(Family.META, [NUMBER])
    return int.from_bytes(found or b"", "big")


def test_an_open_commit_has_no_effect_on_the_replica_before_it_is_finished(
    engine: MemoryEngine, replica: Replica, owner: Owner, window: Window
) -> None:
    opened = [begin(window, number) for number in range(1, window.size + 1)]
    seen = [number_in(replica)]
    for each in opened:
        each.finish()
        seen.append(number_in(replica))

    assert seen == list(range(window.size + 1))
    assert replica.place.position == owner.position
    assert replica.place.group == owner.groups == window.size


def test_a_broker_that_ends_with_open_commits_starts_without_their_pages(
    engine: MemoryEngine, replica: Replica, window: Window, tmp_path: Path
) -> None:
    for number in (1, 2, 3):
        opened = begin(window, number, HIGHEST.put(HIGHEST.key(), (number, number)))
        if number == 1:
            opened.finish()
    window.close()
    replica.store.close()

    with closing(RocksStore(tmp_path / "store")) as store:
        files = len(store.highest_keys())
        again = Replica(store)

        assert files == 3
        assert number_in(again) == 1
        assert store.bulk_keys(b"", b"\xff" * 64, 10) == [BULK_PAGE.key(1, 1, 0)]


def test_it_is_unknown_whether_an_open_commit_counts(window: Window) -> None:
    opened = begin(window, 1)
    assert window.is_unknown
    opened.finish()
    assert not window.is_unknown


def test_an_empty_commit_is_not_in_the_journal(engine: MemoryEngine, window: Window) -> None:
    before = len(engine.records)
    window.begin([], []).finish()

    assert len(engine.records) == before
    assert not window.is_unknown


def test_a_commit_that_is_fenced_ends_the_window(engine: MemoryEngine, replica: Replica, window: Window) -> None:
    begin(window, 1).finish()
    with closing(take_over(engine, b"b")):
        opened = [begin(window, number) for number in (2, 3)]
        with pytest.raises(StoreFailed, match="2 is above 1"):
            opened[0].finish()
        with pytest.raises(StoreFailed, match="an earlier append failed: owner epoch 2 is above 1"):
            opened[1].finish()
        with pytest.raises(StoreFailed, match="an earlier append failed: owner epoch 2 is above 1"):
            begin(window, 4)

    assert number_in(replica) == 1
    assert window.is_unknown


def test_a_local_failure_ends_the_window_while_another_commit_begins(
    engine: MemoryEngine, replica: Replica, window: Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise StoreFailed("commit", "the disk failed")

    opened = [begin(window, number) for number in (1, 2)]
    monkeypatch.setattr(RocksStore, "commit", fail)
    for each, cause in zip(opened, ("the disk failed", "an earlier append failed: .*the disk failed"), strict=True):
        with pytest.raises(StoreFailed, match=cause):
            each.finish()

    assert set(read_all(engine)) <= {1, 2}
    assert number_in(replica) == 0


def test_a_commit_begins_while_another_one_waits_for_the_journal(
    engine: MemoryEngine, owner: Owner, replica: Replica, window: Window
) -> None:
    held = threading.Event()
    first = owner.position

    def hold(position: int, record: bytes) -> None:
        if position == first:
            assert held.wait(10)

    engine.before_create = hold
    one = begin(window, 1)
    finishing = threading.Thread(target=one.finish)
    finishing.start()
    two = begin(window, 2)
    assert finishing.is_alive()
    held.set()
    finishing.join(10)
    two.finish()

    assert read_all(engine) == [1, 2]
    assert number_in(replica) == 2
