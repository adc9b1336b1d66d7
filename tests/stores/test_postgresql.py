"""Positions in a real PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from forebay.client.errors import PositionStoreError
from tests.support.positions.conformance import KEY
from tests.support.stores.conformance import OpenedAt, StoreServerConformance
from tests.support.stores.postgresql import DATABASE, PASSWORD, PostgresqlServer, program
from tests.support.stores.server import StoreServer

SQL = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture(scope="module")
def server(server_folder: Path) -> Iterator[StoreServer]:
    program("postgres")
    one = PostgresqlServer(server_folder)
    try:
        one.start()
        yield one
    finally:
        one.close()


@pytest.fixture
def sql(server: StoreServer) -> Iterator[SQL]:
    with psycopg.connect(
        host="127.0.0.1",
        port=server.port,
        dbname=DATABASE,
        user="billing",
        password=PASSWORD,
        client_encoding="utf8",
        autocommit=True,
    ) as connection:
        yield connection


def table_of(url: str) -> str:
    return url.rpartition("table=")[2]


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

    def test_a_session_on_a_server_that_became_read_only_is_replaced(
        self, url: str, opened_at: OpenedAt, sql: SQL
    ) -> None:
        store = opened_at(url)
        version = store.compare_and_write(KEY, b"1", None)
        sql.execute(f"ALTER DATABASE {DATABASE} SET default_transaction_read_only = on")
        try:
            store.close()
            with pytest.raises(PositionStoreError, match="read-only"):
                store.compare_and_write(KEY, b"2", version)
            assert store.read(KEY) is not None  # over a session that is read-only as well
        finally:
            sql.execute(f"ALTER DATABASE {DATABASE} RESET default_transaction_read_only")

        version = store.compare_and_write(KEY, b"2", version)
        assert store.compare_and_write(KEY, b"3", version)

    def test_each_write_is_on_the_disk_before_it_is_confirmed_also_behind_a_pooler(
        self, url: str, opened_at: OpenedAt, sql: SQL
    ) -> None:
        opened_at(url).read(KEY)
        sql.execute("CREATE TABLE IF NOT EXISTS seen (number bigserial, synchronous_commit text)")
        sql.execute("TRUNCATE seen")
        sql.execute(
            "CREATE OR REPLACE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN"
            " INSERT INTO seen (synchronous_commit) VALUES (current_setting('synchronous_commit'));"
            # A pooler gives the next transaction to a session without the settings of this one.
            " PERFORM set_config('synchronous_commit', 'off', false);"
            " RETURN NULL; END$$"
        )
        table = table_of(url)
        sql.execute(f"CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON {table} EXECUTE FUNCTION note()".encode())
        sql.execute(f"ALTER DATABASE {DATABASE} SET synchronous_commit = off")
        try:
            store = opened_at(url)
            version = store.compare_and_write(KEY, b"1", None)
            store.compare_and_write(KEY, b"2", version)
            store.delete(KEY)
        finally:
            sql.execute(f"ALTER DATABASE {DATABASE} RESET synchronous_commit")

        assert sql.execute("SELECT synchronous_commit FROM seen ORDER BY number").fetchall() == [("on",)] * 3
