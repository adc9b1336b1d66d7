"""Publishing a load until it is durable: from lists of values to the last receipt."""

from __future__ import annotations

import time
from typing import Final

from forebay.client import Client
from tests.bench.processes import Child
from tests.bench.values import Load, Sample

WINDOW_PAGES: Final = 96


def publish(client: Client, sink: str, load: Load, process: Child) -> Sample:
    """Publish a load to a sink; ``process`` is the broker's."""
    before = process.cost()
    with client.publisher(sink, window_pages=WINDOW_PAGES) as publisher:
        begun = time.perf_counter()
        for partition, values in load:
            publisher.send_many(values, partition=partition)
        publisher.flush()
        seconds = time.perf_counter() - begun
    return Sample(load.records, load.payload_bytes, seconds, process.cost_since(before))
