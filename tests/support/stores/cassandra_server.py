"""Cassandra on loopback: one node with a small heap, from the jars of Maven, with passwords."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.support.processes.server import TOOLS
from tests.support.stores.server import StoreServer, answers, free_port, required

PASSWORD: Final = "cassandra-secret-1"
ROLE: Final = "billing"
EXPORTS: Final = (
    "java.base/java.lang.ref",
    "java.base/jdk.internal.misc",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.rmi/sun.rmi.transport.tcp",
    "java.sql/java.sql",
    "jdk.unsupported/sun.misc",
)
OPENS: Final = (
    *(f"java.base/java.{one}" for one in ("io", "lang", "lang.module", "lang.ref", "lang.reflect", "net", "nio")),
    *(f"java.base/java.util{one}" for one in ("", ".concurrent", ".concurrent.atomic")),
    *(f"java.base/jdk.internal.{one}" for one in ("loader", "math", "module", "ref", "reflect", "util.jar")),
    "java.base/sun.nio.ch",
    "jdk.management/com.sun.management.internal",
)
LOGGING: Final = """<configuration><appender name="out" class="ch.qos.logback.core.ConsoleAppender">
<encoder><pattern>%-5level %logger{0} %msg%n</pattern></encoder></appender>
<root level="WARN"><appender-ref ref="out"/></root></configuration>"""


class CassandraServer(StoreServer):
    """One node, whose commit log is synced before an answer."""

    good: Mapping[str, str] = {"CASSANDRA_USERNAME": ROLE, "CASSANDRA_PASSWORD": PASSWORD}
    wrong: Mapping[str, str] = {"CASSANDRA_USERNAME": ROLE, "CASSANDRA_PASSWORD": "cassandra-wrong-2"}

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        jars = TOOLS / "cassandra"
        found = sorted(jars.glob("jamm-*.jar"))
        self._agent = required("Cassandra", str(found[0]) if found else None)
        self._java = required("Java", shutil.which("java", path=f"{os.environ.get('JAVA_HOME', '')}/bin:{os.defpath}"))
        self._jars = jars
        (folder / "logback.xml").write_text(LOGGING)
        self._has_role = False

    def start(self) -> None:
        storage_port = free_port()  # of the node alone; nothing else connects to it
        settings = {
            "cluster_name": "test",
            "num_tokens": 1,
            "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner",
            "authenticator": "PasswordAuthenticator",
            "role_manager": "CassandraRoleManager",
            "listen_address": "127.0.0.1",
            "rpc_address": "127.0.0.1",
            "native_transport_port": self.port,
            "storage_port": storage_port,
            "seed_provider": [
                {
                    "class_name": "org.apache.cassandra.locator.SimpleSeedProvider",
                    "parameters": [{"seeds": f"127.0.0.1:{storage_port}"}],
                }
            ],
            "endpoint_snitch": "SimpleSnitch",
            "commitlog_sync": "batch",
            "commitlog_segment_size": "4MiB",
            "memtable_heap_space": "32MiB",
            "memtable_offheap_space": "32MiB",
            "data_file_directories": [str(self.folder / "data")],
            **{
                name: str(self.folder / name)
                for name in ("commitlog_directory", "cdc_raw_directory", "hints_directory", "saved_caches_directory")
            },
        }
        (self.folder / "cassandra.yaml").write_text(json.dumps(settings))  # JSON is YAML
        super().start()

    def command(self) -> list[str]:
        properties = {
            "cassandra.config": f"file://{self.folder}/cassandra.yaml",
            "logback.configurationFile": f"file://{self.folder}/logback.xml",
            "cassandra.storagedir": str(self.folder),
            "cassandra-foreground": "yes",
            "cassandra.superuser_setup_delay_ms": "0",
            "cassandra.skip_wait_for_gossip_to_settle": "0",
            "cassandra.ring_delay_ms": "100",
            "io.netty.tryReflectionSetAccessible": "true",
            "jdk.attach.allowAttachSelf": "true",
            "java.net.preferIPv4Stack": "true",
        }
        return [
            *(self._java, "-Xms384m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *(word for one in EXPORTS for word in ("--add-exports", f"{one}=ALL-UNNAMED")),
            *(word for one in OPENS for word in ("--add-opens", f"{one}=ALL-UNNAMED")),
            f"-javaagent:{self._agent}",
            *(f"-D{name}={value}" for name, value in properties.items()),
            *("-cp", f"{self._jars}/*", "org.apache.cassandra.service.CassandraDaemon"),
        ]

    def is_ready(self) -> bool:
        from cassandra import ProtocolVersion
        from cassandra.auth import PlainTextAuthProvider
        from cassandra.cluster import Cluster, NoHostAvailable

        if not answers(self.port):
            return False
        user, password = (ROLE, PASSWORD) if self._has_role else ("cassandra", "cassandra")
        cluster = Cluster(
            ["127.0.0.1"],
            port=self.port,
            auth_provider=PlainTextAuthProvider(user, password),
            connect_timeout=10,
            protocol_version=ProtocolVersion.V4,
        )
        try:
            session = cluster.connect()
            if not self._has_role:
                session.execute(
                    f"CREATE ROLE IF NOT EXISTS {ROLE} WITH PASSWORD = %s AND LOGIN = true AND SUPERUSER = true",
                    [PASSWORD],
                )
            self._has_role = True
        except NoHostAvailable:
            return False
        finally:
            cluster.shutdown()
        return True

    def url(self, place: str, port: int | None = None) -> str:
        return f"cassandra://127.0.0.1:{port or self.port}/positions?table={place}&replication_factor=1"
