"""Journals of a fleet: one in a directory, and one in a bucket that each broker reaches through a proxy of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from tests.support.proxies.tcp import TcpProxy
from tests.support.storage.memory_folder import memory_folder
from tests.support.stores.minio import MinioServer
from tests.support.stores.objects import running

ENGINES: Final = ("directory", "minio")
PLACE: Final = "fleet"


class Journal(Protocol):
    """Journal of a fleet."""

    def way(self) -> tuple[str, TcpProxy | None]:
        """Return the address for one broker, and the proxy on its way, None where there is no connection."""
        ...


class DirectoryJournal:
    """Journal in a directory that all brokers share: no broker can be cut off alone."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def way(self) -> tuple[str, TcpProxy | None]:
        """See ``Journal.way``."""
        return str(self._directory), None


class BucketJournal:
    """Journal in a MinIO."""

    def __init__(self, server: MinioServer) -> None:
        self._server = server

    def way(self) -> tuple[str, TcpProxy | None]:
        """See ``Journal.way``."""
        proxy = TcpProxy(f"127.0.0.1:{self._server.port}")
        return self._server.url(PLACE, int(proxy.endpoint.rpartition(":")[2])), proxy


@contextmanager
def opened(engine: str, directory: Path) -> Iterator[Journal]:
    """Open the journal of an engine; brokers that are started meanwhile have its credentials."""
    if engine == "directory":
        yield DirectoryJournal(directory / "journal")
        return
    with running(MinioServer, memory_folder()) as server:  # the server itself is not killed
        assert isinstance(server, MinioServer)
        before = {name: os.environ.get(name) for name in server.good}
        os.environ.update(server.good)
        try:
            yield BucketJournal(server)
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
