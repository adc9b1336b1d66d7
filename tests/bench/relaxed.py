"""What it costs that one record in a hundred fails: RELAXED order with nacks against STRICT order without."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Final

from holdfast.client import Client
from tests.bench.deliver import CREDIT_BYTES, CREDIT_RECORDS, deliver
from tests.bench.processes import Child, broker
from tests.bench.publish import publish
from tests.bench.values import Bar, Load, Row, Sample, row_of

NACKED_EVERY: Final = 100
BAR: Final = 0.5
RECORD_BYTES: Final = 256
PARTITIONS: Final = 4
QUICK: Final = 64 << 20
FULL: Final = 256 << 20


def deliver_with_nacks(client: Client, sink: str, load: Load, process: Child) -> Sample:
    """As ``deliver``, but every hundredth record fails when it comes for the first time."""
    before = process.cost()
    left = load.records
    with client.subscriber(sink, credit_records=CREDIT_RECORDS, credit_bytes=CREDIT_BYTES) as subscriber:
        begun = time.perf_counter()
        for delivery in subscriber:
            taken = len(delivery.values())
            if not delivery.resend:
                for first, last in delivery.ranges:
                    for offset in range(-(-first // NACKED_EVERY) * NACKED_EVERY, last + 1, NACKED_EVERY):
                        delivery.nack(offset=offset, delay_s=0.0)
                        taken -= 1
            left -= taken
            delivery.ack(wait=left <= 0)
            if left <= 0:
                break
        seconds = time.perf_counter() - begun
    pending = client.sinks.stats(sink).pending()
    if pending or left:
        raise RuntimeError(f"{pending} records are still pending after all were acked")
    return Sample(load.records, load.payload_bytes, seconds, process.cost_since(before))


def measure(
    folder: Path, *, rounds: int, quick: bool, rows: list[Row], bars: list[Bar], say: Callable[[str], None]
) -> None:
    """Both in one broker, one after the other, round by round."""
    load = Load(RECORD_BYTES, PARTITIONS, QUICK if quick else FULL)
    strict: list[Sample] = []
    relaxed: list[Sample] = []
    for number in range(rounds):
        say(f"RELAXED with nacks, round {number + 1} of {rounds}")
        place = folder / f"relaxed-{number}"
        with broker(place, folder / "broker.log") as (process, endpoint), Client(endpoint) as client:
            for sink in ("STRICT", "RELAXED"):
                client.sinks.create(
                    sink.lower(),
                    ordering=sink,
                    partitions=PARTITIONS,
                    max_total_bytes=1 << 40,
                    retry_backoff_min_s=0.001,
                )
                publish(client, sink.lower(), load, process)
            strict.append(deliver(client, "strict", load, process))
            relaxed.append(deliver_with_nacks(client, "relaxed", load, process))
        shutil.rmtree(place)
        os.sync()
    where = {"record_bytes": RECORD_BYTES, "partitions": PARTITIONS}
    rows.append(row_of("deliver, STRICT", strict, **where))
    rows.append(row_of("deliver, RELAXED, 1% nacked", relaxed, **where))
    ratio = median(b.records_per_s / a.records_per_s for a, b in zip(strict, relaxed, strict=True))
    bars.append(Bar("RELAXED with 1% nacked / STRICT without", ratio, BAR))
