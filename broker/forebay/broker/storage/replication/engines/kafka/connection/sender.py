"""Producer of Kafka's client with the thread that takes its confirmations.

The client ends a producer for good with a *fatal* error: it does not know any more which of its messages are appended,
or has no right to number them. Every message of it that is not confirmed fails then, and another producer takes its
place.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from forebay.broker.storage.replication.engines.kafka.connection.access import reason_of

POLL_S: Final = 0.2
RIGHT: Final = "Write on the topic"
"""Right that a producer needs, also to number its messages."""
Report: TypeAlias = Callable[[KafkaError | None, Message], None]


class ProducerEnded(Exception):
    """The producer has ended with a fatal error. The text has the cause."""


class Sender:
    """One producer. Its methods may be called by any thread."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """Raises ``KafkaException`` for settings that are refused."""
        self._producer: Final = Producer(dict(settings))
        self._ended: Final = threading.Event()
        self._fatal: Final[list[str]] = []
        args = (self._producer, self._ended, self._fatal)
        self._thread: Final = threading.Thread(target=_serve, args=args, name="forebay-kafka", daemon=True)
        self._thread.start()

    def send(self, topic: str, key: bytes, value: bytes, report: Report) -> None:
        """Append a message to partition 0; ``report`` is called by another thread.

        Raises ``BufferError`` while too many messages are not confirmed, ``KafkaException`` and ``ProducerEnded``.
        """
        if not self._thread.is_alive() and not self._fatal:
            raise RuntimeError("the thread that takes confirmations has failed")
        try:
            self._producer.produce(topic, value, key, partition=0, on_delivery=report)
        except KafkaException as error:
            if error.args[0].code() == KafkaError._FATAL:
                raise ProducerEnded(*self._fatal or [reason_of(error, right=RIGHT)]) from error
            raise

    def cause_of(self, error: KafkaError) -> str:
        """Return why a message was not confirmed."""
        return self._fatal[0] if self._fatal else reason_of(error, right=RIGHT)

    def wait(self) -> None:
        """Wait a moment for confirmations."""
        self._ended.wait(POLL_S)

    def close(self) -> None:
        """End the thread."""
        self._ended.set()
        if self._thread is not threading.current_thread():
            self._thread.join()


def _serve(producer: Producer, ended: threading.Event, fatal: list[str]) -> None:
    """Call what waits for confirmations, of a producer that has ended until none is left."""
    while not ended.is_set() and not (fatal and not len(producer)):
        try:
            producer.poll(POLL_S)
        except KafkaException as error:  # a fatal one: others are passed to ``error_cb``
            fatal.append(reason_of(error, right=RIGHT))
            producer.purge()
