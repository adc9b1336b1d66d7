"""Backups in real servers of objects: S3, Google Cloud Storage and Azure Blob Storage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.broker.storage.backup.catalog import find, list_backups, prune
from forebay.broker.storage.backup.errors import TargetFailed, TargetMissing
from forebay.broker.storage.backup.restores.restore import verify_backup
from forebay.broker.storage.backup.target import read_all
from forebay.broker.storage.backup.targets import open_target
from tests.support.storage.backed_up import BackedUp
from tests.support.stores.conformance import secrets_of
from tests.support.stores.objects import OBJECT_SERVERS, address, running
from tests.support.stores.server import StoreServer


@pytest.fixture(scope="module", params=OBJECT_SERVERS)
def server(request: pytest.FixtureRequest) -> Iterator[StoreServer]:
    with running(request.param) as one:
        yield one


@pytest.fixture
def credentials(server: StoreServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in server.good.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("credentials")
def test_a_store_is_backed_up_verified_and_pruned(server: StoreServer, tmp_path: Path) -> None:
    kept = BackedUp(tmp_path, target=address(server, "backups"))
    first = kept.back_up()
    second = kept.back_up()
    kept.store.close()

    assert second.parent == first.id
    assert second.transferred_bytes < first.transferred_bytes
    assert verify_backup(kept.target, find(kept.target), work_dir=tmp_path).clean
    assert prune(kept.target, now_us=kept.clock(), keep_last=1, keep_days=0).backups == (first.id,)
    assert [one.id for one in list_backups(kept.target)] == [second.id]
    assert verify_backup(kept.target, find(kept.target), work_dir=tmp_path).clean


@pytest.mark.usefixtures("credentials")
def test_a_large_file_is_uploaded_in_parts(server: StoreServer) -> None:
    target = open_target(address(server, "large"))

    target.put("a", (bytes([number]) * (3 << 20) for number in range(8)))

    assert read_all(target, "a") == b"".join(bytes([number]) * (3 << 20) for number in range(8))


def test_wrong_credentials_fail_without_being_named(server: StoreServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in server.wrong.items():
        monkeypatch.setenv(name, value)
    place = address(server, "backups")

    with pytest.raises(TargetFailed) as refused:
        list(open_target(place).names())

    assert place.partition("?")[0] in str(refused.value)
    assert not [secret for secret in secrets_of(server) if secret in str(refused.value)]


@pytest.mark.usefixtures("credentials")
def test_a_bucket_that_does_not_exist_is_named(server: StoreServer) -> None:
    target = open_target(address(server, "x").replace("://positions", "://nowhere"))

    with pytest.raises(TargetMissing, match=r"nowhere.*: the bucket does not exist"):
        target.put("a", [b"1"])
    with pytest.raises(TargetMissing, match=r"nowhere.*: the bucket does not exist"):
        list_backups(target)


@pytest.mark.usefixtures("credentials")
def test_a_prefix_without_objects_is_an_empty_list(server: StoreServer) -> None:
    assert list_backups(open_target(address(server, "never-written"), creates=False)) == []
