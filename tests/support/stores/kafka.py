"""Kafka as a process per node: three nodes, each of which is broker and controller.

Clients connect to the addresses that the nodes advertise. A *way* is a separate listener on each node that advertises
the address of a proxy: a client of one way can be cut off from all nodes, and the clients of the other ways are not.

A cluster with users has one more listener, which demands a login, and access control lists. Clients of the plain one
may do everything. *Secure* listeners have TLS, see ``kafka_tls``.
"""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.support.calls.eventually import until
from tests.support.processes.server import START_S, TOOLS
from tests.support.proxies.group import ProxyGroup
from tests.support.proxies.tcp import TcpProxy
from tests.support.stores.server import StoreServer, answers, free_port, required

JARS: Final = TOOLS / "kafka"
NODES: Final = 3
JVM: Final = ("-Xms256m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")
LOGGING: Final = """\
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c{1}: %m%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
"""


ACCESS: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "listener.name.login.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.login.scram-sha-256.sasl.jaas.config": (
        "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    ),
}
"""Settings of a node that demands a login, beside the users of PLAIN."""


@dataclass(frozen=True, slots=True)
class SecureListener:
    """Listener with TLS."""

    protocol: str
    """SSL or SASL_SSL."""

    settings: Mapping[str, str] = field(repr=False)
    """Settings of the node that hold for this listener alone, without the beginning of their names."""


class Listener:
    """Listener of a node behind a proxy."""

    def __init__(self) -> None:
        self.port: Final = free_port()
        self.proxy: Final = TcpProxy(f"127.0.0.1:{self.port}")


