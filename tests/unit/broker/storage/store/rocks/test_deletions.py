from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from rocksdict import Rdict

from forebay.broker.storage.errors import StoreUnreadable
from forebay.broker.storage.store.contract import Delete, DeleteRange, Family, Put
from forebay.broker.storage.store.rocks.store import RocksStore
from tests.support.storage.disk_directory import SMALL_STORE

KEYS: Final = [b"a%d" % number for number in range(6)]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RocksStore]:
    store = RocksStore(tmp_path / "data", settings=SMALL_STORE)
    store.ingest([(key, b"value") for key in KEYS[:4]])
    store.ingest([(key, b"value") for key in KEYS[4:]])
    yield store
    store.close()


def test_a_deletion_outlives_the_process_and_no_file_changes(store: RocksStore, tmp_path: Path) -> None:
    files = {path: path.read_bytes() for path in (tmp_path / "data" / "bulk").iterdir()}
    store.write([Delete(Family.BULK, KEYS[1]), DeleteRange(Family.BULK, KEYS[2], KEYS[3]), Put(Family.META, b"m", b"")])
    store.close()

    assert {path: path.read_bytes() for path in files} == files
    reopened = RocksStore(tmp_path / "data", settings=SMALL_STORE)
    try:
        assert reopened.bulk_keys(b"a", b"b", 10) == [KEYS[0], *KEYS[3:]]
        assert reopened.get_many(Family.BULK, KEYS[:2]) == [b"value", None]
    finally:
        reopened.close()


def test_a_deletion_ends_at_the_highest_key_and_does_not_meet_later_files(store: RocksStore) -> None:
    store.write([DeleteRange(Family.BULK, KEYS[4], b"b")])
    store.ingest([(b"a6", b"later")])

    assert store.bulk_keys(b"a", b"b", 10) == [*KEYS[:4], b"a6"]


def test_ranges_of_keys_that_no_file_has_are_not_recorded(store: RocksStore) -> None:
    store.write([DeleteRange(Family.BULK, b"x", b"y")])

    assert store.deleted_bulk() == []


def test_a_range_is_forgotten_with_the_last_file_that_has_its_keys(store: RocksStore, tmp_path: Path) -> None:
    store.write([DeleteRange(Family.BULK, KEYS[0], KEYS[4])])
    assert store.deleted_bulk() == [(KEYS[0], KEYS[4])]

    store.compact(Family.BULK, b"a", b"b")

    assert store.deleted_bulk() == []
    assert len(list((tmp_path / "data" / "bulk").iterdir())) == 1


def test_ranges_in_a_lost_sector_are_read_by_salvage_tools_only(
    store: RocksStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store.write([Delete(Family.BULK, KEYS[0])])
    store.close()

    def unreadable(table: Rdict) -> None:
        raise Exception("IO error: While pread offset 0 len 4096: db/000012.sst: Input/output error")

    monkeypatch.setattr(Rdict, "iter", unreadable)
    monkeypatch.setattr("forebay.broker.storage.store.rocks.store.START_READ_DELAYS_S", ())
    with pytest.raises(StoreUnreadable):
        RocksStore(tmp_path / "data", settings=SMALL_STORE)
    RocksStore(tmp_path / "data", settings=replace(SMALL_STORE, unreadable_is_damage=True)).close()

    assert "ranges of deleted pages could not be read" in caplog.text
