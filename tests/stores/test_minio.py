"""Positions in a real S3 server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.client.errors import PositionStoreError
from tests.support.positions.conformance import KEY
from tests.support.stores.conformance import OpenedAt, StoreServerConformance
from tests.support.stores.minio import MinioServer
from tests.support.stores.server import StoreServer


@pytest.fixture(scope="module")
def server(server_folder: Path) -> Iterator[StoreServer]:
    one = MinioServer(server_folder)
    try:
        one.start()
        yield one
    finally:
        one.close()


class TestObjectPositionsInS3(StoreServerConformance):
    def test_a_bucket_that_does_not_exist_is_refused_also_by_a_read(self, url: str, opened_at: OpenedAt) -> None:
        store = opened_at(url.replace("://positions", "://nowhere"))

        with pytest.raises(PositionStoreError, match="the bucket does not exist"):
            store.read(KEY)
        with pytest.raises(PositionStoreError, match="the bucket does not exist"):
            store.compare_and_write(KEY, b"1", None)
