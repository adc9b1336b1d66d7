"""Start of a broker on an empty disk, with a journal that has what waits: to its first receipt and first delivery.

The owner is killed right after it has taken the last record, and its directory is removed. A part of the records is in
a checkpoint by then, the others are not.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from forebay.client import Client
from tests.bench.journal.places import Place
from tests.bench.journal.publishing import PARTITIONS, RECORD_BYTES, SINK
from tests.bench.processes import broker
from tests.bench.publish import publish
from tests.bench.values import Load


def measure(place: Place, folder: Path, *, size: int, starts: int) -> list[float]:
    """Return the seconds of each start with ``size`` bytes waiting, until both are there; the silence is part of it."""
    journal = "cold"
    environment = {**place.environment, "FOREBAY_JOURNAL": place.address(journal)}
    data, log = folder / "cold", folder / "cold.log"
    found: list[float] = []
    with broker(data, log, environment) as (process, endpoint), Client(endpoint) as client:
        client.sinks.create(SINK, partitions=PARTITIONS, max_total_bytes=1 << 40)
        publish(client, SINK, Load(RECORD_BYTES, PARTITIONS, size), process)
        process.process.kill()
        process.process.wait()
    for _ in range(starts):
        shutil.rmtree(data)
        begun = time.perf_counter()
        with broker(data, log, environment) as (process, endpoint), Client(endpoint) as client:
            with client.publisher(SINK) as publisher:
                publisher.send(b"x", partition=0).result()
            with client.subscriber(SINK) as subscriber:
                next(iter(subscriber))
            found.append(time.perf_counter() - begun)
            process.process.kill()
            process.process.wait()
    shutil.rmtree(data)
    place.remove(journal)
    return found
