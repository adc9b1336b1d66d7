"""Topic of a journal: its creation, the test of its settings, and what a confirmation means with them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourceType,
    TopicMetadata,
)

from forebay.broker.storage.replication.engine import EngineAway, EngineRefused, EngineUnsuitable, EngineUntrusted
from forebay.broker.storage.replication.engines.kafka.connection.access import ConnectionEnded, failure_of, reason_of
from forebay.broker.storage.replication.engines.kafka.connection.address import KafkaAddress
from forebay.state.numbers import plural

REPLICAS_MIN: Final = 3
IN_SYNC_MIN: Final = 2
MESSAGE_BYTES: Final = (9 << 20) // 2 + (4 << 10)
"""Largest message of a topic that is created. Each needs a flush; the largest record takes two."""
MESSAGE_BYTES_MIN: Final = 64 << 10
OVERHEAD_BYTES: Final = 4 << 10
"""Room for the header and Kafka's own fields in a message."""
IN_SYNC: Final = "min.insync.replicas"
KEEPS: Final = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
"""Settings of a topic that keeps its records until brokers delete them."""
LEADS: Final = {"unclean.leader.election.enable": "false"}
"""Setting of Kafka without which a replica that is behind could take confirmed records away."""
FLUSH: Final = "flush.messages"
"""Messages of which the last one makes a replica sync its files; 1 for each."""
WRITE_CACHING: Final = "write.caching"
"""Setting of Redpanda; true lets a replica confirm what it has not synced.

The value `disabled` is false for the whole cluster.
"""


@dataclass(frozen=True, slots=True)
class Product:
    """A system with the protocol of Kafka, by the settings that its topics have."""

    required: Mapping[str, str]
    """Settings without which records could be lost."""

    syncs: str
    """Setting that decides whether a replica syncs a message before it confirms it."""

    on_disk: frozenset[str]
    """Values of it with which it does."""

    in_sync: str = ""
    """Setting of the replicas that confirm a message; empty where a majority does."""


KAFKA: Final = Product({**KEEPS, **LEADS}, FLUSH, frozenset({"1"}), IN_SYNC)
REDPANDA: Final = Product(KEEPS, WRITE_CACHING, frozenset({"false", "disabled"}))
"""Its replicas agree by Raft, so none that is behind a majority leads."""
CREATED_WITH: Final = {
    **KAFKA.required,
    IN_SYNC: str(IN_SYNC_MIN),
    "max.message.bytes": str(MESSAGE_BYTES + OVERHEAD_BYTES),
    "segment.bytes": str(128 << 20),
    FLUSH: "1",
}
"""Settings of a topic that is created.

Each message is synced before it is confirmed. Segments are small because Kafka frees whole ones only.
"""
POLL_S: Final = 0.05
LOOK_S: Final = 3.0
"""Time limit of a look for the topic, after which it is known whether Kafka refuses access."""
TELLS_S: Final = 0.5
"""Time limit for the client to tell its errors beside an answer."""
REGISTERS_S: Final = 30.0
"""Time limit for the nodes of a Kafka that starts to register, so that a topic can have its replicas."""

Unanswered: TypeAlias = Callable[[KafkaException], EngineAway]
"""Returns the error of a request without an answer, with what the client has met beside it."""
_REFUSALS: Final = frozenset(
    {KafkaError.INVALID_REPLICATION_FACTOR, KafkaError.POLICY_VIOLATION, KafkaError.INVALID_CONFIG}
)
"""Errors of a topic that Kafka does not create with these settings."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic that can hold a journal."""

    message_bytes: int
    """Largest value of a message."""

    durability: str
    """Meaning of a confirmation, in words."""


def open_topic(
    address: KafkaAddress, admin: AdminClient, unanswered: Unanswered, *, creates: bool, timeout_s: float
) -> Topic:
    """Return a topic, created if it does not exist and ``creates`` is True.

    Raises ``EngineUnsuitable`` for one that could lose records, ``EngineAway``, and ``FileNotFoundError``.
    """
    found = _described(address, admin, unanswered, timeout_s)
    if found is None:
        if not creates:
            raise FileNotFoundError(f"{address}: the topic does not exist")
        _create(address, admin, timeout_s)
    ends_at = time.monotonic() + timeout_s
    while True:  # the nodes of Kafka hear of a new topic one after the other, and tell when they are asked
        settings = _settings(address, admin, timeout_s) if found is not None and found[0] else None
        if found is not None and settings is not None:
            return checked(address, *found, settings)
        if time.monotonic() > ends_at:
            raise EngineAway("the topic is not known yet", str(address))
        time.sleep(POLL_S)
        found = _described(address, admin, unanswered, timeout_s)


