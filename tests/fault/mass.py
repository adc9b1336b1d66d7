"""Strangers, slow readers and publishers in mass against one broker, and a table of what they cost the others.

    python -m tests.fault.mass [--idle 10000] [--readers 1000] [--publishers 1000] [--halves 60] [--link 125]
        [--sinks 9000] [--seconds 15]

A real ``forebay serve`` gets sinks, connections that send nothing, replays that no client reads, publishers, and
requests whose last part never arrives, all at once: these arrive at the speed of a link of 1 Gbit/s. Beside them one
client in a process of its own publishes a record at a time. Then all leave, and the broker is started again. Exit
code 1 says that one of the bounds did not hold. Everything is on the loopback interface.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc.aio

from forebay.client import Client, ForebayError, Record
from forebay.v1 import buffer_service_pb2 as pb
from forebay.v1 import record_pb2, sink_service_pb2
from forebay.v1.buffer_service_pb2_grpc import BufferServiceStub
from forebay.v1.sink_service_pb2_grpc import SinkServiceStub
from tests.support.calls.half_requests import send_halves
from tests.support.processes.broker import BrokerProcess, serve_command

MIB: Final = 1 << 20
RESIDENT_MAX_MIB: Final = 1_024
HEALTHY_P99_MAX_MS: Final = 250.0
RESTART_MAX_S: Final = 5.0
RETURNED_MAX_S: Final = 60.0
RETAINED_MAX_MIB: Final = 256
"""Free memory that the process retains above that of its sinks, see ``forebay.process.tune``."""
LOG_SHOWN: Final = 8_000
"""Characters of the broker's log that are shown where a bound did not hold."""
BATCH: Final = "/forebay.v1.BufferService/PublishBatch"
ADDRESSES: Final = 5
"""Strangers come from so many addresses of the loopback interface."""
PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"
NARROW: Final = [
    ("grpc.http2.lookahead_bytes", 1_024),
    ("grpc.http2.bdp_probe", 0),
    ("grpc.use_local_subchannel_pool", 1),
]


@dataclass(frozen=True, slots=True)
class Load:
    """Number of objects per kind."""

    idle: int
    readers: int
    publishers: int
    halves: int
    """Connections with an open call and four incomplete requests each."""

    link: float
    """MB/s of incomplete requests, of all these connections together."""

    sinks: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    what: str
    value: float
    bound: float
    unit: str

    @property
    def ok(self) -> bool:
        """True if the bound holds."""
        return self.value <= self.bound


def resident_mib(pid: int) -> int:
    """Return the resident memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) // 1024


def descriptors(pid: int) -> int:
    """Return how many files a process has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def healthy(endpoint: str, seconds: float) -> None:
    """Publish a record each 20 ms, and print how long each took; runs in a process of its own."""
    took: list[float] = []
    failed: Counter[str] = Counter()
    with Client(endpoint) as client:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            began = time.monotonic()
            try:
                client.publish("healthy", [Record(b"x")])
            except ForebayError as error:
                failed[str(error)] += 1
            took.append(time.monotonic() - began)
            time.sleep(0.02)
    took.sort()
    print(json.dumps({"p99_ms": took[int(len(took) * 0.99)] * 1_000, "failed": failed.total(), "calls": len(took)}))
    for reason, count in failed.most_common(3):
        print(f"{count} calls failed: {reason}", file=sys.stderr)


def halves(endpoint: str, load: Load) -> None:
    """Send incomplete requests; runs in a process of its own."""
    send_halves(
        *(endpoint, "mass", BATCH),
        connections=load.halves,
        calls=4,
        bytes_max=1 << 62,
        seconds=load.seconds,
        bytes_per_s=load.link * 1e6,
    )


def page(sequence: int) -> pb.PublishRequest:
    """Return a page of 100 records."""
    run = record_pb2.RecordRun(value_lengths=[100] * 100, values=b"x" * 10_000)
    body = record_pb2.RecordPage(runs=[run]).SerializeToString()
    return pb.PublishRequest(
        page=pb.PublishPage(
            sequence=sequence,
            encoding=record_pb2.ENCODING_RECORDS,
            record_count=100,
            crc32=zlib.crc32(body),
            body=body,
        )
    )


async def make_sinks(endpoint: str, count: int) -> None:
    """Make sinks, 64 at a time."""
    numbers = iter(range(count))
    async with grpc.aio.insecure_channel(endpoint) as channel:
        stub: Any = SinkServiceStub(channel)

        async def some() -> None:
            for number in numbers:
                await stub.CreateSink(sink_service_pb2.CreateSinkRequest(name=f"sink-{number}"))

        await asyncio.gather(*(some() for _ in range(64)))


@asynccontextmanager
async def publishing(endpoint: str, count: int) -> AsyncIterator[None]:
    """Keep publish streams open, each of which has published a page."""
    channels = [channel_of(endpoint, number) for number in range(max(1, count // 20))]

    async def one(number: int) -> Any:
        call = BufferServiceStub(channels[number % len(channels)]).Publish()
        await call.write(pb.PublishRequest(open=pb.PublishOpen(sink="mass", writer_id=f"writer-{number}")))
        await call.read()
        await call.write(page(0))
        await call.read()
        return call

    calls = await asyncio.gather(*(one(number) for number in range(count)))
    try:
        yield
    finally:
        await left(calls, channels)


@asynccontextmanager
async def not_reading(endpoint: str, count: int) -> AsyncIterator[None]:
    """Keep replays open that no client reads, each on a connection of its own."""
    channels = [channel_of(endpoint, 100_000 + number) for number in range(count)]
    calls = [BufferServiceStub(channel).Replay(pb.ReplayRequest(sink="mass")) for channel in channels]
    try:
        yield
    finally:
        await left(calls, channels)


def channel_of(endpoint: str, number: int) -> grpc.aio.Channel:
    """Return a channel with a connection of its own, with a small window."""
    return grpc.aio.insecure_channel(endpoint, options=[*NARROW, ("grpc.channel_id", number)])


async def left(calls: Sequence[Any], channels: Sequence[grpc.aio.Channel]) -> None:
    """End calls and their connections."""
    for call in calls:
        call.cancel()
    for channel in channels:
        await channel.close()


def strangers(endpoint: str, count: int) -> list[socket.socket]:
    """Return connections that say nothing, or only begin HTTP/2; the broker may have closed some."""
    host, _, port = endpoint.rpartition(":")
    found: list[socket.socket] = []
    for number in range(count):
        stranger = socket.socket()
        stranger.settimeout(5)
        stranger.bind((f"127.0.0.{2 + number % ADDRESSES}", 0))
        try:
            stranger.connect((host, int(port)))
            if number % 2:
                stranger.sendall(PREFACE)
        except OSError:
            stranger.close()
            continue
        found.append(stranger)
    return found


async def worked(broker: BrokerProcess, load: Load) -> list[Row]:
    """Put everything on the broker and take it away again; returns what was seen."""
    endpoint, pid = broker.endpoint, broker.pid
    with Client(endpoint) as client:
        client.sinks.create("healthy")
        client.sinks.create("mass")
        for _ in range(16):
            client.publish("mass", [Record(b"x" * (MIB - 200))])
    base, files = resident_mib(pid), descriptors(pid)
    await make_sinks(endpoint, load.sinks)
    filled = resident_mib(pid)
    command = [sys.executable, "-m", "tests.fault.mass", "--beside", endpoint, "--seconds", str(load.seconds)]
    peak = 0
    async with publishing(endpoint, load.publishers), not_reading(endpoint, load.readers):
        idle = await asyncio.to_thread(strangers, endpoint, load.idle)
        await asyncio.sleep(3.0)  # the broker checks its connections once a second
        attack = (
            subprocess.Popen([*command, "--halves", str(load.halves), "--link", str(load.link)])
            if load.halves
            else None
        )
        beside = await asyncio.create_subprocess_exec(*command, "--halves", "0", stdout=subprocess.PIPE)
        saying = asyncio.ensure_future(beside.communicate())
        while not saying.done():
            peak = max(peak, resident_mib(pid))
            await asyncio.wait([saying], timeout=0.25)
        found = json.loads((await saying)[0])
        for stranger in idle:
            stranger.close()
        if attack is not None:
            await asyncio.to_thread(attack.wait)
    went = time.monotonic()
    while descriptors(pid) > files + 300 and time.monotonic() - went < 2 * RETURNED_MAX_S:
        await asyncio.sleep(0.5)
    returned = time.monotonic() - went
    while resident_mib(pid) > filled + RETAINED_MAX_MIB and time.monotonic() - went < 2 * RETURNED_MAX_S:
        await asyncio.sleep(0.5)
    freed = time.monotonic() - went
    return [
        Row("resident above the base", peak - base, RESIDENT_MAX_MIB, "MiB"),
        Row("healthy client, p99", found["p99_ms"], HEALTHY_P99_MAX_MS, "ms"),
        Row("healthy client, failed calls", found["failed"], 0, ""),
        Row("connections given back after", returned, RETURNED_MAX_S, "s"),
        Row("memory given back after", freed, RETURNED_MAX_S, "s"),
    ]


def run(load: Load, directory: Path) -> list[Row]:
    """Measure; returns the table."""
    began = time.monotonic()
    with serve_command(directory / "data") as broker:
        broker.ready()
        empty = time.monotonic() - began
        rows = asyncio.run(worked(broker, load))
        broker.kill()
    began = time.monotonic()
    with serve_command(directory / "data") as broker:
        broker.ready()
        again = time.monotonic() - began
        rows.append(Row("start after a kill, more than empty", max(0.0, again - empty), RESTART_MAX_S, "s"))
        rows.append(Row("exit code of a stop", broker.terminate(120.0), 0, ""))
    if not all(row.ok for row in rows):
        print(broker.log.read_text(errors="replace")[-LOG_SHOWN:], file=sys.stderr)
    return rows


def main() -> int:
    """The command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.fault.mass", description=__doc__)
    parser.add_argument("--idle", type=int, default=10_000)
    parser.add_argument("--readers", type=int, default=1_000)
    parser.add_argument("--publishers", type=int, default=1_000)
    parser.add_argument("--halves", type=int, default=60)
    parser.add_argument("--link", type=float, default=125.0, help="MB/s of incomplete requests")
    parser.add_argument("--sinks", type=int, default=9_000)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--beside", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    load = Load(*(given.idle, given.readers, given.publishers, given.halves, given.link, given.sinks, given.seconds))
    if given.beside:
        if given.halves:
            halves(given.beside, load)
        else:
            healthy(given.beside, given.seconds)
        return 0
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory(prefix="forebay-mass-") as directory:
        rows = run(load, Path(directory))
    for row in rows:
        print(f"{row.what:36} {row.value:10.1f} {row.unit:4} at most {row.bound:g}  {'ok' if row.ok else 'MISSED'}")
    return 0 if all(row.ok for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
