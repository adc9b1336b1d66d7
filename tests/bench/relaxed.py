"""Cost of one failure in a hundred: RELAXED order with nacks against STRICT order without.

The bar is for what a deliverer does, which sends batches: one batch of a hundred records in a hundred fails. The other
row is the worst there is: single records fail, so that every page is sent a second time for a few of its records.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Final

from forebay.client import Client
from tests.bench.deliver import CREDIT_BYTES, CREDIT_RECORDS, deliver
from tests.bench.processes import Child, broker
from tests.bench.publish import publish
from tests.bench.values import Bar, Load, Row, Sample, row_of

NACKED_EVERY: Final = 100
BATCH_RECORDS: Final = 100
"""Batch that a target accepts or fails as a whole."""
BAR: Final = 0.5
RECORD_BYTES: Final = 256
PARTITIONS: Final = 4
QUICK: Final = 64 << 20
FULL: Final = 256 << 20


def deliver_with_nacks(client: Client, sink: str, load: Load, process: Child, *, together: int) -> Sample:
    """As ``deliver``, but one in a hundred fails when it comes for the first time, ``together`` records at once."""
    before = process.cost()
    left = load.records
    period = NACKED_EVERY * together
    with client.subscriber(sink, credit_records=CREDIT_RECORDS, credit_bytes=CREDIT_BYTES) as subscriber:
        begun = time.perf_counter()
        for delivery in subscriber:
            taken = len(delivery.values())
            if not delivery.resend:
                for first, last in delivery.ranges:
                    for offset in range(-(-first // period) * period, last + 1, period):
                        until = min(offset + together - 1, last)
                        delivery.nack_from(offset, last=until, delay_s=0.0)
                        taken -= until - offset + 1
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
    found: dict[str, list[Sample]] = {"strict": [], "batches": [], "singles": []}
    for number in range(rounds):
        say(f"RELAXED with nacks, round {number + 1} of {rounds}")
        place = folder / f"relaxed-{number}"
        with broker(place, folder / "broker.log") as (process, endpoint), Client(endpoint) as client:
            for sink, samples in found.items():
                ordering = "STRICT" if sink == "strict" else "RELAXED"
                client.sinks.create(sink, ordering=ordering, partitions=PARTITIONS, max_total_bytes=1 << 40)
                publish(client, sink, load, process)
                if sink == "strict":
                    samples.append(deliver(client, sink, load, process))
                else:
                    together = BATCH_RECORDS if sink == "batches" else 1
                    samples.append(deliver_with_nacks(client, sink, load, process, together=together))
        shutil.rmtree(place)
        os.sync()
    where = {"record_bytes": RECORD_BYTES, "partitions": PARTITIONS}
    rows.append(row_of("deliver, STRICT", found["strict"], **where))
    rows.append(row_of("deliver, RELAXED, 1% of batches fail", found["batches"], **where))
    rows.append(row_of("deliver, RELAXED, 1% of records fail", found["singles"], **where))
    pairs = zip(found["strict"], found["batches"], strict=True)
    ratio = median(relaxed.records_per_s / strict.records_per_s for strict, relaxed in pairs)
    bars.append(Bar("RELAXED with 1% nacked / STRICT without", ratio, BAR))
