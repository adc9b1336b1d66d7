"""Positions in a real PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.client.errors import PositionStoreError
from tests.support.positions.conformance import KEY
from tests.support.stores.conformance import OpenedAt, StoreServerConformance
from tests.support.stores.postgresql import PostgresqlServer, program
from tests.support.stores.server import StoreServer


@pytest.fixture(scope="module")
def server(server_folder: Path) -> Iterator[StoreServer]:
    program("postgres")
    one = PostgresqlServer(server_folder)
    try:
        one.start()
        yield one
    finally:
        one.close()


class TestPostgresqlPositions(StoreServerConformance):
    def test_a_missing_table_that_may_not_be_created_is_an_error_with_the_statement(
        self, url: str, opened_at: OpenedAt
    ) -> None:
        with pytest.raises(PositionStoreError, match=r"has no table .*CREATE TABLE IF NOT EXISTS"):
            opened_at(f"{url}&create=false").read(KEY)

    def test_a_database_that_does_not_exist_is_refused(self, url: str, opened_at: OpenedAt) -> None:
        with pytest.raises(PositionStoreError, match="does not exist"):
            opened_at(url.replace("/positions", "/nowhere")).read(KEY)

    def test_a_table_of_another_form_is_refused(self, url: str, opened_at: OpenedAt) -> None:
        opened_at(url).compare_and_write(KEY, b"1", None)
        with pytest.raises(PositionStoreError, match="column"):
            opened_at(url.partition("?")[0] + "?table=pg_catalog.pg_class").read(KEY)

    def test_credentials_are_read_from_a_file(
        self, server: StoreServer, url: str, opened_at: OpenedAt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "secret").write_text("".join(f"{name}={value}\n" for name, value in server.good.items()))
        monkeypatch.delenv("PGPASSWORD")
        with pytest.raises(PositionStoreError):
            opened_at(url).read(KEY)

        assert opened_at(f"{url}&credentials_file={tmp_path / 'secret'}").read(KEY) is None

    def test_a_password_that_was_replaced_in_the_file_is_used_by_the_next_connection(
        self, server: StoreServer, url: str, opened_at: OpenedAt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        secret = tmp_path / "secret"
        secret.write_text("PGPASSWORD=former\n")
        store = opened_at(f"{url}&credentials_file={secret}")
        with pytest.raises(PositionStoreError):
            store.read(KEY)

        secret.write_text(f"PGPASSWORD={server.good['PGPASSWORD']}\n")

        assert store.read(KEY) is None
