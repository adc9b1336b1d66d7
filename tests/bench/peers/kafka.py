"""Kafka as a peer: its client with the records of ``tests.bench.small.ways``, the same values, keys and headers.

The producer batches for up to 20 ms, and up to 1 MB; the consumer is set for throughput. With the defaults of the
client both are slower.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.bench.latency import WARM
from tests.bench.peers.forebay import WAY
from tests.bench.peers.kafka_broker import Topics
from tests.bench.small.ways import HEADERS, KEYED, KEYS, PLAIN, POOL, RECORD_BYTES, RICH, VALUES
from tests.bench.values import Sample

POLLED: Final = 1_000
"""Records between two polls of a producer, and of one call of a consumer."""
COMMITTED: Final = 10
"""Calls of a consumer between two commits."""
CONFIRMED_S: Final = 120.0
"""Longest wait for a confirmation."""
TOGETHER_LINGER_MS: Final = 1.0
"""Of the producer of many threads: the fastest of 0, 1 and 5."""
PRODUCER: Final[dict[str, Any]] = {
    "acks": "all",
    "batch.num.messages": 1_000_000,
    "batch.size": 1_000_000,
    "compression.type": "none",
    "delivery.report.only.error": True,
    "linger.ms": 20,
    "log_level": 3,
    "queue.buffering.max.kbytes": 262_144,
    "queue.buffering.max.messages": 1_000_000,
}
_HEADERS: Final[list[tuple[str, str | bytes | None]]] = list(HEADERS.items())
CONSUMER: Final[dict[str, Any]] = {
    "enable.auto.commit": False,
    "fetch.max.bytes": 16 << 20,
    "fetch.queue.backoff.ms": 2,
    "log_level": 3,
    "max.partition.fetch.bytes": 4 << 20,
    "queued.min.messages": 200_000,
}
"""Without the short backoff the client stops for up to a second whenever its queue is full."""


class Failures:
    """Count of the records that were not stored."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, error: KafkaError | None, _: Message) -> None:
        """Note the report of one record."""
        self.count += error is not None

    def check(self, left: int) -> None:
        """Raise ``RuntimeError`` if a record failed, or ``left`` unconfirmed ones are left."""
        if left + self.count:
            raise RuntimeError(f"{left + self.count} records were not stored")


class Kafka:
    """A running broker."""

    name = "Kafka"

    def __init__(self, topics: Topics) -> None:
        self.pid = topics.pid
        self._topics = topics
        self._numbers = itertools.count()

    def publish(self, way: str, count: int) -> Sample:
        """Publish into a new topic."""
        with self._topic(WAY[way].partitions) as topic:
            return self._produced(topic, way, count)

    def read(self, way: str, count: int) -> Sample:
        """Read a topic of one partition with commits: Kafka has one way for all of ``way``."""
        with self._topic() as topic:
            self._produced(topic, PLAIN, count)
            consumer = Consumer({**self._server(), "group.id": f"readers-{topic}", **CONSUMER})
            try:
                return _consumed(consumer, topic, count)
            finally:
                consumer.close()

    def one_by_one(self, count: int) -> list[float]:
        """Send records without linger."""
        taken, failures = [], Failures()
        with self._topic() as topic:
            producer = Producer({**self._server(), **PRODUCER, "linger.ms": 0})
            for number in range(WARM + count):
                begun = time.perf_counter()
                producer.produce(topic, VALUES[number % POOL], partition=0, on_delivery=failures)
                left = producer.flush(CONFIRMED_S)
                if number >= WARM:
                    taken.append(time.perf_counter() - begun)
                failures.check(left)
        return taken

    def together(self, callers: int, count: int) -> Sample:
        """Send records with one producer, whose reports a thread serves."""
        settings = {**PRODUCER, "linger.ms": TOGETHER_LINGER_MS, "delivery.report.only.error": False}
        with self._topic() as topic:
            producer = Producer({**self._server(), **settings})
            gate = threading.Barrier(callers + 1)

            def run() -> None:
                caller = Caller(producer, topic)
                gate.wait()
                for number in range(count):
                    caller.send(VALUES[number % POOL])

            with _served(producer), ThreadPoolExecutor(callers) as threads:
                Caller(producer, topic).send(VALUES[0])
                running = [threads.submit(run) for _ in range(callers)]
                gate.wait()
                begun = time.perf_counter()
                for one in running:
                    one.result()
                took = time.perf_counter() - begun
        return Sample(callers * count, callers * count * RECORD_BYTES, took)

    @contextmanager
    def _topic(self, partitions: int = 1) -> Iterator[str]:
        name = f"bench-{next(self._numbers)}"
        self._topics.create(name, partitions)
        yield name
        self._topics.delete(name)

    def _server(self) -> dict[str, Any]:
        return {"bootstrap.servers": self._topics.endpoint}

    def _produced(self, topic: str, way: str, count: int) -> Sample:
        begun, failures = time.perf_counter(), Failures()
        producer = Producer({**self._server(), **PRODUCER})
        _PRODUCE[way](producer, topic, count, failures)
        left = producer.flush(CONFIRMED_S)
        took = time.perf_counter() - begun
        failures.check(left)
        stored = self._topics.records(topic, WAY[way].partitions)
        if stored != count:
            raise RuntimeError(f"Kafka holds {stored} records, expected {count}")
        return Sample(count, count * RECORD_BYTES, took)