def _described(
    address: KafkaAddress, admin: AdminClient, unanswered: Unanswered, timeout_s: float
) -> tuple[int, int] | None:
    """Return the number of partitions and of replicas, None for a missing topic."""
    topic = _looked_up(address, admin, unanswered, timeout_s)
    if topic.error is not None:
        if topic.error.code() in {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC}:
            return None
        raise failure_of(str(address), KafkaException(topic.error), right="Describe on the topic")
    return len(topic.partitions), min((len(each.replicas) for each in topic.partitions.values()), default=0)


def _looked_up(address: KafkaAddress, admin: AdminClient, unanswered: Unanswered, timeout_s: float) -> TopicMetadata:
    ends_at = time.monotonic() + timeout_s
    while True:
        began = time.monotonic()
        try:
            return admin.list_topics(address.topic, timeout=LOOK_S).topics[address.topic]
        except KafkaException as error:
            admin.poll(TELLS_S)
            now = time.monotonic()
            # A name for the error that is raised would keep this frame, and with it the client and its threads.
            is_last = now - began < LOOK_S or now > ends_at
            if is_last or isinstance(unanswered(error), EngineRefused | EngineUntrusted | ConnectionEnded):
                raise unanswered(error) from error


def _create(address: KafkaAddress, admin: AdminClient, timeout_s: float) -> None:
    topic = NewTopic(address.topic, 1, REPLICAS_MIN, config=CREATED_WITH)
    ends_at = time.monotonic() + REGISTERS_S
    while True:
        try:
            admin.create_topics([topic], operation_timeout=timeout_s, request_timeout=timeout_s)[address.topic].result()
        except KafkaException as error:
            code = error.args[0].code()
            if code == KafkaError.TOPIC_ALREADY_EXISTS:
                return  # by another broker of the shard
            if code != KafkaError.INVALID_REPLICATION_FACTOR or time.monotonic() > ends_at:
                raise _not_created(address, error) from error
        else:
            return
        time.sleep(POLL_S)  # the nodes of a Kafka that starts register one after the other


def _not_created(address: KafkaAddress, error: KafkaException) -> EngineUnsuitable | EngineAway:
    if error.args[0].code() in _REFUSALS:
        return EngineUnsuitable(
            f"journal {address}: the topic cannot be created with {REPLICAS_MIN} replicas: {reason_of(error)}"
        )
    return failure_of(str(address), error, right="Create on the topic", what="the topic could not be created")


def _settings(address: KafkaAddress, admin: AdminClient, timeout_s: float) -> dict[str, str] | None:
    """Return the settings of a topic, None for a missing one."""
    wanted = ConfigResource(ResourceType.TOPIC, address.topic)
    try:
        found: dict[str, Any] = admin.describe_configs([wanted], request_timeout=timeout_s)[wanted].result()
    except KafkaException as error:
        if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return None
        right = "DescribeConfigs on the topic"
        raise failure_of(str(address), error, right=right, what="its settings cannot be read") from error
    return {name: str(entry.value) for name, entry in found.items()}


def checked(address: KafkaAddress, partitions: int, replicas: int, settings: Mapping[str, str]) -> Topic:
    """Return a topic with these settings. Raises ``EngineUnsuitable`` for one that could lose records."""
    product = REDPANDA if WRITE_CACHING in settings and IN_SYNC not in settings else KAFKA
    in_sync = int(settings.get(product.in_sync, 0)) if product.in_sync else replicas // 2 + 1
    size = int(settings.get("max.message.bytes", 0))
    problems = [
        f"{name} is {settings.get(name)!r}, must be {value!r}"
        for name, value in product.required.items()
        if settings.get(name) != value
    ]
    if partitions != 1:
        problems.append(f"it has {partitions} partitions, must have 1")
    if replicas < REPLICAS_MIN:
        problems.append(f"it has {replicas} {plural(replicas, 'replica')}, must have at least {REPLICAS_MIN}")
    if product.in_sync and in_sync < IN_SYNC_MIN:
        problems.append(f"{product.in_sync} is {in_sync}, must be at least {IN_SYNC_MIN}")
    if size < MESSAGE_BYTES_MIN + OVERHEAD_BYTES:
        problems.append(f"max.message.bytes is {size}, must be at least {MESSAGE_BYTES_MIN + OVERHEAD_BYTES}")
    if problems:
        raise EngineUnsuitable(f"journal {address}: the topic could lose records: {'; '.join(problems)}")
    synced = settings.get(product.syncs, "0")
    where = "on disk" if synced in product.on_disk else f"in memory, {product.syncs} is {synced}"
    return Topic(min(size - OVERHEAD_BYTES, MESSAGE_BYTES), f"at least {in_sync} of {replicas} replicas, {where}")
