"""Journals in real servers of objects: S3, Google Cloud Storage and Azure Blob Storage."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.broker.storage.replication.engine import Engine, EngineAway
from forebay.broker.storage.replication.engines.addresses import open_engine
from tests.support.storage.engine_conformance import EngineConformance
from tests.support.stores.conformance import secrets_of
from tests.support.stores.journal_cases import (
    check_a_follower_serves_what_the_owner_gave_receipts_for,
    check_an_empty_disk_gets_everything_from_checkpoint_and_journal,
)
from tests.support.stores.objects import OBJECT_SERVERS, address, running
from tests.support.stores.server import StoreServer


@pytest.fixture(scope="module", params=OBJECT_SERVERS)
def server(request: pytest.FixtureRequest) -> Iterator[StoreServer]:
    with running(request.param) as one:
        yield one


@pytest.fixture(autouse=True)
def credentials(server: StoreServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in server.good.items():
        monkeypatch.setenv(name, value)


class TestBucketEngine(EngineConformance):
    @pytest.fixture
    def engine(self, server: StoreServer) -> Engine:
        return open_engine(address(server, f"journal-{secrets.token_hex(4)}"))


def test_credentials_that_are_refused_are_an_engine_that_is_unreachable_and_are_not_shown(
    server: StoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in server.wrong.items():
        monkeypatch.setenv(name, value)
    engine = open_engine(address(server, "refused"))

    with pytest.raises(EngineAway) as away:
        engine.create(0, [b"x"])

    assert not [secret for secret in secrets_of(server) if secret in str(away.value)]


def test_a_follower_serves_what_the_owner_gave_receipts_for(server: StoreServer, tmp_path: Path) -> None:
    environment = {**server.good, "FOREBAY_JOURNAL": address(server, f"journal-{secrets.token_hex(4)}")}

    info = check_a_follower_serves_what_the_owner_gave_receipts_for(environment, tmp_path)

    assert info.journal_durability == "stored by the service, as its storage class says"


def test_a_broker_on_an_empty_disk_gets_everything_from_checkpoint_and_journal(
    server: StoreServer, tmp_path: Path
) -> None:
    environment = {**server.good, "FOREBAY_JOURNAL": address(server, f"journal-{secrets.token_hex(4)}")}

    check_an_empty_disk_gets_everything_from_checkpoint_and_journal(environment, tmp_path)
