"""Nodes of Kafka inside of this process: those of librdkafka itself, which fail as a test wants.

They take messages, and tell leaders and ends. They delete no records, and have no settings of topics.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any, Final

from confluent_kafka import cimpl

from forebay.broker.storage.replication.engines.kafka.connection.address import KafkaAddress
from forebay.broker.storage.replication.engines.kafka.connection.topic_log import TopicLog

NODES: Final = 3
PRODUCE: Final = 0
FETCH: Final = 1
LIST_OFFSETS: Final = 2
INIT_PRODUCER_ID: Final = 22
TOPIC: Final = "journal"
NEVER_MS: Final = 3_600_000
_PRODUCER: Final = 0
_LIBRARY: Final = ctypes.CDLL(cimpl.__file__)  # with it, what it is linked to


def _function(name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    found: Any = getattr(_LIBRARY, name)
    found.restype, found.argtypes = result, arguments
    return found  # type: ignore[no-any-return]


_POINTER, _TEXT, _INT = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
_new_settings = _function("rd_kafka_conf_new", _POINTER)
_set = _function("rd_kafka_conf_set", _INT, _POINTER, _TEXT, _TEXT, _TEXT, ctypes.c_size_t)
_new_client = _function("rd_kafka_new", _POINTER, _INT, _POINTER, _TEXT, ctypes.c_size_t)
_end_client = _function("rd_kafka_destroy", None, _POINTER)
_new_nodes = _function("rd_kafka_mock_cluster_new", _POINTER, _POINTER, _INT)
_end_nodes = _function("rd_kafka_mock_cluster_destroy", None, _POINTER)
_servers = _function("rd_kafka_mock_cluster_bootstraps", _TEXT, _POINTER)
_create = _function("rd_kafka_mock_topic_create", _INT, _POINTER, _TEXT, _INT, _INT)
_fail = _function(
    "rd_kafka_mock_push_request_errors_array", None, _POINTER, ctypes.c_int16, ctypes.c_size_t, ctypes.POINTER(_INT)
)
_set_leader = _function("rd_kafka_mock_partition_set_leader", _INT, _POINTER, _TEXT, ctypes.c_int32, ctypes.c_int32)
_set_delay = _function("rd_kafka_mock_broker_set_rtt", _INT, _POINTER, ctypes.c_int32, _INT)
_set_down = _function("rd_kafka_mock_broker_set_down", _INT, _POINTER, ctypes.c_int32)


class KafkaNodes:
    """Nodes 1 to 3 with one topic of one partition, which node 1 leads."""

    def __init__(self, nodes: int) -> None:
        self._nodes: Final = nodes
        self.servers: Final[str] = _servers(nodes).decode()
        assert _create(nodes, TOPIC.encode(), 1, NODES) == 0
        self.lead(1)

    def log(self, timeout_s: float) -> TopicLog:
        """Open the topic."""
        return TopicLog(KafkaAddress(self.servers, TOPIC), timeout_s)

    def fail(self, request: int, *codes: int) -> None:
        """Answer the next requests of a kind with errors."""
        _fail(self._nodes, request, len(codes), (_INT * len(codes))(*codes))

    def lead(self, node: int) -> None:
        """Let a node lead the partition."""
        assert _set_leader(self._nodes, TOPIC.encode(), 0, node) == 0

    def silence(self, node: int) -> None:
        """Let a node answer nothing, over connections that stay open: its machine is lost."""
        assert _set_delay(self._nodes, node, NEVER_MS) == 0

    def stop(self, node: int) -> None:
        """Let a node refuse connections."""
        assert _set_down(self._nodes, node) == 0


@contextmanager
def kafka_nodes() -> Iterator[KafkaNodes]:
    """Start nodes, and end them."""
    reason = ctypes.create_string_buffer(512)
    settings = _new_settings()
    assert _set(settings, b"log_level", b"0", reason, len(reason)) == 0, reason.value
    client = _new_client(_PRODUCER, settings, reason, len(reason))
    assert client, reason.value
    nodes = _new_nodes(client, NODES)
    try:
        yield KafkaNodes(nodes)
    finally:
        _end_nodes(nodes)
        _end_client(client)


def appended(log: TopicLog, value: bytes, wait_s: float = 30.0) -> tuple[str | None, int]:
    """Append a message; returns its error and its offset. Raises as ``TopicLog.append`` does."""
    answered, found = Event(), list[tuple[str | None, int]]()

    def delivered(error: str | None, offset: int) -> None:
        found.append((error, offset))
        answered.set()

    log.append(b"key", value, delivered)
    assert answered.wait(wait_s), "the message was neither confirmed nor refused"
    return found[0]
