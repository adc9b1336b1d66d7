"""Backups in a real S3 server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.broker.storage.backup.catalog import find, list_backups, prune
from forebay.broker.storage.backup.errors import TargetFailed
from forebay.broker.storage.backup.restore import verify_backup
from forebay.broker.storage.backup.target import read_all
from forebay.broker.storage.backup.targets import open_target
from tests.support.storage.backed_up import BackedUp
from tests.support.stores.minio import MinioServer


@pytest.fixture(scope="module")
def server(server_folder: Path) -> Iterator[MinioServer]:
    one = MinioServer(server_folder)
    try:
        one.start()
        yield one
    finally:
        one.close()


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in MinioServer.good.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("credentials")
def test_a_store_is_backed_up_verified_and_pruned(server: MinioServer, tmp_path: Path) -> None:
    kept = BackedUp(tmp_path, target=server.url("backups"))
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
def test_a_large_file_is_uploaded_in_parts(server: MinioServer) -> None:
    target = open_target(server.url("large"))

    target.put("a", (bytes([number]) * (3 << 20) for number in range(8)))

    assert len(read_all(target, "a")) == 24 << 20


def test_wrong_credentials_fail_without_being_named(server: MinioServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in MinioServer.wrong.items():
        monkeypatch.setenv(name, value)

    with pytest.raises(TargetFailed, match=r"s3://positions/backups") as refused:
        list(open_target(server.url("backups")).names())

    assert "secret" not in str(refused.value)


@pytest.mark.usefixtures("credentials")
def test_a_bucket_that_does_not_exist_is_named(server: MinioServer) -> None:
    target = open_target(server.url("x").replace("://positions", "://nowhere"))

    with pytest.raises(TargetFailed, match="nowhere"):
        target.put("a", [b"1"])
