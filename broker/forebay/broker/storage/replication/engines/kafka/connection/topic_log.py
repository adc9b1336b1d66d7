"""Log of a topic by Kafka's client: its one partition, appended to and read by offset."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient

from forebay.broker.storage.replication.engine import EngineAway, EngineRefused, EngineUnsuitable
from forebay.broker.storage.replication.engines.kafka.connection.access import (
    ConnectionEnded,
    ended_by_node,
    failure_of,
    is_refusal,
    kind_of,
    protocol_remedy,
    reason_of,
)
from forebay.broker.storage.replication.engines.kafka.connection.address import KafkaAddress, unreadable
from forebay.broker.storage.replication.engines.kafka.connection.cursors import (
    ASKS,
    GONE,
    READ,
    Cursor,
    Readers,
    consumer_of,
    look_for_leader,
)
from forebay.broker.storage.replication.engines.kafka.connection.sender import RIGHT, ProducerEnded, Sender
from forebay.broker.storage.replication.engines.kafka.connection.topic import (
    MESSAGE_BYTES,
    MESSAGE_BYTES_MIN,
    OVERHEAD_BYTES,
)
from forebay.broker.storage.replication.engines.kafka.connection.trouble import Trouble
from forebay.broker.storage.replication.engines.kafka.objects.log import Delivered, LogMessage

POLL_S: Final = 0.2
RETRY_S: Final = 0.05
ANSWER_S: Final = 5.0
"""Time after which the connection to a node that does not answer is ended.

