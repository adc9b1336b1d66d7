"""Log of a topic by Kafka's client: its one partition, appended to and read by offset."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient

from forebay.broker.storage.replication.engine import EngineAway, EngineRefused, EngineUnsuitable
from forebay.broker.storage.replication.engines.kafka.access import (
    ConnectionEnded,
    ended_by_node,
    failure_of,
    is_refusal,
    kind_of,
    protocol_remedy,
    reason_of,
)
from forebay.broker.storage.replication.engines.kafka.address import KafkaAddress, unreadable
from forebay.broker.storage.replication.engines.kafka.log import Delivered, LogCursor, LogMessage, OffsetsGone
from forebay.broker.storage.replication.engines.kafka.sender import RIGHT, ProducerEnded, Sender
from forebay.broker.storage.replication.engines.kafka.topic import (
    MESSAGE_BYTES,
    MESSAGE_BYTES_MIN,
    OVERHEAD_BYTES,
)

READ: Final = "Read on the topic"
AHEAD_KIB: Final = 16 << 10
"""Bytes that a cursor has read ahead at most, in KiB."""
POLL_S: Final = 0.2
RETRY_S: Final = 0.05
READ_AT_ONCE: Final = 500
ASKS: Final = 5
"""Times that a node is asked within the time limit of a request.

A machine that is lost closes no connection. Kafka's client waits for a minute by default, and does not look for another
leader at all where nothing but the ends is asked for.
"""
ANSWER_S: Final = 5.0
"""Time after which the connection to a node that does not answer is ended.

What was sent over it is sent again. A leader that waits for a silent replica takes longer, and confirms what it gets
again: messages are numbered.
"""
REFRESH_S: Final = 1.0
"""Time between looks for the leader of the partition, beside what is sent and read."""
READERS: Final = 4
"""Places of a topic at which is read at once beside its end: files, records, and what is carried.

Each has at most ``AHEAD_KIB`` read ahead.
"""
NEAR: Final = 8
"""Messages that are read and kept on the way to another one, instead of a move."""
LEFT_S: Final = 1.0
"""Time without a read after which a place may be moved although there may be more of them."""
LOOKS: Final = 3
"""Looks for the leader of the partition at once: the first one may go to the node that is lost."""
LOOK_S: Final = 1.0
"""Time limit of one look."""
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
_GONE: Final = frozenset({KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET})
_READ: Final = _GONE | {KafkaError._PARTITION_EOF}
"""Answers of a read without a message."""


class Cursor:
    """A ``LogCursor``."""

    def __init__(
        self, settings: Mapping[str, Any], topic: str, timeout_s: float, note: Callable[[KafkaError], None]
    ) -> None:
        """``note`` gets errors that pass, perhaps."""
        self._settings: Final = settings
        self._consumer = _consumer(settings)
        self._topic: Final = topic
        self._timeout_s: Final = timeout_s
        self._note: Final = note
        self._next = -1

    def read(self, offset: int) -> list[LogMessage]:
        """See ``LogCursor.read``."""
        if offset != self._next:
            try:
                self._consumer.assign([TopicPartition(self._topic, 0, offset)])
            except KafkaException as error:
                raise EngineAway(f"topic {self._topic}: {reason_of(error)}") from error
            self._next = offset
        ends_at = time.monotonic() + self._timeout_s
        found: list[LogMessage] = []
        while not found and (left := ends_at - time.monotonic()) > 0:
            first = self._consumer.poll(min(left, self._timeout_s / ASKS))
            if first is None:
                _look_for_leader(self._consumer, self._topic)
                continue
            read = (self._taken(one) for one in (first, *self._consumer.consume(READ_AT_ONCE, 0)))
            found = [one for one in read if one is not None]
        if found:
            self._next = found[-1].offset + 1
        return found

    def _taken(self, found: Message) -> LogMessage | None:
        """Return a message, None for an error that may pass. Raises ``OffsetsGone``."""
        error, offset = found.error(), found.offset()
        if error is not None:
            if error.code() in _GONE:
                self._next = -1
                raise OffsetsGone(error.str())
            self._note(error)
            if is_refusal(error):
                self._renew()
                raise EngineRefused(f"topic {self._topic}: {reason_of(error, right=READ)}")
            return None
        assert offset is not None
        key, value = found.key(), found.value()
        return LogMessage(offset, _bytes(key) if key is not None else None, _bytes(value or b""))

    def _renew(self) -> None:
        """Replace the client: it tells of a refusal once, and does not notice when that ends."""
        self._consumer.close()
        self._consumer, self._next = _consumer(self._settings), -1

    def close(self) -> None:
        """End the connections."""
        self._consumer.close()


class _Place:
    """A cursor, and where it reads on."""

    def __init__(self, cursor: LogCursor) -> None:
        self.cursor: Final = cursor
        self.next = -1
        """Offset from which it reads on, or reads; below 0 where it is not known."""
        self.is_busy = False
        self.used_at = 0.0

    def is_near(self, offset: int) -> bool:
        """Return whether it comes to an offset sooner than by a move."""
        return 0 <= self.next <= offset < self.next + NEAR


class Readers:
    """Cursors at several places of a log: readers of one do not wait for those of another. Any thread.

    A cursor that is moved discards what it has read ahead. So each place has one, up to a maximum, and who reads near
    a place waits for its turn there.
    """

    def __init__(
        self,
        cursor: Callable[[], LogCursor],
        places_max: int = READERS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``cursor`` makes one. ``clock`` tells how long a place was not used, in seconds."""
        self._cursor: Final = cursor
        self._places_max: Final = places_max
        self._clock: Final = clock
        self._places: Final[list[_Place]] = []
        self._changed: Final = threading.Condition()  # protects the places, but not their cursors

    def read(self, offset: int, is_known: Callable[[], bool]) -> list[LogMessage] | None:
        """See ``Log.read``."""
        place = self._take(offset)
        following = -1
        try:
            if is_known():
                following = place.next
                return None
            found: list[LogMessage] = []
            start = place.next
            while not found or found[-1].offset < offset:
                read = place.cursor.read(start)
                if not read:
                    return found
                found += read
                start = read[-1].offset + 1
            following = start
            return found
        finally:
            with self._changed:
                place.is_busy, place.next, place.used_at = False, following, self._clock()
                self._changed.notify_all()

    def _take(self, offset: int) -> _Place:
        """Return the place for an offset, once no other thread reads there."""
        with self._changed:
            while (place := self._chosen(offset)).is_busy:
                self._changed.wait()
            place.is_busy = True
            if not place.is_near(offset):
                place.next = offset
            return place

    def _chosen(self, offset: int) -> _Place:
        """Return the place near an offset, else one that is not used any more, else a new one.

        Of all that there may be the one that was not used for longest.
        """
        near = [place for place in self._places if place.is_near(offset)]
        if near:
            return max(near, key=lambda place: place.next)
        before = self._clock() - LEFT_S
        left = [place for place in self._places if not place.is_busy and place.used_at <= before]
        if not left and len(self._places) < self._places_max:
            self._places.append(_Place(self._cursor()))
            return self._places[-1]
        return min(left or self._places, key=lambda place: (place.is_busy, place.used_at))

    def close(self) -> None:
        """End the connections."""
        for place in self._places:
            place.cursor.close()


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
            self._asker: Final = _consumer(settings)
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
                _look_for_leader(self._asker, self._address.topic)
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
        reader = _consumer({**self._settings, "enable.partition.eof": True})
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


