"""Servers of objects, with their bucket or container, and addresses in them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from azure.storage.blob import ContainerClient

from tests.support.stores.azurite import ACCOUNT, CONTAINER, AzuriteServer
from tests.support.stores.gcs import GcsServer
from tests.support.stores.minio import MinioServer, TlsMinioServer
from tests.support.stores.server import StoreServer

OBJECT_SERVERS: Final[tuple[type[StoreServer], ...]] = (MinioServer, TlsMinioServer, GcsServer, AzuriteServer)


@contextmanager
def running(kind: type[StoreServer], within: Path | None = None) -> Iterator[StoreServer]:
    """Run a server in a directory of its own, in that of temporary files or another one."""
    one = kind(Path(tempfile.mkdtemp(prefix="forebay-store-", dir=within)))
    try:
        one.start()
        if isinstance(one, AzuriteServer):
            credential = {"account_name": ACCOUNT, "account_key": one.good["AZURE_STORAGE_ACCOUNT_KEY"]}
            endpoint = f"http://127.0.0.1:{one.port}/{ACCOUNT}"
            with ContainerClient(endpoint, CONTAINER, credential=credential) as container:
                container.create_container()
        yield one
    finally:
        one.close()


def address(server: StoreServer, place: str) -> str:
    """Return the address of a place for backups and journals."""
    return server.url(place).replace("azure-blob://", "az://")
