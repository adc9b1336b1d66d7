"""Load of a broker while pages of its console are open: a publisher and a consumer of one sink."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from typing import Final

from forebay.client import Client

SINK: Final = "busy"
BATCH: Final = [b'{"id": %d, "text": "a record under load"}' % number for number in range(20)]
PAUSE_S: Final = 0.01
"""Between two batches."""


class Load:
    """Publisher and consumer at work."""

    def __init__(self, endpoint: str, sink: str) -> None:
        self._endpoint = endpoint
        self._sink = sink
        self._stopped = Event()
        self._last = Event()
        """Set before the last record is sent."""
        self.published = 0
        self.acked = 0

    def stop(self) -> None:
        """Let the publisher end; the consumer ends when it has acked all."""
        self._stopped.set()

    def publish(self) -> None:
        """Publish batches until the load is stopped, then a last record."""
        with Client(self._endpoint) as client, client.publisher(self._sink) as publisher:
            while not self._stopped.wait(PAUSE_S):
                publisher.send_many(BATCH)
                self.published += len(BATCH)
            self.published += 1
            self._last.set()
            publisher.send(b"the last one")

    def consume(self) -> None:
        """Ack what is delivered until it has been everything."""
        with Client(self._endpoint) as client, client.subscriber(self._sink, consumer_id="under-load") as subscriber:
            for delivery in subscriber:
                delivery.ack()
                self.acked += len(delivery)
                if self._last.is_set() and self.acked >= self.published:
                    return


@contextmanager
def loaded(endpoint: str, sink: str = SINK) -> Iterator[Load]:
    """Publish to a new sink and consume it until the block ends; then everything that was published is acked."""
    with Client(endpoint) as client:
        client.sinks.create(sink, partitions=4)
    load = Load(endpoint, sink)
    with ThreadPoolExecutor(2) as threads:
        working = [threads.submit(load.consume), threads.submit(load.publish)]
        try:
            yield load
        finally:
            load.stop()
            for one in working:
                one.result(60)