class Trouble:
    """Last error of the client beside an answer, while it may be the cause of a missing one."""

    def __init__(self, recent_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._recent_s: Final = recent_s
        self._clock: Final = clock
        self._last: tuple[float, KafkaError] | None = None

    def note(self, error: KafkaError) -> None:
        """Note an error, in a thread of the client."""
        if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            return  # nothing needs the group
        if error.code() == KafkaError._ALL_BROKERS_DOWN and self.recent() is not None:
            return  # its reasons are known
        self._last = self._clock(), error

    def clear(self) -> None:
        """Forget it: the client works."""
        self._last = None

    def recent(self) -> KafkaError | None:
        """Return the last error, None if there is none or it is old."""
        last = self._last  # another thread may forget it meanwhile
        return None if last is None or self._clock() - last[0] > self._recent_s else last[1]

    def text(self, message: str = "") -> str:
        """Return what to add to the message of an error; nothing of what is in it."""
        found = self.recent()
        return "" if found is None or found.str() in message else f" ({reason_of(found)})"


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
_CURSOR: Final[dict[str, Any]] = {
    "auto.offset.reset": "error",
    "enable.auto.commit": False,
    "fetch.error.backoff.ms": 50,
    "fetch.message.max.bytes": MESSAGE_BYTES + OVERHEAD_BYTES,
    "fetch.queue.backoff.ms": 2,
    "fetch.wait.max.ms": 20,
    "group.id": "forebay",
    "isolation.level": "read_uncommitted",
    "queued.max.messages.kbytes": AHEAD_KIB,
}
"""The group is only named: nothing is subscribed or committed.

A cursor that is moved waits until Kafka has answered the fetch before, which takes ``fetch.wait.max.ms`` where nothing
is new. With the half second that is usual a follower would not catch up with an owner that appends meanwhile.
"""


def _consumer(settings: Mapping[str, Any]) -> Consumer:
    return Consumer({**settings, **_CURSOR})


def _look_for_leader(client: Consumer, topic: str) -> None:
    """Let a client hear which node leads the partition now."""
    for _ in range(LOOKS):
        with suppress(KafkaException):
            client.list_topics(topic, timeout=LOOK_S)
            return


def _bytes(found: str | bytes) -> bytes:
    return found.encode() if isinstance(found, str) else found


def _close(senders: list[Sender], readers: tuple[Cursor | Readers | Consumer, ...]) -> None:
    for sender in senders:
        sender.close()
    for reader in readers:
        reader.close()
