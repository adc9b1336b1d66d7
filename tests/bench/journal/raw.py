"""Engines without a journal: bare objects, and for Kafka bare messages of a producer with its settings."""

from __future__ import annotations

import itertools
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient

from forebay.broker.storage.replication.engine import Engine, EngineAway
from forebay.broker.storage.replication.engines.kafka.connection.address import parse_address
from forebay.broker.storage.replication.engines.kafka.connection.topic import open_topic
from tests.bench.values import MIB

GROUP_PAGES: Final = 16
GROUP_BYTES: Final = GROUP_PAGES * MIB
OBJECT_BYTES: Final = 8 * MIB
MESSAGE_BYTES: Final = 4 * MIB
AT_ONCE: Final = 4
"""Objects, or messages, that are created at the same time."""
SMALL_BYTES: Final = 4_096
TIMEOUT_S: Final = 60.0


class Raw(Protocol):
    """Creation of bytes that no journal numbers."""

    def large(self, groups: int) -> None:
        """Create the bytes of so many groups."""

    def small(self) -> None:
        """Create `SMALL_BYTES`."""

    def close(self) -> None:
        """End what it has started."""


class Objects:
    """Objects that the engine creates."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._positions = itertools.count()
        self._chunk = memoryview(os.urandom(OBJECT_BYTES))
        self._pool = ThreadPoolExecutor(AT_ONCE)

    def large(self, groups: int) -> None:
        """Create objects of 8 MiB, `AT_ONCE` at once."""
        list(self._pool.map(lambda _: self._create(self._chunk), range(groups * GROUP_BYTES // OBJECT_BYTES)))

    def small(self) -> None:
        """Create a small object."""
        self._create(self._chunk[:SMALL_BYTES])

    def _create(self, content: memoryview) -> None:
        position = next(self._positions)
        if not self._engine.create(position, [content]):
            raise RuntimeError(f"position {position} was taken")

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown()


class Messages:
    """Messages of a producer to a topic with the settings of a journal."""

    def __init__(self, address: str) -> None:
        topic = parse_address(address)
        servers: dict[str, str | int | float | bool] = {"bootstrap.servers": topic.servers, "log_level": 0}
        admin = AdminClient({**servers, "allow.auto.create.topics": False})  # one that Kafka creates is unsuitable
        open_topic(topic, admin, lambda error: EngineAway(str(error)), creates=True, timeout_s=TIMEOUT_S)
        self._topic = topic.topic
        self._chunk = os.urandom(MESSAGE_BYTES)
        self._small = self._chunk[:SMALL_BYTES]
        self._producer = Producer(
            {
                **servers,
                "acks": "all",
                "compression.type": "none",
                "linger.ms": 0,
                "message.max.bytes": 2 * MESSAGE_BYTES,
                "queue.buffering.max.kbytes": 256 << 10,
            }
        )

    def large(self, groups: int) -> None:
        """Produce messages of 4 MiB, `AT_ONCE` at once: those of one group, which are awaited."""
        for _ in range(groups):
            self._send([self._chunk] * (GROUP_BYTES // MESSAGE_BYTES))

    def small(self) -> None:
        """Produce a small message, and await it."""
        self._send([self._small])

    def _send(self, values: list[bytes]) -> None:
        failed: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failed.append(error)

        for value in values:
            self._producer.produce(self._topic, value, partition=0, on_delivery=delivered)
        left = self._producer.flush(TIMEOUT_S)
        if left or failed:
            raise RuntimeError(f"{left} messages of {self._topic} were not confirmed, {len(failed)} failed: {failed}")

    def close(self) -> None:
        """Do nothing: all is awaited."""
