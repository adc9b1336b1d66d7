"""Checkpoints of a store whose tables are written and merged meanwhile."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from forebay.broker.storage.formats import FORMAT
from forebay.broker.storage.store.contract import Delete, Family, Put
from forebay.broker.storage.store.rocks import store as rocks_store
from forebay.broker.storage.store.rocks.checkpoint import link_checkpoint
from forebay.broker.storage.store.rocks.store import RocksStore
from tests.support.storage.conformance import entries, noise, page_key

pytestmark = pytest.mark.slow  # each opens a RocksDB
PAGES_MAX = 400
"""Small pages that stay."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RocksStore]:
    opened = RocksStore(tmp_path / "data")
    yield opened
    opened.close()


def write(store: RocksStore, first: int, count: int) -> None:
    """Append small pages and their entries, and delete what is then too old."""
    for number in range(first, first + count):
        gone = page_key(1, number - PAGES_MAX) if number >= PAGES_MAX else None
        store.write(
            [
                Put(Family.SMALL, page_key(1, number), noise(3_000)),
                Put(Family.INDEX, page_key(1, number), b"%d" % number),
                *([Delete(Family.SMALL, gone), Delete(Family.INDEX, gone)] if gone is not None else []),
            ]
        )


def checkpoint(store: RocksStore, into: Path) -> None:
    into.mkdir()
    (into / "FORMAT").write_text(f"{FORMAT}\n")
    store.checkpoint(into)


def contents(directory: Path | RocksStore) -> dict[Family, object]:
    store = RocksStore(directory) if isinstance(directory, Path) else directory
    try:
        return {family: entries(store, family) for family in (Family.SMALL, Family.INDEX, Family.META)}
    finally:
        if store is not directory:
            store.close()


@contextmanager
def background_work(store: RocksStore) -> Iterator[None]:
    """Flush and compact in turn, without a pause."""
    ended = threading.Event()

    def work() -> None:
        while not ended.is_set():
            store.flush()
            store.compact(Family.SMALL, page_key(1, 0), page_key(2, 0))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_each_checkpoint_beside_flushes_and_compactions_has_all_writes_before_it_and_no_later_one(
    store: RocksStore, tmp_path: Path
) -> None:
    expected: list[dict[Family, object]] = []
    with background_work(store):
        for number in range(15):
            write(store, number * 200, 200)
            expected.append(contents(store))
            checkpoint(store, tmp_path / f"{number}")
    write(store, 15 * 200, 200)

    assert [contents(tmp_path / f"{number}") for number in range(15)] == expected


def test_a_checkpoint_flushes_nothing_and_has_what_is_only_in_the_log(store: RocksStore, tmp_path: Path) -> None:
    write(store, 0, 10)

    checkpoint(store, tmp_path / "copy")

    assert not list((tmp_path / "data" / "db").glob("*.sst"))
    assert contents(tmp_path / "copy") == contents(store)


def test_tables_are_linked_and_not_copied(store: RocksStore, tmp_path: Path) -> None:
    write(store, 0, 10)
    store.flush()

    checkpoint(store, tmp_path / "copy")

    tables = sorted((tmp_path / "data" / "db").glob("*.sst"))
    assert tables
    assert all(path.samefile(tmp_path / "copy" / "db" / path.name) for path in tables)


def test_a_manifest_that_grows_during_each_attempt_makes_no_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = tmp_path / "db"
    database.mkdir()
    (database / "CURRENT").write_text("MANIFEST-000005\n")
    (database / "MANIFEST-000005").write_bytes(b"some edits")
    (database / "000007.sst").touch()
    link = os.link

    def link_beside_an_edit(source: Path, name: Path) -> None:
        link(source, name)
        with (database / "MANIFEST-000005").open("ab") as manifest:
            manifest.write(b"edit")

    monkeypatch.setattr(os, "link", link_beside_an_edit)

    assert not link_checkpoint(database, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_without_a_calm_moment_the_checkpoint_is_made_by_rocksdb(
    store: RocksStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(store, 0, 10)
    monkeypatch.setattr(rocks_store, "link_checkpoint", lambda database, into: False)

    checkpoint(store, tmp_path / "copy")

    assert contents(tmp_path / "copy") == contents(store)
