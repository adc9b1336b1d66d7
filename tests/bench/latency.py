"""One record at a time: how long until its receipt is there."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from statistics import quantiles
from typing import Final

from forebay.client import Client, Record
from tests.bench.values import Row

WARM: Final = 100


def single_records(client: Client, sink: str, record_bytes: int, count: int, *, linger_ms: float = 0.0) -> list[float]:
    """Seconds of each record of a publisher that sends one after the other."""
    value = os.urandom(record_bytes)
    taken = []
    with client.publisher(sink, linger_ms=linger_ms) as publisher:
        for number in range(WARM + count):
            begun = time.perf_counter()
            publisher.send(value).result()
            if number >= WARM:
                taken.append(time.perf_counter() - begun)
    return taken


def single_calls(client: Client, sink: str, record_bytes: int, count: int) -> list[float]:
    """The same, each record a call of its own (`PublishBatch`)."""
    records = [Record(os.urandom(record_bytes))]
    taken = []
    for number in range(WARM + count):
        begun = time.perf_counter()
        client.publish(sink, records)
        if number >= WARM:
            taken.append(time.perf_counter() - begun)
    return taken


def row_of(name: str, taken: Sequence[float], record_bytes: int | None) -> Row:
    """The row of calls that were timed one by one."""
    cuts = quantiles(taken, n=100, method="inclusive")
    return Row(
        name,
        record_bytes=record_bytes,
        records_per_s=len(taken) / sum(taken),
        p50_ms=cuts[49] * 1e3,
        p99_ms=cuts[98] * 1e3,
        runs=len(taken),
    )
