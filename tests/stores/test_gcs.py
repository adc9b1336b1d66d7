"""Positions in Google Cloud Storage, as fake-gcs-server emulates it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.client.errors import PositionConflict, PositionStoreError
from tests.support.positions.conformance import KEY, Opened
from tests.support.stores.conformance import OpenedAt, StoreServerConformance
from tests.support.stores.gcs import GcsServer
from tests.support.stores.server import StoreServer


@pytest.fixture(scope="module")
def server(server_folder: Path) -> Iterator[StoreServer]:
    one = GcsServer(server_folder)
    try:
        one.start()
        yield one
    finally:
        one.close()


class TestObjectPositionsInGoogleCloudStorage(StoreServerConformance):
    def test_the_version_of_a_document_is_the_generation_of_its_object(self, opened: Opened) -> None:
        store = opened()
        first = store.compare_and_write(KEY, b"1", None)
        store.delete(KEY)
        second = store.compare_and_write(KEY, b"1", None)

        with pytest.raises(PositionConflict):  # the same content has the same ETag
            store.compare_and_write(KEY, b"2", first)
        assert store.compare_and_write(KEY, b"2", second)

    def test_a_bucket_that_does_not_exist_is_refused_also_by_a_read(self, url: str, opened_at: OpenedAt) -> None:
        store = opened_at(url.replace("://positions", "://nowhere"))

        with pytest.raises(PositionStoreError, match="the bucket does not exist"):
            store.read(KEY)
        with pytest.raises(PositionStoreError, match="the bucket does not exist"):
            store.compare_and_write(KEY, b"1", None)
