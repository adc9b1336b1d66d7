"""Contract of every ``PositionStore``: one suite, run on each of them.

A test module derives from ``PositionStoreConformance`` and provides the fixture ``opened``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from forebay.client.errors import PositionConflict
from forebay.client.positions.store import PositionStore

KEY = "default/billing/orders/0"
Opened = Callable[[], PositionStore]
"""Opens the same documents once more, as another process does."""


class PositionStoreConformance:
    """Derive from it and provide the fixture ``opened``."""

    @pytest.fixture
    def opened(self) -> Opened:
        raise NotImplementedError

    def test_a_key_that_was_never_written_has_no_document(self, opened: Opened) -> None:
        assert opened().read(KEY) is None

    def test_a_document_is_read_as_it_was_written_by_another_process_too(self, opened: Opened) -> None:
        version = opened().compare_and_write(KEY, b'{"offset":1}', None)

        found = opened().read(KEY)

        assert found is not None
        assert (found.document, found.version) == (b'{"offset":1}', version)

    def test_a_write_under_the_version_that_was_read_replaces_the_document(self, opened: Opened) -> None:
        store = opened()
        first = store.compare_and_write(KEY, b"1", None)

        second = store.compare_and_write(KEY, b"2", first)

        found = store.read(KEY)
        assert found is not None
        assert (found.document, found.version) == (b"2", second)
        assert first != second

    def test_a_write_under_an_older_version_is_refused_and_changes_nothing(self, opened: Opened) -> None:
        store, other = opened(), opened()
        first = store.compare_and_write(KEY, b"1", None)
        other.compare_and_write(KEY, b"2", first)

        with pytest.raises(PositionConflict):
            store.compare_and_write(KEY, b"3", first)

        found = store.read(KEY)
        assert found is not None
        assert found.document == b"2"

    def test_a_first_write_is_refused_where_a_document_is(self, opened: Opened) -> None:
        opened().compare_and_write(KEY, b"1", None)

        with pytest.raises(PositionConflict):
            opened().compare_and_write(KEY, b"2", None)

    def test_a_write_under_a_version_is_refused_where_no_document_is(self, opened: Opened) -> None:
        store = opened()
        version = store.compare_and_write(KEY, b"1", None)
        store.delete(KEY)

        with pytest.raises(PositionConflict):
            store.compare_and_write(KEY, b"2", version)

    def test_a_deleted_document_is_gone_and_deleting_it_again_has_no_effect(self, opened: Opened) -> None:
        store = opened()
        store.compare_and_write(KEY, b"1", None)

        store.delete(KEY)
        store.delete(KEY)

        assert store.read(KEY) is None
        assert list(store.list("")) == []

    def test_keys_are_listed_by_prefix_in_order(self, opened: Opened) -> None:
        store = opened()
        for key in ("default/b/orders/1", "default/a/orders/0", "other/a/orders/0", "default/a/orders/10"):
            store.compare_and_write(key, b"1", None)

        assert list(store.list("default/a/")) == ["default/a/orders/0", "default/a/orders/10"]
        assert len(list(store.list(""))) == 4

    def test_of_many_writers_under_one_version_one_succeeds(self, opened: Opened) -> None:
        version = opened().compare_and_write(KEY, b"0", None)
        writers = [opened() for _ in range(8)]
        begin = threading.Barrier(len(writers))
        won: list[bytes] = []

        def write(store: PositionStore, document: bytes) -> None:
            begin.wait()
            try:
                store.compare_and_write(KEY, document, version)
            except PositionConflict:
                return
            won.append(document)

        threads = [
            threading.Thread(target=write, args=(store, b"%d" % number)) for number, store in enumerate(writers, 1)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        found = opened().read(KEY)
        assert found is not None
        assert won == [found.document]
