"""Positions in Azure Blob Storage, as Azurite emulates it: with leases, and by `obstore` without."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import BlobClient

from forebay.client.errors import PositionConflict, PositionStoreError
from forebay.client.positions.stores.azure_blob import AzureBlobPositions
from tests.support.positions.conformance import KEY, Opened
from tests.support.stores.azurite import ACCOUNT, CONTAINER, AzuriteServer
from tests.support.stores.conformance import OpenedAt, StoreServerConformance, fresh_url
from tests.support.stores.server import StoreServer


@pytest.fixture(scope="module")
def server(server_folder: Path) -> Iterator[StoreServer]:
    one = AzuriteServer(server_folder)
    try:
        one.start()
        yield one
    finally:
        one.close()


class TestAzureBlobPositions(StoreServerConformance):
    def test_a_blob_is_leased_to_its_writer_so_that_no_tool_overwrites_it(
        self, server: StoreServer, url: str, opened: Opened
    ) -> None:
        store = opened()
        version = store.compare_and_write(KEY, b"1", None)
        with blob_of(server, url) as blob:
            with pytest.raises(HttpResponseError, match="LeaseIdMissing"):
                blob.upload_blob(b"2", overwrite=True)
            with pytest.raises(HttpResponseError, match="LeaseIdMissing"):
                blob.delete_blob()

        assert store.compare_and_write(KEY, b"3", version)

    def test_a_lease_does_not_delay_the_consumer_that_takes_over(self, opened: Opened) -> None:
        first, second = opened(), opened()
        version = first.compare_and_write(KEY, b"1", None)

        taken = second.compare_and_write(KEY, b"2", version)

        with pytest.raises(PositionConflict):
            first.compare_and_write(KEY, b"3", version)
        assert second.compare_and_write(KEY, b"4", taken)

    def test_a_lease_that_was_broken_by_an_operator_is_taken_again(
        self, server: StoreServer, url: str, opened: Opened
    ) -> None:
        from azure.storage.blob import BlobLeaseClient

        store = opened()
        version = store.compare_and_write(KEY, b"1", None)
        with blob_of(server, url) as blob:
            BlobLeaseClient(blob).break_lease(lease_break_period=0)
            version = store.compare_and_write(KEY, b"2", version)
            with pytest.raises(HttpResponseError, match="LeaseIdMissing"):
                blob.upload_blob(b"3", overwrite=True)

        assert store.compare_and_write(KEY, b"4", version)

    def test_a_save_renews_a_lease_that_is_half_over(self, opened: Opened) -> None:
        store = opened()
        assert isinstance(store, AzureBlobPositions)
        now = [0.0]
        store._clock = lambda: now[0]
        version = store.compare_and_write(KEY, b"1", None)
        taken = store._leases[KEY]
        for second, renewed_at in ((20.0, 0.0), (40.0, 40.0)):
            now[0] = second
            version = store.compare_and_write(KEY, b"%d" % second, version)
            assert (store._leases[KEY].id, store._leases[KEY].taken_at) == (taken.id, renewed_at)

    def test_without_a_lease_the_etag_alone_decides(self, server: StoreServer, url: str, opened_at: OpenedAt) -> None:
        store = opened_at(f"{url}&lease_s=0")
        version = store.compare_and_write(KEY, b"1", None)
        with blob_of(server, url) as blob:
            blob.upload_blob(b"2", overwrite=True)

        with pytest.raises(PositionConflict):
            store.compare_and_write(KEY, b"3", version)

    def test_a_missing_container_that_may_not_be_created_is_an_error(self, url: str, opened_at: OpenedAt) -> None:
        store = opened_at(url.replace("//positions", "//nowhere") + "&create=false")

        with pytest.raises(PositionStoreError, match="ContainerNotFound"):
            store.read(KEY)
        with pytest.raises(PositionStoreError, match="ContainerNotFound"):
            store.compare_and_write(KEY, b"1", None)


class TestObjectPositionsInAzure(StoreServerConformance):
    @pytest.fixture
    def url(self, server: StoreServer, opened_at: OpenedAt, monkeypatch: pytest.MonkeyPatch) -> str:
        for name, value in server.good.items():
            monkeypatch.setenv(name, value)
        url = server.url("created-by-the-other-store")
        opened_at(url).compare_and_write(KEY, b"1", None)
        opened_at(url).delete(KEY)
        return fresh_url(server).replace("azure-blob:", "az:")


def blob_of(server: StoreServer, url: str) -> BlobClient:
    """Return the blob as a tool of an operator sees it."""
    prefix = url.partition("?")[0].rpartition("/")[2]
    endpoint, key = url.rpartition("endpoint=")[2], server.good["AZURE_STORAGE_ACCOUNT_KEY"]
    return BlobClient(endpoint, CONTAINER, f"{prefix}/{KEY}", credential={"account_name": ACCOUNT, "account_key": key})