class KafkaNode(StoreServer):
    """One node."""

    good: Mapping[str, str] = {}
    wrong: Mapping[str, str] = {}

    def __init__(
        self,
        folder: Path,
        node: int,
        ways: int = 0,
        users: Mapping[str, str] | None = None,
        secure: Mapping[str, SecureListener] | None = None,
    ) -> None:
        super().__init__(folder)
        self.node: Final = node
        self.users: Final = users
        self.login_port: Final = free_port()
        self.secure: Final = secure or {}
        self.secure_ports: Final = {name: free_port() for name in self.secure}
        self.ways: Final = [Listener() for _ in range(ways)]
        self.controller_port: Final = free_port()

    def configure(self, cluster: str, nodes: list[KafkaNode]) -> None:
        """Write the settings, and format the folder."""
        controllers = ",".join(f"{one.node}@127.0.0.1:{one.controller_port}" for one in nodes)
        ways = {f"WAY{number}": listener for number, listener in enumerate(self.ways)}
        plain = f"PLAINTEXT://127.0.0.1:{self.port}"
        listeners = [f"{name}://127.0.0.1:{way.port}" for name, way in ways.items()]
        advertised = [f"{name}://{way.proxy.endpoint}" for name, way in ways.items()]
        protocols = [f"{name}:PLAINTEXT" for name in ("PLAINTEXT", "CONTROLLER", *ways)]
        access: dict[str, str] = {}
        if self.users is not None:
            login = f"LOGIN://127.0.0.1:{self.login_port}"
            listeners, advertised = [*listeners, login], [*advertised, login]
            protocols.append("LOGIN:SASL_PLAINTEXT")
            users = " ".join(f'user_{name}="{password}"' for name, password in self.users.items())
            plain_login = f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
            access = {**ACCESS, "listener.name.login.plain.sasl.jaas.config": plain_login}
        for name, listener in self.secure.items():
            place = f"{name}://127.0.0.1:{self.secure_ports[name]}"
            listeners, advertised = [*listeners, place], [*advertised, place]
            protocols.append(f"{name}:{listener.protocol}")
            access |= {f"listener.name.{name.lower()}.{key}": value for key, value in listener.settings.items()}
        settings = {
            "node.id": self.node,
            "process.roles": "broker,controller",
            "controller.quorum.voters": controllers,
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listeners": ",".join([plain, f"CONTROLLER://127.0.0.1:{self.controller_port}", *listeners]),
            "advertised.listeners": ",".join([plain, *advertised]),
            "listener.security.protocol.map": ",".join(protocols),
            "log.dirs": self.folder / "logs",
            "auto.create.topics.enable": "true",  # Kafka's default, which no broker may use
            "broker.session.timeout.ms": 3_000,
            "broker.heartbeat.interval.ms": 500,
            # With the default, five minutes, a long campaign would fill the memory with what was deleted.
            "log.retention.check.interval.ms": 5_000,
            "file.delete.delay.ms": 1_000,
            "log.cleaner.enable": "false",
            "num.network.threads": 2,
            "num.io.threads": 4,
            **access,
        }
        self._settings.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        self._logging.write_text(LOGGING)
        # Joined: an identity may begin with a dash, and would be taken for an option.
        formats = ("kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "-c", str(self._settings))
        done = subprocess.run([*self._java(), *formats], check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    def command(self) -> list[str]:
        """See ``StoreServer.command``."""
        return [*self._java(), "kafka.Kafka", str(self._settings)]

    def is_ready(self) -> bool:
        """See ``StoreServer.is_ready``: the port is open once the node is unfenced by the controllers."""
        return answers(self.port)

    def url(self, place: str, port: int | None = None) -> str:
        """See ``StoreServer.url``."""
        return f"kafka://127.0.0.1:{port or self.port}/{place}"

    @property
    def _settings(self) -> Path:
        return self.folder / "server.properties"

    @property
    def _logging(self) -> Path:
        return self.folder / "log4j2.properties"

    def _java(self) -> list[str]:
        java = shutil.which("java", path=f"{os.environ.get('JAVA_HOME', '')}/bin:{os.environ.get('PATH', os.defpath)}")
        found = java if java is not None and (JARS / ".installed").exists() else None
        return [required("Kafka", found), *JVM, f"-Dlog4j2.configurationFile={self._logging}", "-cp", f"{JARS}/*"]


class KafkaCluster:
    """Three nodes."""

    def __init__(
        self,
        folder: Path,
        ways: int = 0,
        users: Mapping[str, str] | None = None,
        secure: Mapping[str, SecureListener] | None = None,
    ) -> None:
        """Create the folders of the nodes below ``folder``.

        ``ways`` are those that clients can be cut off on, ``users`` the passwords of those that may log in with PLAIN.
        ``secure`` are the listeners with TLS of each node, by name.
        """
        self.folder: Final = folder
        self.nodes: Final = [
            KafkaNode(_created(folder / f"node-{number}"), number, ways, users, secure)
            for number in range(1, NODES + 1)
        ]
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        for node in self.nodes:
            node.configure(cluster, self.nodes)

    def start(self) -> None:
        """Start all nodes: none is ready before most of them are."""
        for node in self.nodes:
            node.launch()
        for node in self.nodes:
            node.await_ready()

    def url(self, topic: str) -> str:
        """Return the address of a topic."""
        return f"kafka://{self.servers}/{topic}"

    @property
    def servers(self) -> str:
        """Addresses of the nodes, for clients that are not cut off."""
        return ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    @property
    def login_servers(self) -> str:
        """Addresses of the nodes for clients that log in."""
        return ",".join(f"127.0.0.1:{node.login_port}" for node in self.nodes)

    def secure_servers(self, name: str) -> str:
        """Addresses of the nodes for the clients of a listener with TLS."""
        return ",".join(f"127.0.0.1:{node.secure_ports[name]}" for node in self.nodes)

    def way(self, number: int, topic: str) -> tuple[str, ProxyGroup]:
        """Return the address of a topic for the clients of a way, and the proxies on it."""
        proxies = ProxyGroup([node.ways[number].proxy for node in self.nodes])
        return f"kafka://{','.join(proxy.endpoint for proxy in proxies.proxies)}/{topic}", proxies

    def create_topic(self, name: str, partitions: int, replicas: int, settings: dict[str, str]) -> None:
        """Create a topic; returns when its partitions have leaders."""
        admin = self.admin()
        admin.create_topics([NewTopic(name, partitions, replicas, config=settings)])[name].result(START_S)
        until(lambda: len(admin.list_topics(name, timeout=START_S).topics[name].partitions) == partitions)

    def delete_topic(self, name: str) -> None:
        """Delete a topic; returns when no node knows it."""
        admin = self.admin()
        admin.delete_topics([name])[name].result(START_S)
        until(lambda: name not in admin.list_topics(timeout=START_S).topics)

    def leader(self, name: str) -> KafkaNode:
        """Return the leader of a topic of one partition."""
        leader = self.admin().list_topics(name, timeout=START_S).topics[name].partitions[0].leader
        return next(node for node in self.nodes if node.node == leader)

    def admin(self) -> AdminClient:
        """Return a client that may do everything."""
        return AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

    def close(self) -> None:
        """End the proxies and the nodes, and remove their data."""
        for node in self.nodes:
            for listener in node.ways:
                listener.proxy.close()
            node.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def _created(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder
