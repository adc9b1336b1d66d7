"""`forebay bench`: what a broker does on this machine, in a few seconds.

It answers whether a broker is in the expected order of magnitude. It is no comparison between machines and
proves nothing: publisher, broker and consumer share the processors that are there.
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

from forebay.cli.demo.processes import Processes, python_module
from forebay.cli.options import OutputForm, connect
from forebay.cli.output import Output, bytes_text, say, write_json, write_table
from forebay.process import tune

if TYPE_CHECKING:
    from forebay.client import Client

CHUNK_RECORDS: Final = 4_096
"""Records handed to the publisher at a time."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One row of the table."""

    name: str
    """What was done."""

    records: int
    """How many records."""

    seconds: float
    """How long it took."""

    records_per_s: float
    """Their quotient."""

    bytes_per_s: float
    """Of values."""

    p50_ms: float | None = None
    """Half of the calls took at most so long; only for single calls."""

    p99_ms: float | None = None
    """And 99 of 100."""


def bench(
    endpoint: Annotated[
        str | None,
        typer.Option(
            "--endpoint", "-e", envvar="FOREBAY_ENDPOINT", metavar="HOST:PORT", help="A broker; else one of its own."
        ),
    ] = None,
    records: Annotated[int, typer.Option(help="Records to publish, deliver and replay.", min=1)] = 400_000,
    record_bytes: Annotated[int, typer.Option(help="Bytes of a record.", min=1, max=1 << 20)] = 256,
    partitions: Annotated[int, typer.Option(help="Partitions of the sink.", min=1, max=1024)] = 4,
    singles: Annotated[int, typer.Option(help="Records to publish one by one.", min=2)] = 500,
    output: OutputForm = Output.TABLE,
) -> None:
    """Measure publishing, delivery and replay on a sink that is made for it and removed afterwards."""
    tune()
    with _client(endpoint) as client:
        sink = f"bench-{secrets.token_hex(4)}"
        client.sinks.create(sink, partitions=partitions)
        try:
            value = os.urandom(record_bytes)
            results = [
                _publish(client, sink, value, records, partitions),
                _replay(client, sink, record_bytes),
                _deliver(client, sink, record_bytes, records),
                _publish_singly(client, sink, value, singles),
            ]
        finally:
            client.sinks.delete(sink, force=True)
    if output is Output.JSON:
        write_json({"record_bytes": record_bytes, "partitions": partitions, "results": results})
        return
    write_table(
        f"{records:,} records of {record_bytes} bytes, {partitions} partitions",
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
    """A client of the broker at ``endpoint``, or of one in a process and a folder of its own that go at the end."""
    if endpoint is not None:
        with connect(endpoint) as client:
            yield client
        return
    from forebay.client import Client, ClientSettings

    with tempfile.TemporaryDirectory(prefix="forebay-bench-", dir=".") as name, Processes(Path(name)) as processes:
        say("starting a broker of its own in the current folder, so that its disk is measured")
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
    with client.publisher(sink) as publisher:
        for number, first in enumerate(range(0, records, CHUNK_RECORDS)):
            publisher.send_many(chunk[: records - first], partition=number % partitions)
        publisher.flush()
        seconds = time.perf_counter() - begun
    return _measured("publish, until durable", records, len(value), seconds)


def _replay(client: Client, sink: str, record_bytes: int) -> Measurement:
    begun = time.perf_counter()
    records = 0
    for page in client.replay_pages(sink):
        records += len(page)
    return _measured("replay, by page", records, record_bytes, time.perf_counter() - begun)


def _deliver(client: Client, sink: str, record_bytes: int, records: int) -> Measurement:
    begun = time.perf_counter()
    left = records
    with client.subscriber(sink) as subscriber:
        for delivery in subscriber:
            left -= len(delivery)
            delivery.ack(wait=left <= 0)
            if left <= 0:
                break
    return _measured("deliver and ack", records, record_bytes, time.perf_counter() - begun)


def _publish_singly(client: Client, sink: str, value: bytes, singles: int) -> Measurement:
    times = []
    with client.publisher(sink, linger_ms=0) as publisher:
        publisher.send(value).result()
        for _ in range(singles):
            begun = time.perf_counter()
            publisher.send(value).result()
            times.append(time.perf_counter() - begun)
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