class Caller:
    """A thread that sends one record after the other."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self._producer = producer
        self._topic = topic
        self._reported = threading.Semaphore(0)
        self._failures = Failures()

    def send(self, value: bytes) -> None:
        """Send a record; return when it is confirmed."""
        self._producer.produce(self._topic, value, partition=0, on_delivery=self._report)
        self._failures.check(not self._reported.acquire(timeout=CONFIRMED_S))

    def _report(self, error: KafkaError | None, message: Message) -> None:
        self._failures(error, message)
        self._reported.release()


def _plain(producer: Producer, topic: str, count: int, failures: Failures) -> None:
    for number in range(count):
        while True:
            try:
                producer.produce(topic, VALUES[number % POOL], partition=0, on_delivery=failures)
                break
            except BufferError:
                producer.poll(0.05)
        if not number % POLLED:
            producer.poll(0)


def _keyed(producer: Producer, topic: str, count: int, failures: Failures) -> None:
    for number in range(count):
        while True:
            try:
                producer.produce(topic, VALUES[number % POOL], KEYS[number % len(KEYS)], on_delivery=failures)
                break
            except BufferError:
                producer.poll(0.05)
        if not number % POLLED:
            producer.poll(0)


def _rich(producer: Producer, topic: str, count: int, failures: Failures) -> None:
    for number in range(count):
        while True:
            try:
                producer.produce(
                    topic, VALUES[number % POOL], KEYS[number % len(KEYS)],
                    on_delivery=failures, timestamp=time.time_ns() // 1_000_000, headers=_HEADERS,
                )  # fmt: skip
                break
            except BufferError:
                producer.poll(0.05)
        if not number % POLLED:
            producer.poll(0)


_PRODUCE: Final[dict[str, Callable[[Producer, str, int, Failures], None]]] = {
    PLAIN: _plain,
    KEYED: _keyed,
    RICH: _rich,
}


def _consumed(consumer: Consumer, topic: str, count: int) -> Sample:
    begun, seen, calls = time.perf_counter(), 0, 0
    consumer.assign([TopicPartition(topic, 0, 0)])
    while seen < count * RECORD_BYTES:
        messages = consumer.consume(POLLED, timeout=CONFIRMED_S)
        if not messages:
            raise RuntimeError(f"the consumer got {seen} bytes, expected {count * RECORD_BYTES}")
        for message in messages:
            if message.error():
                raise KafkaException(message.error())
            seen += len(message.value() or b"")
        calls += 1
        if not calls % COMMITTED:
            consumer.commit(asynchronous=True)
    _commit(consumer)
    return Sample(count, count * RECORD_BYTES, time.perf_counter() - begun)


def _commit(consumer: Consumer) -> None:
    try:
        consumer.commit(asynchronous=False)
    except KafkaException as failure:
        if failure.args[0].code() != KafkaError._NO_OFFSET:  # an earlier commit had everything
            raise


@contextmanager
def _served(producer: Producer) -> Iterator[None]:
    """Serve the reports of a producer on a thread, as its documentation advises for many callers."""
    ended = threading.Event()

    def serve() -> None:
        while not ended.is_set():
            producer.poll(0.1)

    thread = threading.Thread(target=serve, name="kafka-reports")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
