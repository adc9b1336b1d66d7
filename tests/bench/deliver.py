"""Taking all of a sink as a deliverer does: the values of each delivery, then its ack; the last acks are awaited."""

from __future__ import annotations

import time
from typing import Final

from forebay.client import Client
from tests.bench.processes import Child
from tests.bench.values import Load, Sample

CREDIT_RECORDS: Final = 1_000_000
CREDIT_BYTES: Final = 64 << 20


def deliver(client: Client, sink: str, load: Load, process: Child) -> Sample:
    """Take and settle what ``load`` has put into a sink; ``process`` is the broker's."""
    before = process.cost()
    left = load.records
    with client.subscriber(sink, credit_records=CREDIT_RECORDS, credit_bytes=CREDIT_BYTES) as subscriber:
        begun = time.perf_counter()
        for delivery in subscriber:
            left -= len(delivery.values())
            # Acks take effect in order: when the last one is durable, all are.
            delivery.ack(wait=left <= 0)
            if left <= 0:
                break
        seconds = time.perf_counter() - begun
    pending = client.sinks.stats(sink).pending()
    if pending or left:
        raise RuntimeError(f"{pending} records are still pending after all were acked")
    return Sample(load.records, load.payload_bytes, seconds, process.cost_since(before))
