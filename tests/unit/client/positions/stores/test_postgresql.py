"""URL of the store in PostgreSQL; tests/stores has the tests on a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.client import InvalidArgument
from forebay.client.errors import PositionStoreUnavailable
from forebay.client.positions.store import open_store
from forebay.client.positions.stores.postgresql import CREATE, PostgresqlOptions
from tests.support.positions.no_channels import no_channels


@pytest.mark.parametrize("url", ["postgresql://host", "postgresql://host/", "postgresql://host/a/b"])
def test_a_url_without_one_database_is_refused(url: str) -> None:
    with pytest.raises(InvalidArgument, match="postgresql://USER@HOST:PORT/DATABASE"):
        open_store(url, channels=no_channels())


@pytest.mark.parametrize("table", ["Positions", "a.b.c", "x;drop table y", '"x"', ""])
def test_a_table_whose_name_would_need_quotes_is_refused(table: str) -> None:
    with pytest.raises(InvalidArgument, match=r"TABLE or SCHEMA\.TABLE"):
        open_store(f"postgresql://host/db?table={table}", channels=no_channels())


def test_a_server_that_is_unreachable_is_unavailable_and_the_next_call_tries_again() -> None:
    store = open_store("postgresql://127.0.0.1:1/db", channels=no_channels(), rw_timeout_s=2)

    for _ in range(2):
        with pytest.raises(PositionStoreUnavailable, match=r"the position store postgresql://127\.0\.0\.1:1/db"):
            store.read("default/billing/orders/0")


def test_the_text_of_a_store_shows_no_user() -> None:
    assert "billing" not in repr(open_store("postgresql://billing@host/db", channels=no_channels()))


def test_the_reference_shows_the_statement_that_creates_the_table() -> None:
    page = (Path(__file__).parents[5] / "docs" / "reference" / "saved-positions.md").read_text(encoding="utf-8")

    assert CREATE.format(table=PostgresqlOptions().table) in page.splitlines()
