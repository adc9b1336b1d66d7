"""A restart with a backlog: how long until the first record is delivered, cold, and how much memory it takes.

Two backlogs: one of large pages, one of very many that hold a record each. What is on disk is dropped from the
system's cache first. ``python -m tests.bench.restart DIRECTORY`` is the process that starts: it imports everything,
says so, waits for a line, and then opens the store.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

from forebay.broker.core.partition.pages import Encoding, Incoming
from forebay.broker.embedded import BrokerServer
from forebay.broker.runtime.commit.group import Append
from forebay.broker.settings import load
from forebay.client import Client
from forebay.client.publish.pages import encode_columns
from tests.bench import disk
from tests.bench.processes import child
from tests.bench.values import GIB, MIB, Bar, Row, Sample, Sense

SINK: Final = "backlog"
LARGE_BYTES: Final = 10_000_000_000
SMALL_PAGES: Final = 2_000_000
QUICK: Final = 20
"""Divisor of the backlogs in a quick run; the limits stay."""
UNDER_WAY: Final = 4_096
UNDER_WAY_BYTES: Final = 64 * MIB
"""Appends that wait for their sync while a backlog is written."""
SHARE_BAR: Final = 1 / 20
"""Of the time that reading as much as the large backlog takes."""
MEMORY_BAR_MIB: Final = 400.0


def measure(folder: Path, *, quick: bool, rows: list[Row], bars: list[Bar], say: Callable[[str], None]) -> None:
    """Measure both backlogs in ``folder``, which is emptied again."""
    part = QUICK if quick else 1
    large, small = encode_columns([os.urandom(1024)] * 1_000), encode_columns([os.urandom(100)])
    backlogs = [
        ("pages of 1 MiB", Incoming(0, Encoding.RECORDS, 1_000, large.crc32, large.body), LARGE_BYTES // part // MIB),
        ("pages of one record", Incoming(0, Encoding.RECORDS, 1, small.crc32, small.body), SMALL_PAGES // part),
    ]
    allowed_s = 0.0
    for name, page, pages in backlogs:
        place = folder / "restart"
        say(f"writing {pages:,} {name}")
        asyncio.run(_fill(place, page, pages))
        files = [path for path in place.rglob("*") if path.is_file()]
        _drop_from_cache(files)
        if not allowed_s:
            reading = _read(files)
            rows.append(Row("reading the backlog's files, cold", mb_per_s=reading.bytes_per_s / 1e6))
            allowed_s = LARGE_BYTES / reading.bytes_per_s * SHARE_BAR
            _drop_from_cache(files)
        say(f"starting with {pages:,} {name}")
        first_s, memory_mib = _start(place, folder / "restart.log")
        shutil.rmtree(place)
        rows.append(Row(f"first record after a restart, {pages:,} {name}", p50_ms=first_s * 1e3, memory_mib=memory_mib))
        bars.append(Bar(f"restart / 1/20 of reading, {name}", first_s / allowed_s, 1.0, Sense.AT_MOST))
        bars.append(Bar(f"memory after a restart in MiB, {name}", memory_mib, MEMORY_BAR_MIB, Sense.AT_MOST))


async def _fill(place: Path, page: Incoming, pages: int) -> None:
    """Append the same page ``pages`` times, past gRPC, to a broker's sink."""
    with BrokerServer.on_disk(load(data_dir=place, listen="127.0.0.1:0")) as server:
        with Client(server.endpoint) as client:
            client.sinks.create(SINK, buffer_page_size=1, max_total_bytes=4 * LARGE_BYTES + GIB, max_disk_cache=0)
        assert server.serving is not None
        assert server.loop is not None
        buffer = server.serving.broker.sink(SINK)

        async def append() -> None:
            waiting: deque[Append] = deque()
            for _ in range(pages):
                waiting.append(await buffer.append(page))
                if len(waiting) > min(UNDER_WAY, UNDER_WAY_BYTES // len(page.body)):
                    await waiting.popleft().done
            for one in waiting:
                await one.done

        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(append(), server.loop))


def _drop_from_cache(files: list[Path]) -> None:
    os.sync()
    for path in files:
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def _read(files: list[Path]) -> Sample:
    found = [disk.read_cold(path) for path in files]
    return Sample(
        sum(one.records for one in found), sum(one.payload_bytes for one in found), sum(one.seconds for one in found)
    )


def _start(place: Path, log: Path) -> tuple[float, float]:
    """Seconds until the first record, and the memory that the process had at most."""
    with child("tests.bench.restart", str(place), log=log) as process:
        process.report()
        process.say("go")
        return float(process.report()["first_s"]), process.memory_peak_mib()


def main(place: str) -> None:
    """Start on a directory, on request, and deliver one record."""
    print(json.dumps({"ready": True}), flush=True)
    sys.stdin.readline()
    begun = time.perf_counter()
    with BrokerServer.on_disk(load(data_dir=Path(place), listen="127.0.0.1:0")) as server:
        with Client(server.endpoint) as client, client.subscriber(SINK, credit_records=1) as subscriber:
            delivery = subscriber.take(600)
            if delivery is None or delivery.first_offset != 0 or not delivery.values():
                raise RuntimeError(f"the first record was not delivered, but {delivery}")
            print(json.dumps({"first_s": time.perf_counter() - begun}), flush=True)
        sys.stdin.readline()


if __name__ == "__main__":
    main(sys.argv[1])
