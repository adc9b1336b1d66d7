"""Journals of a fleet: in a directory, and in a bucket or a topic that each broker reaches through its own proxies."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from tests.support.proxies.group import Way
from tests.support.proxies.tcp import TcpProxy
from tests.support.storage.memory_folder import memory_folder
from tests.support.stores.kafka import KafkaCluster
from tests.support.stores.minio import MinioServer
from tests.support.stores.objects import running

ENGINES: Final = ("directory", "minio", "kafka")
PLACE: Final = "fleet"
BROKERS: Final = 2


class Journal(Protocol):
    """Journal of a fleet."""

    def way(self) -> tuple[str, Way | None]:
        """Return the address for one broker, and what is on its way, None where there is no connection."""
        ...


class DirectoryJournal:
    """Journal in a directory that all brokers share: no broker can be cut off alone."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def way(self) -> tuple[str, Way | None]:
        """See ``Journal.way``."""
        return str(self._directory), None


class BucketJournal:
    """Journal in a MinIO."""

    def __init__(self, server: MinioServer) -> None:
        self._server = server

    def way(self) -> tuple[str, Way | None]:
        """See ``Journal.way``."""
        proxy = TcpProxy(f"127.0.0.1:{self._server.port}")
        return self._server.url(PLACE, int(proxy.endpoint.rpartition(":")[2])), proxy


class TopicJournal:
    """Journal in a Kafka of three nodes, each of which has a listener for each broker."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster
        self._numbers = itertools.count()

    def way(self) -> tuple[str, Way | None]:
        """See ``Journal.way``: all nodes are cut off at once."""
        return self._cluster.way(next(self._numbers), PLACE)


@contextmanager
def opened(engine: str, directory: Path) -> Iterator[Journal]:
    """Open the journal of an engine; brokers that are started meanwhile have its credentials."""
    if engine == "directory":
        yield DirectoryJournal(directory / "journal")
        return
    if engine == "kafka":
        cluster = KafkaCluster(Path(tempfile.mkdtemp(prefix="forebay-store-", dir=memory_folder())), ways=BROKERS)
        try:
            cluster.start()
            yield TopicJournal(cluster)
        finally:
            cluster.close()
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
