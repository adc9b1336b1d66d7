"""``MemoryStore``: the contract, and the crashes it can show."""

from __future__ import annotations

import pytest

from forebay.broker.storage.errors import StoreClosed, StoreFailed, StoreNoSpace
from forebay.broker.storage.store.contract import DeleteRange, Family, Put
from forebay.broker.storage.store.memory import MemoryStore
from tests.support.storage.conformance import Change, StoreConformance, entries


class MemoryHost:
    """Reopens and breaks a ``MemoryStore`` by its own means."""

    def __init__(self) -> None:
        self.store = MemoryStore()

    def reopen(self) -> MemoryStore:
        self.store = self.store.reopen()
        return self.store

    def break_next(self, change: Change) -> None:
        self.store.fail_next(change)

    def damage(self, family: Family, key: bytes) -> None:
        self.store.damage(family, key)


class TestMemoryStore(StoreConformance):
    @pytest.fixture
    def host(self) -> MemoryHost:
        return MemoryHost()


def put(key: bytes) -> list[Put]:
    return [Put(Family.META, key, b"1")]


def keys(store: MemoryStore) -> list[bytes]:
    return [key for family in Family for key, _ in entries(store, family)]


def test_a_power_loss_takes_what_was_not_synced() -> None:
    store = MemoryStore()
    store.write(put(b"synced"))
    store.sync()
    store.write(put(b"lost"))

    assert keys(store.crash()) == [b"synced"]


def test_a_power_loss_takes_no_ingested_file() -> None:
    store = MemoryStore()
    store.write(put(b"lost"))
    store.ingest([(b"page", b"1")])

    crashed = store.crash()

    assert keys(crashed) == [b"page"]
    assert crashed.highest_keys() == [b"page"]


@pytest.mark.parametrize(("kept", "expected"), [(0, [b"a"]), (1, [b"a", b"b"]), (2, [b"a", b"b", b"c"])])
def test_a_power_loss_keeps_a_batch_only_with_all_before_it(kept: int, expected: list[bytes]) -> None:
    store = MemoryStore()
    store.write(put(b"a"))
    store.sync()
    store.write(put(b"b"))
    store.write(put(b"c"))

    assert keys(store.crash(kept_batches=kept)) == expected


def test_a_deletion_that_is_lost_brings_back_what_it_deleted() -> None:
    store = MemoryStore()
    store.ingest([(b"a", b"1"), (b"b", b"2")])
    store.write([DeleteRange(Family.BULK, b"a", b"c")])
    store.compact(Family.BULK, b"a", b"c")

    assert keys(store.crash()) == [b"a", b"b"]


def test_writes_unsynced_before_a_reopen_are_still_lost_by_a_power_loss_after_it() -> None:
    store = MemoryStore()
    store.write(put(b"unsynced"))
    store = store.reopen()

    assert keys(store) == [b"unsynced"]
    assert keys(store.crash()) == []


def test_a_crash_ends_the_handle() -> None:
    store = MemoryStore()
    store.crash()

    with pytest.raises(StoreClosed):
        store.sync()


def test_a_crashed_store_shares_nothing_with_its_successor() -> None:
    store = MemoryStore()
    store.write(put(b"a"))
    store.sync()
    first, second = store.crash(), store.crash()
    first.write(put(b"b"))

    assert keys(second) == [b"a"]


def test_the_failure_asked_for_is_the_one_raised_and_only_once() -> None:
    store = MemoryStore()
    error = StoreNoSpace("sync", "the disk is full")
    store.fail_next("sync", error)
    store.write(put(b"a"))

    with pytest.raises(StoreNoSpace) as caught:
        store.sync()

    assert caught.value is error
    with pytest.raises(StoreFailed, match="the disk is full"):
        store.sync()
    assert keys(store.crash()) == []
