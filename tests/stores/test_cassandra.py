"""Positions in a real Cassandra."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.client.errors import PositionStoreError, PositionStoreUnavailable
from tests.support.positions.conformance import KEY
from tests.support.stores.cassandra_server import CassandraServer
from tests.support.stores.conformance import OpenedAt, StoreServerConformance
from tests.support.stores.server import StoreServer

pytestmark = pytest.mark.timeout(300)  # the first test starts the server


@pytest.fixture(scope="module")
def server(server_folder: Path) -> Iterator[StoreServer]:
    one = CassandraServer(server_folder)
    try:
        one.start()
        yield one
    finally:
        one.close()


class TestCassandraPositions(StoreServerConformance):
    kills = 1  # it takes ten seconds to start

    def test_a_missing_table_that_may_not_be_created_is_an_error_with_the_statements(
        self, url: str, opened_at: OpenedAt
    ) -> None:
        with pytest.raises(PositionStoreError, match=r"create is false: CREATE KEYSPACE .*; CREATE TABLE"):
            opened_at(f"{url}&create=false").read(KEY)

    def test_a_keyspace_whose_copies_are_too_few_is_unavailable_and_not_half_written(
        self, url: str, opened_at: OpenedAt
    ) -> None:
        alone = url.replace("/positions?", "/three_copies?").replace("replication_factor=1", "replication_factor=3")

        with pytest.raises(PositionStoreUnavailable, match=r"Unavailable|achieve consistency"):
            opened_at(alone).compare_and_write(KEY, b"1", None)

    def test_a_table_of_another_form_is_refused(self, url: str, opened_at: OpenedAt) -> None:
        with pytest.raises(PositionStoreError, match=r"Undefined column|Undefined name"):
            opened_at(url.partition("?")[0].replace("/positions", "/system") + "?table=local").read(KEY)
