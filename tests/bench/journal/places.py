"""Places of journals: a directory of this disk, and MinIO and a Kafka of three nodes on this disk where installed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

import obstore

from forebay.broker.storage.object_stores import open_objects
from forebay.broker.storage.replication.engines.addresses import open_engine
from tests.bench.journal.link import Link
from tests.bench.journal.raw import Messages, Objects, Raw
from tests.support.processes.server import TOOLS
from tests.support.proxies.tcp import TcpProxy
from tests.support.stores.kafka import JARS, KafkaCluster
from tests.support.stores.minio import MinioServer, TlsMinioServer

LINK_BYTES_PER_S: Final = 125e6
"""Of a network of 1 Gbit/s."""


class Place(Protocol):
    """An engine that has journals by name."""

    name: str
    thing: str
    """Name of an object of the engine, in the singular."""

    large: str
    """Size of such a thing in a large group."""

    environment: Mapping[str, str]
    """Credentials, as environment variables."""

    def address(self, journal: str) -> str:
        """Address of a journal."""

    def raw(self, journal: str) -> Raw:
        """The engine without a journal, in a place with the settings of one."""

    def remove(self, journal: str) -> None:
        """Delete a journal that is not used any more, and wait until the disk is quiet."""


class DirectoryPlace:
    """Directories of this disk."""

    name, thing, large = "directory", "object", "8 MiB"
    environment: Mapping[str, str] = {}

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def address(self, journal: str) -> str:
        return str(self._folder / journal)

    def raw(self, journal: str) -> Raw:
        return Objects(open_engine(self.address(journal)))

    def remove(self, journal: str) -> None:
        shutil.rmtree(self._folder / journal)
        os.sync()


class MinioPlace:
    """Prefixes of a bucket."""

    name, thing, large = "MinIO", "object", "8 MiB"

    def __init__(self, server: MinioServer) -> None:
        self.server = server
        self.environment = server.good

    def address(self, journal: str) -> str:
        return self.server.url(journal)

    def raw(self, journal: str) -> Raw:
        return Objects(open_engine(self.address(journal)))

    def remove(self, journal: str) -> None:
        objects, _ = open_objects(self.address(journal))
        for listed in obstore.list(objects):
            obstore.delete(objects, [each["path"] for each in listed])
        os.sync()


class LinkedPlace(MinioPlace):
    """Prefixes of a bucket behind a link."""

    name = f"MinIO behind {LINK_BYTES_PER_S / 1e6:.0f} MB/s"

    def __init__(self, server: MinioServer, proxy: TcpProxy) -> None:
        super().__init__(server)
        self._port = int(proxy.endpoint.rpartition(":")[2])

    def address(self, journal: str) -> str:
        return self.server.url(journal, self._port)


class KafkaPlace:
    """Topics of a Kafka."""

    name, thing, large = "Kafka", "message", "4 MiB"
    environment: Mapping[str, str] = {}

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster

    def address(self, journal: str) -> str:
        return self._cluster.url(journal)

    def raw(self, journal: str) -> Raw:
        return Messages(self.address(journal))

    def remove(self, journal: str) -> None:
        self._cluster.delete_topic(journal)
        os.sync()


def has_minio() -> bool:
    """Return whether MinIO is installed."""
    return shutil.which("minio", path=f"{TOOLS / 'bin'}:{os.environ['PATH']}") is not None


@contextmanager
def minio(folder: Path) -> Iterator[MinioPlace]:
    """Run MinIO with TLS, whose credentials are in the environment of this process meanwhile."""
    folder.mkdir()
    server = TlsMinioServer(folder)
    before = {name: os.environ.get(name) for name in server.good}
    os.environ.update(server.good)
    try:
        server.start()
        yield MinioPlace(server)
    finally:
        server.close()
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def linked(place: MinioPlace) -> Iterator[LinkedPlace]:
    """Reach MinIO through a link."""
    server = place.server
    upload, download = Link(LINK_BYTES_PER_S), Link(LINK_BYTES_PER_S)
    with TcpProxy(f"127.0.0.1:{server.port}", on_request=upload, on_answer=download) as proxy:
        yield LinkedPlace(server, proxy)


def has_kafka() -> bool:
    """Return whether Kafka is installed."""
    return (JARS / ".installed").exists() and shutil.which("java") is not None


@contextmanager
def kafka(folder: Path) -> Iterator[KafkaPlace]:
    """Run three nodes of Kafka."""
    cluster = KafkaCluster(folder)
    try:
        cluster.start()
        yield KafkaPlace(cluster)
    finally:
        cluster.close()
