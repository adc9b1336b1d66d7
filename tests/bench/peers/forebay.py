"""Forebay as a peer: one broker with its defaults, and the library's client."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from forebay.client import Client
from tests.bench import latency
from tests.bench.callers import together
from tests.bench.processes import Child
from tests.bench.small.ways import POOL, RECORD_BYTES, VALUES, WAYS, Way
from tests.bench.values import Sample

WAY: Final = {way.name: way for way in WAYS}


class Forebay:
    """A running broker."""

    name = "Forebay"

    def __init__(self, client: Client, process: Child) -> None:
        self.pid = process.process.pid
        self._client = client
        self._process = process
        self._numbers = itertools.count()

    def publish(self, way: str, count: int) -> Sample:
        """Publish into a new sink."""
        with self._sink(WAY[way].partitions) as sink:
            return self._timed(WAY[way], sink, count)

    def read(self, way: str, count: int) -> Sample:
        """Read a sink of one partition."""
        with self._sink() as sink:
            with self._client.publisher(sink) as publisher:
                for first in range(0, count, POOL):
                    publisher.send_many(VALUES[: min(POOL, count - first)])
            return self._timed(WAY[way], sink, count)

    def one_by_one(self, count: int) -> list[float]:
        """Send records without linger."""
        with self._sink() as sink:
            return latency.single_records(self._client, sink, RECORD_BYTES, count)

    def together(self, callers: int, count: int) -> Sample:
        """Send records with one publisher, which has its defaults."""
        with self._sink() as sink, self._client.publisher(sink) as publisher:
            publisher.send(VALUES[0]).result()
            return together(lambda: publisher.send(VALUES[0]).result(), count, self._process, callers)

    @contextmanager
    def _sink(self, partitions: int = 1) -> Iterator[str]:
        name = f"bench-{next(self._numbers)}"
        self._client.sinks.create(name, partitions=partitions)
        yield name
        self._client.sinks.delete(name, force=True)

    def _timed(self, way: Way, sink: str, count: int) -> Sample:
        before, begun = self._process.cost(), time.perf_counter()
        way.run(self._client, sink, count)
        took = time.perf_counter() - begun
        return Sample(count, count * RECORD_BYTES, took, self._process.cost_since(before))
