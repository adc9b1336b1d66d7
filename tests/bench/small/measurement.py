"""Small records: each way beside the bulk way, ``foreach`` of Spark, and the memory of a full publisher.

Bars are ratios within one round of this run, so they hold on any machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, Final, cast

from forebay.client import Client
from forebay.spark.foreach import ForeachPublisher
from tests.bench.processes import Child, broker
from tests.bench.small import memory
from tests.bench.small.ways import KEYED, MANY, PLAIN, POOL, RECORD_BYTES, REPLAY, RICH, SUBSCRIBE, VALUES, WAYS, Way
from tests.bench.values import MIB, Bar, Row, Sample, Sense, row_of

RECORDS: Final = (600_000, 150_000)
"""Of each way, in full, and quickly."""
FOREACH: Final = "ForeachPublisher, row by row"
BARS: Final = (
    (PLAIN, MANY, 0.25),
    (KEYED, PLAIN, 0.7),
    (RICH, PLAIN, 0.4),
    (FOREACH, PLAIN, 0.6),
    (REPLAY, PLAIN, 1.2),
    (SUBSCRIBE, PLAIN, 1.0),
)
"""A way, the way that it is compared with, and the least ratio of their records/s."""
MEMORY_SIZES: Final = (256, 20)
MEMORY_BAR: Final = 2.5


def measure(
    folder: Path, *, rounds: int, quick: bool, rows: list[Row], bars: list[Bar], say: Callable[[str], None]
) -> None:
    """Measure every way in turn, round by round, then the memory."""
    count = RECORDS[quick]
    found: dict[str, list[Sample]] = {}
    with broker(folder / "small", folder / "broker.log") as (process, endpoint), Client(endpoint) as client:
        for number in range(rounds):
            say(f"small records, round {number + 1} of {rounds}")
            for way in WAYS:
                found.setdefault(way.name, []).append(_timed(client, way, f"{way.slug}-{number}", count, process))
            sink = f"foreach-{number}"
            client.sinks.create(sink)
            found.setdefault(FOREACH, []).append(_foreach(endpoint, sink, count, process))
    partitions = {way.name: way.partitions for way in WAYS}
    for name, samples in found.items():
        rows.append(row_of(name, samples, record_bytes=RECORD_BYTES, partitions=partitions.get(name, 1)))
    for name, other, bar in BARS:
        pairs = zip(found[name], found[other], strict=True)
        ratio = median(one.records_per_s / two.records_per_s for one, two in pairs)
        bars.append(Bar(f"records/s, {name} / {other}", ratio, bar))
    for record_bytes in MEMORY_SIZES:
        say(f"memory of a publisher with a full buffer, {record_bytes} B")
        records, taken = memory.measure(folder, record_bytes)
        name = "publisher with 64 MiB buffered"
        rows.append(Row(name, record_bytes=record_bytes, memory_mib=taken / MIB))
        say(f"{records:,} records of {record_bytes} B")
        ratio = taken / memory.BUFFER_BYTES
        bars.append(Bar(f"memory of a {name} / 64 MiB, {record_bytes} B", ratio, MEMORY_BAR, Sense.AT_MOST))


def _timed(client: Client, way: Way, sink: str, count: int, process: Child) -> Sample:
    client.sinks.create(sink, partitions=way.partitions)
    if way.reads:
        with client.publisher(sink) as publisher:
            for first in range(0, count, POOL):
                publisher.send_many(VALUES[: min(POOL, count - first)])
    before, begun = process.cost(), time.perf_counter()
    way.run(client, sink, count)
    took = time.perf_counter() - begun
    return Sample(count, count * RECORD_BYTES, took, process.cost_since(before))


def _foreach(endpoint: str, sink: str, count: int, process: Child) -> Sample:
    """Publish rows as Spark calls ``foreach`` in a task; the row is made before, and is not measured."""
    writer = ForeachPublisher(sink, lambda row: cast("bytes", row), {"endpoint": endpoint})
    rows = cast("list[Any]", VALUES)
    before, begun = process.cost(), time.perf_counter()
    writer.open(0, 0)
    for number in range(count):
        writer.process(rows[number % POOL])
    writer.close(None)
    took = time.perf_counter() - begun
    return Sample(count, count * RECORD_BYTES, took, process.cost_since(before))
