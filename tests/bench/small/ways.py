"""Ways to publish and to consume small records one by one, as most programs do it.

Each way takes a client, a sink and a number of records, and returns when all of them are durable, or settled.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from forebay.client import Client, Gap
from forebay.client.publish.publisher import Publisher

RECORD_BYTES: Final = 256
POOL: Final = 1_024
VALUES: Final = [os.urandom(RECORD_BYTES) for _ in range(POOL)]
KEYS: Final = [b"customer-%d" % number for number in range(5_000)]
HEADERS: Final[dict[str, bytes | str]] = {"source": b"till 3", "trace": "0af7651916cd43dd"}


@dataclass(frozen=True, slots=True)
class Way:
    """One way, with the partitions of its sink."""

    name: str
    slug: str
    """Part of the names of its sinks."""

    run: Callable[[Client, str, int], None]
    partitions: int = 1
    reads: bool = False
    """It consumes what another way has published."""


def _publish(send: Callable[[Publisher, int], None]) -> Callable[[Client, str, int], None]:
    def run(client: Client, sink: str, count: int) -> None:
        with client.publisher(sink) as publisher:
            send(publisher, count)
            publisher.flush()

    return run


def _plain(publisher: Publisher, count: int) -> None:
    for number in range(count):
        publisher.send(VALUES[number % POOL])


def _many(publisher: Publisher, count: int) -> None:
    for first in range(0, count, POOL):
        publisher.send_many(VALUES[: min(POOL, count - first)])


def _keyed(publisher: Publisher, count: int) -> None:
    for number in range(count):
        publisher.send(VALUES[number % POOL], key=KEYS[number % len(KEYS)])


def _rich(publisher: Publisher, count: int) -> None:
    for number in range(count):
        publisher.send(
            VALUES[number % POOL], key=KEYS[number % len(KEYS)], headers=HEADERS, event_time=datetime.now(UTC)
        )


def _replay(client: Client, sink: str, count: int) -> None:
    seen = 0
    for record in client.replay(sink):
        assert not isinstance(record, Gap)
        seen += len(record.value)
    _check(count * RECORD_BYTES, seen, "bytes replayed")


def _subscribe(client: Client, sink: str, count: int) -> None:
    seen = 0
    with client.subscriber(sink) as deliveries:
        for delivery in deliveries:
            for record in delivery:
                seen += len(record.value)
            delivery.ack(wait=seen >= count * RECORD_BYTES)
            if seen >= count * RECORD_BYTES:
                break
    _check(count * RECORD_BYTES, seen, "bytes consumed")


def _check(expected: int, found: int, what: str) -> None:
    if expected != found:
        raise RuntimeError(f"{what}: {found}, expected {expected}")


MANY: Final = "send_many"
PLAIN: Final = "send() per record"
KEYED: Final = "send() with key"
RICH: Final = "send() with key, 2 headers, event time"
REPLAY: Final = "replay record by record"
SUBSCRIBE: Final = "subscriber record by record, acks"

WAYS: Final = (
    Way(MANY, "many", _publish(_many)),
    Way(PLAIN, "plain", _publish(_plain)),
    Way(KEYED, "keyed", _publish(_keyed), partitions=4),
    Way(RICH, "rich", _publish(_rich), partitions=4),
    Way(REPLAY, "replayed", _replay, reads=True),
    Way(SUBSCRIBE, "delivered", _subscribe, reads=True),
)
