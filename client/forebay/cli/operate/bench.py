"""`forebay bench`: throughput and latency of a broker, measured in a few seconds.

It shows whether a broker performs in the expected order of magnitude. It does not compare machines: publisher, broker
and consumer share the same processors.
"""

from __future__ import annotations

import os
import secrets
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from typing import TYPE_CHECKING, Annotated, Final

import typer

from forebay.cli.demo.processes.children import Processes, python_module
from forebay.cli.operate.progress import shown_count
from forebay.cli.options import OutputForm, connect
from forebay.cli.output import Output, bytes_text, write_json, write_list, write_message
from forebay.cli.quantities import size
from forebay.process import tune
from forebay.state.numbers import counted

if TYPE_CHECKING:
    from forebay.client import Client

CHUNK_RECORDS: Final = 4_096
"""Number of records per call of the publisher."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """Row of the table."""

    name: str
    """Measured operation."""

    records: int
    """Number of records."""

    seconds: float
    """Duration."""

    records_per_s: float
    """Records per second."""

    bytes_per_s: float
    """Bytes of values per second."""

    p50_ms: float | None = None
    """Median duration of a call; only for single calls."""

    p99_ms: float | None = None
    """99th percentile of the duration of a call."""


def bench(
    endpoint: Annotated[
        str | None,
        typer.Option(
            "--endpoint",
            "-e",
            envvar="FOREBAY_ENDPOINT",
            metavar="HOST:PORT",
            help="Broker to measure; default: a temporary one.",
        ),
    ] = None,
    records: Annotated[int, typer.Option(help="Number of records to publish, deliver and replay.", min=1)] = 400_000,
    record_bytes: Annotated[
        int, typer.Option(metavar="SIZE", parser=size(1, 1 << 20), help="Size of a record, such as 4KiB.")
    ] = 256,
    partitions: Annotated[int, typer.Option(help="Number of partitions.", min=1, max=1024)] = 4,
    singles: Annotated[int, typer.Option(help="Number of records to publish one at a time.", min=2)] = 500,
    output: OutputForm = Output.TABLE,
) -> None:
    """Measure publishing, delivery and replay on a temporary sink.

    The progress that a terminal shows takes a little of a processor. Compare results of -o json.
    """
    tune()
    with _client(endpoint) as client:
        sink = f"bench-{secrets.token_hex(4)}"
        client.sinks.create(sink, partitions=partitions)
        try:
            value = os.urandom(record_bytes)
            results = [
                _publish(client, sink, value, records, partitions),
                _replay(client, sink, record_bytes, records),
                _deliver(client, sink, record_bytes, records),
                _publish_singly(client, sink, value, singles),
            ]
        finally:
            client.sinks.delete(sink, force=True)
    if output is Output.JSON:
        write_json({"record_bytes": record_bytes, "partitions": partitions, "results": results})
        return
    write_list(
        f"{counted(records, 'record')} of {counted(record_bytes, 'byte')}, {counted(partitions, 'partition')}",
        ("", "records", "seconds", "records/s", "values/s", "p50 ms", "p99 ms"),
        [
            (
                row.name,
                row.records,
                round(row.seconds, 2),
                round(row.records_per_s),
                bytes_text(int(row.bytes_per_s)),
                row.p50_ms,
                row.p99_ms,
            )
            for row in results
        ],
    )


@contextmanager
def _client(endpoint: str | None) -> Iterator[Client]:
    """Open a client of the broker at ``endpoint``, or of a temporary broker process with its own folder."""
    if endpoint is not None:
        with connect(endpoint) as client:
            yield client
        return
    from forebay.client import Client, ClientSettings

    with tempfile.TemporaryDirectory(prefix="forebay-bench-", dir=".") as name, Processes(Path(name)) as processes:
        write_message("starting a temporary broker in the current folder, whose disk is measured")
        arguments = ("serve", "--data-dir", Path(name).resolve() / "data", "--listen", "127.0.0.1:0", "-o", "json")
        child = processes.start("broker", python_module("forebay.cli", *arguments))
        found = [report.facts["endpoint"] for report in processes.wait_for(child, "endpoint", timeout_s=30)]
        with Client(str(found[-1]), settings=ClientSettings()) as client:
            yield client


def _measured(name: str, records: int, record_bytes: int, seconds: float) -> Measurement:
    return Measurement(name, records, seconds, records / seconds, records * record_bytes / seconds)


def _publish(client: Client, sink: str, value: bytes, records: int, partitions: int) -> Measurement:
    chunk = [value] * CHUNK_RECORDS
    begun = time.perf_counter()
    with shown_count("publish", records) as advance, client.publisher(sink) as publisher:
        for number, first in enumerate(range(0, records, CHUNK_RECORDS)):
            publisher.send_many(chunk[: records - first], partition=number % partitions)
            advance(min(CHUNK_RECORDS, records - first))
        publisher.flush()
        seconds = time.perf_counter() - begun
    return _measured("publish, until durable", records, len(value), seconds)


def _replay(client: Client, sink: str, record_bytes: int, records: int) -> Measurement:
    begun = time.perf_counter()
    read = 0
    with shown_count("replay", records) as advance:
        for page in client.replay_pages(sink):
            read += len(page)
            advance(len(page))
        seconds = time.perf_counter() - begun
    return _measured("replay, by page", read, record_bytes, seconds)


def _deliver(client: Client, sink: str, record_bytes: int, records: int) -> Measurement:
    begun = time.perf_counter()
    left = records
    with shown_count("deliver", records) as advance, client.subscriber(sink) as subscriber:
        for delivery in subscriber:
            left -= len(delivery)
            advance(len(delivery))
            delivery.ack(wait=left <= 0)
            if left <= 0:
                break
    return _measured("deliver and ack", records, record_bytes, time.perf_counter() - begun)


def _publish_singly(client: Client, sink: str, value: bytes, singles: int) -> Measurement:
    times = []
    with shown_count("publish one by one", singles) as advance, client.publisher(sink, linger_ms=0) as publisher:
        publisher.send(value).result()
        for _ in range(singles):
            begun = time.perf_counter()
            publisher.send(value).result()
            times.append(time.perf_counter() - begun)
            advance(1)
    cuts = quantiles(times, n=100, method="inclusive")
    total = sum(times)
    return Measurement(
        "publish one by one",
        singles,
        total,
        singles / total,
        singles * len(value) / total,
        p50_ms=cuts[49] * 1000,
        p99_ms=cuts[98] * 1000,
    )
