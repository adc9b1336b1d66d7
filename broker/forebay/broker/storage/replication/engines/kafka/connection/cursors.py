"""Cursors of a topic by Kafka's client: reads of its one partition by offset, at several places."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from forebay.broker.storage.replication.engine import EngineAway, EngineRefused
from forebay.broker.storage.replication.engines.kafka.connection.access import is_refusal, reason_of
from forebay.broker.storage.replication.engines.kafka.connection.topic import MESSAGE_BYTES, OVERHEAD_BYTES
from forebay.broker.storage.replication.engines.kafka.objects.log import LogCursor, LogMessage, OffsetsGone

READ: Final = "Read on the topic"
AHEAD_KIB: Final = 16 << 10
"""Bytes that a cursor has read ahead at most, in KiB."""
READ_AT_ONCE: Final = 500
ASKS: Final = 5
"""Times that a node is asked within the time limit of a request.

A machine that is lost closes no connection. Kafka's client waits for a minute by default, and does not look for another
leader at all where nothing but the ends is asked for.
"""
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
GONE: Final = frozenset({KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET})
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


class Cursor:
    """A ``LogCursor``."""

    def __init__(
        self, settings: Mapping[str, Any], topic: str, timeout_s: float, note: Callable[[KafkaError], None]
    ) -> None:
        """``note`` gets errors that pass, perhaps."""
        self._settings: Final = settings
        self._consumer = consumer_of(settings)
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
                look_for_leader(self._consumer, self._topic)
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
            if error.code() in GONE:
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
        self._consumer, self._next = consumer_of(self._settings), -1

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


def consumer_of(settings: Mapping[str, Any]) -> Consumer:
    return Consumer({**settings, **_CURSOR})


def look_for_leader(client: Consumer, topic: str) -> None:
    """Let a client hear which node leads the partition now."""
    for _ in range(LOOKS):
        with suppress(KafkaException):
            client.list_topics(topic, timeout=LOOK_S)
            return


def _bytes(found: str | bytes) -> bytes:
    return found.encode() if isinstance(found, str) else found
