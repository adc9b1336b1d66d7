"""One Kafka broker, as a process on loopback, and its topics.

The jars are in ``.tools/kafka``: ``make bench-peers`` puts them there. A topic syncs every batch before
it is confirmed (``flush.messages``), as Forebay syncs before a receipt.
"""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.bench.processes import ROOT, STOP_S
from tests.support.processes.broker import free_port

JARS: Final = ROOT / ".tools" / "kafka"
START_S: Final = 60.0
CALL_S: Final = 30.0
JVM: Final = (
    "-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true",
)  # fmt: skip
"""Memory and garbage collection as Kafka's own script sets them."""
LOGGING: Final = """\
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %p %c{1}: %m%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
"""
TOPIC: Final = {"flush.messages": "1"}


@contextmanager
def kafka_broker(folder: Path, log: Path) -> Iterator[Topics]:
    """Run a broker on ``folder`` until the block ends; yields its topics."""
    java = shutil.which("java", path=f"{os.environ.get('JAVA_HOME', '')}/bin:{os.environ.get('PATH', os.defpath)}")
    if java is None or not JARS.is_dir():
        raise RuntimeError(f"Kafka needs Java and the jars in {JARS}: run make bench-peers")
    folder.mkdir(parents=True)
    endpoint, controller = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    settings, logging = folder / "server.properties", folder / "log4j2.properties"
    settings.write_text("".join(f"{name}={value}\n" for name, value in _settings(endpoint, controller, folder).items()))
    logging.write_text(LOGGING)
    command = [java, *JVM, f"-Dlog4j2.configurationFile={logging}", "-cp", f"{JARS}/*"]
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    with log.open("a") as output:
        subprocess.run(
            [*command, "kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "-c", str(settings)],
            check=True, stdout=output, stderr=output,
        )  # fmt: skip
        process = subprocess.Popen([*command, "kafka.Kafka", str(settings)], stdout=output, stderr=output)
    try:
        topics = Topics(endpoint, process.pid)
        _await_start(topics, process, log)
        yield topics
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Topics:
    """Topics of one broker."""

    def __init__(self, endpoint: str, pid: int) -> None:
        """``pid``: process of the broker."""
        self.endpoint: Final = endpoint
        self.pid: Final = pid
        self._admin = AdminClient({"bootstrap.servers": endpoint, "log_level": 0})

    def answers(self) -> bool:
        """Return True if the broker answers."""
        try:
            return bool(self._admin.list_topics(timeout=1.0).brokers)
        except KafkaException:
            return False

    def create(self, name: str, partitions: int) -> None:
        """Create a topic; return when the ends of its partitions are known."""
        self._admin.create_topics([NewTopic(name, partitions, 1, config=TOPIC)])[name].result(CALL_S)
        deadline = time.monotonic() + CALL_S
        while True:
            try:
                self.records(name, partitions)
            except KafkaException:
                if time.monotonic() > deadline:
                    raise
            else:
                return

    def delete(self, name: str) -> None:
        """Delete a topic with its records."""
        self._admin.delete_topics([name])[name].result(CALL_S)

    def records(self, name: str, partitions: int) -> int:
        """Return the number of records in a topic."""
        consumer = Consumer({"bootstrap.servers": self.endpoint, "group.id": "count", "log_level": 0})
        try:
            ends = [
                consumer.get_watermark_offsets(TopicPartition(name, number), timeout=CALL_S)
                for number in range(partitions)
            ]
        finally:
            consumer.close()
        return sum(last - first for first, last in ends)


def _settings(endpoint: str, controller: str, folder: Path) -> dict[str, str | int]:
    """Settings of one node that is broker and controller; what is not here has Kafka's default."""
    single = (
        "offsets.topic.replication.factor", "offsets.topic.num.partitions", "transaction.state.log.replication.factor",
        "transaction.state.log.min.isr", "share.coordinator.state.topic.replication.factor",
        "share.coordinator.state.topic.min.isr",
    )  # fmt: skip
    return {
        "node.id": 1,
        "process.roles": "broker,controller",
        "controller.quorum.voters": f"1@{controller}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{endpoint},CONTROLLER://{controller}",
        "advertised.listeners": f"PLAINTEXT://{endpoint}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(folder / "logs"),
        "auto.create.topics.enable": "false",
        "broker.session.timeout.ms": 600_000,  # it is stopped while the other system is measured
        "group.initial.rebalance.delay.ms": 0,
        **dict.fromkeys(single, 1),
    }


def _await_start(topics: Topics, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_S
    while not topics.answers():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"Kafka did not start within {START_S:g} s: {log.read_text()[-2_000:]}")
