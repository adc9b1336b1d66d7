"""URL of the store in Cassandra; tests/stores has the tests on a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.client import InvalidArgument
from forebay.client.errors import PositionStoreUnavailable
from forebay.client.positions.store import open_store
from forebay.client.positions.stores.cassandra import CassandraPositions
from tests.support.positions.no_channels import no_channels


@pytest.mark.parametrize(
    "url",
    [
        "cassandra://host",
        "cassandra://host/Keyspace",
        "cassandra://host/a/b",
        "cassandra:///keyspace",
        "cassandra://user@host/keyspace",
        "cassandra://a:1,b:2/keyspace",
    ],
)
def test_a_url_without_hosts_and_one_keyspace_is_refused(url: str) -> None:
    with pytest.raises(InvalidArgument, match="cassandra://HOST,HOST:PORT/KEYSPACE"):
        open_store(url, channels=no_channels())


@pytest.mark.parametrize("option", ["table=A", "table=a.b", "replication_factor=0", "datacenter=x'y", "tls=1"])
def test_an_option_of_another_form_is_refused(option: str) -> None:
    with pytest.raises(InvalidArgument, match="store"):
        open_store(f"cassandra://host/keyspace?{option}", channels=no_channels())


def test_hosts_that_are_away_are_unavailable_and_the_next_call_tries_again() -> None:
    store = open_store("cassandra://127.0.0.1,localhost:1/keyspace", channels=no_channels(), rw_timeout_s=2)

    for _ in range(2):
        with pytest.raises(PositionStoreUnavailable, match=r"the position store cassandra://127\.0\.0\.1,localhost:1"):
            store.read("default/billing/orders/0")


def test_the_reference_shows_the_statements_that_create_keyspace_and_table() -> None:
    page = (Path(__file__).parents[5] / "docs" / "reference" / "saved-positions.md").read_text(encoding="utf-8")
    store = open_store("cassandra://host/forebay", channels=no_channels())

    assert isinstance(store, CassandraPositions)
    assert set(store.creation()) <= set(page.splitlines())