What was sent over it is sent again. A leader that waits for a silent replica takes longer, and confirms what it gets
again: messages are numbered.
"""
REFRESH_S: Final = 1.0
"""Time between looks for the leader of the partition, beside what is sent and read."""
_LEADER_CHANGES: Final = frozenset(
    {
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_PARTITION,
    }
)
"""Also of a topic that was created just now."""
_PASSING: Final = _LEADER_CHANGES | {KafkaError._TIMED_OUT, KafkaError._DESTROY_BROKER}
"""Errors of a question that is asked again; the client may have forgotten the node."""
_UNSUITABLE: Final = frozenset({KafkaError.POLICY_VIOLATION, KafkaError.UNSUPPORTED_VERSION})
_READ: Final = GONE | {KafkaError._PARTITION_EOF}
"""Answers of a read without a message."""
_PRODUCER: Final[dict[str, Any]] = {
    "acks": "all",
    "batch.size": MESSAGE_BYTES_MIN,
    "compression.type": "none",
    "enable.idempotence": True,
    "linger.ms": 0,
    "message.max.bytes": MESSAGE_BYTES + OVERHEAD_BYTES,
    "queue.buffering.max.kbytes": 256 << 10,
    "retry.backoff.ms": 50,
}
"""The bound of a topic holds for a batch: small messages share small batches."""


class TopicLog:
    """A ``Log``."""

    def __init__(self, address: KafkaAddress, timeout_s: float) -> None:
        """Nothing is sent before the first call. Raises ``EngineUnsuitable`` for settings of the address."""
        self._address: Final = address
        self._timeout_s: Final = timeout_s
        self._trouble: Final = Trouble(2 * timeout_s)
        self._settings: Final[dict[str, Any]] = {
            "bootstrap.servers": address.servers,
            "allow.auto.create.topics": False,
            "error_cb": self._trouble.note,
            "log_level": 0,
            "reconnect.backoff.max.ms": 1_000,
            "socket.timeout.ms": int(ANSWER_S * 1_000),
            "topic.metadata.refresh.interval.ms": int(REFRESH_S * 1_000),
            **address.settings,
        }
        settings = self._settings
        try:
            self.admin: Final = AdminClient(settings)
            self._producing: Final = {**settings, **_PRODUCER, "message.timeout.ms": int(timeout_s * 1_000)}
            self._senders: Final = [Sender(self._producing)]
            self._tail: Final = Cursor(settings, address.topic, timeout_s, self._trouble.note)
            # A request of a cursor waits behind its fetch, which Kafka answers only once there is a message.
            self._asker: Final = consumer_of(settings)
        except KafkaException as error:  # its text may quote a value, which may be a secret
            names = ", ".join(sorted(address.settings)) or "none"
            code = error.args[0].name() if error.args and isinstance(error.args[0], KafkaError) else "unknown"
            files = unreadable(address.settings)
            raise EngineUnsuitable(
                f"journal {address}: its config is refused by Kafka's client ({code}); its settings are: {names}"
                f"{f'; {files}' if files else ''}"
            ) from None
        self._renews: Final = threading.Lock()
        self._has_answered = False
        """Then nodes that end connections want no other protocol."""
        # What it refers to must not refer to this log.
        self._readers: Final = Readers(partial(Cursor, settings, address.topic, timeout_s, self._trouble.note))
        self._end: Final = weakref.finalize(self, _close, self._senders, (self._tail, self._readers, self._asker))

    @property
    def tail(self) -> Cursor:
        """See ``Log.tail``."""
        return self._tail

    def read(self, offset: int, is_known: Callable[[], bool]) -> list[LogMessage] | None:
        """See ``Log.read``."""
        return self._readers.read(offset, is_known)

    def append(self, key: bytes, value: bytes, delivered: Delivered) -> None:
        """See ``Log.append``."""

        def report(error: KafkaError | None, message: Message) -> None:
            offset = message.offset()
            if error is None:
                self._has_answered = True
                self._trouble.clear()
            elif is_refusal(error):
                self._trouble.note(error)
            delivered(sender.cause_of(error) if error is not None else None, offset if offset is not None else -1)

        ends_at, sender = time.monotonic() + self._timeout_s, self._senders[0]
        while True:
            try:
                sender.send(self._address.topic, key, value, report)
            except BufferError as full:
                if time.monotonic() > ends_at:
                    raise self.away("its client has too many messages that are not confirmed") from full
                sender.wait()
            except ProducerEnded as error:
                self._renew(sender)
                raise self.away(str(error)) from error
            except KafkaException as error:
                raise self._failed(error, RIGHT) from error
            else:
                return

    def _renew(self, sender: Sender) -> None:
        """Replace the sender of a producer that has ended."""
        with self._renews:
            if self._senders[0] is sender:
                self._senders[0] = Sender(self._producing)

    def ends(self) -> tuple[int, int]:
        """See ``Log.ends``."""
        place, ends_at = TopicPartition(self._address.topic, 0), time.monotonic() + self._timeout_s
        while True:
            left = max(POLL_S, ends_at - time.monotonic())
            try:
                found = self._asker.get_watermark_offsets(place, timeout=min(left, self._timeout_s / ASKS))
            except KafkaException as error:
                code = error.args[0].code()
                look_for_leader(self._asker, self._address.topic)
                if code not in _PASSING or time.monotonic() > ends_at:
                    raise self._failed(error, "Describe on the topic") from error
            else:
                self._has_answered = True
                return found
            time.sleep(RETRY_S)

    def delete_before(self, offset: int) -> None:
        """See ``Log.delete_before``."""
        place = TopicPartition(self._address.topic, 0, offset)
        limits = {"request_timeout": self._timeout_s, "operation_timeout": self._timeout_s}
        try:
            self.admin.delete_records([place], **limits)[place].result()
        except KafkaException as error:
            what = "records cannot be deleted"
            if error.args[0].code() in _UNSUITABLE:
                raise EngineUnsuitable(f"journal {self._address}: {what}: {reason_of(error)}") from error
            raise self._failed(error, "Delete on the topic", f"{what}: ") from error

    def close(self) -> None:
        """End the connections and threads."""
        self._end()

    def check_rights(self) -> None:
        """Read the end, and delete nothing: both need a right that may be missing.

        Raises ``EngineAway`` and ``EngineUnsuitable``.
        """
        begin, end = self.ends()
        self.delete_before(begin)
        reader = consumer_of({**self._settings, "enable.partition.eof": True})
        try:
            reader.assign([TopicPartition(self._address.topic, 0, end)])
            ends_at = time.monotonic() + self._timeout_s
            while (left := ends_at - time.monotonic()) > 0:
                found = reader.poll(left)
                error = found.error() if found is not None else None
                if error is not None and is_refusal(error):
                    raise failure_of(
                        str(self._address), KafkaException(error), right=READ, what="the topic cannot be read"
                    )
                if found is not None and (error is None or error.code() in _READ):
                    return
                if error is not None:
                    self._trouble.note(error)
        finally:
            reader.close()
        raise self.away("no answer of a read")

    def _failed(self, error: KafkaException, right: str, what: str = "") -> EngineAway:
        """Return the error of a request that was refused, or has failed; ``right`` is what it needs."""
        if is_refusal(error.args[0]):
            return EngineRefused(f"{what}{reason_of(error, right=right)}", str(self._address))
        return self.away(f"{what}{reason_of(error)}")

    def unanswered(self, error: KafkaException) -> EngineAway:
        """Return the error of a request without an answer; its own counts where no other is known."""
        if self._trouble.recent() is None:
            self._trouble.note(error.args[0])
        return self.away(reason_of(error))

    def away(self, what: str) -> EngineAway:
        """See ``Log.away``."""
        cause = self._trouble.recent()
        kind, remedy = EngineAway if cause is None else kind_of(cause), ""
        if cause is not None and kind is EngineAway and not self._has_answered and ended_by_node(cause):
            kind, remedy = ConnectionEnded, f"; {protocol_remedy(self._address.settings)}"
        return kind(f"{what}{self._trouble.text(what)}{remedy}", str(self._address))


def _close(senders: list[Sender], readers: tuple[Cursor | Readers | Consumer, ...]) -> None:
    for sender in senders:
        sender.close()
    for reader in readers:
        reader.close()
