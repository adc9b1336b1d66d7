"""Many callers of a record each: threads and tasks that wait for receipts, and a thousand publishers.

The thousand send a record a second each. They speak the wire's messages on one loop, because a thousand of the
library's publishers would have more to do than the broker that is measured. Their figure is the processor time of the
broker's process per record.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final

import grpc.aio
import uvloop

from forebay.client import Client, Record, aio
from forebay.client.publish.pages import encode_columns, frame_publish_page
from forebay.v1 import buffer_service_pb2 as pb
from tests.bench.processes import Child, broker
from tests.bench.values import Bar, Row, Sample, Sense, row_of

CALLERS: Final = 64
RECORDS: Final = (400, 100)
"""Of each caller, in full, and quickly."""
WARM: Final = 20
SINGLES: Final = 400
PUBLISHERS: Final = 1_000
CONNECTIONS: Final = 100
SECONDS: Final = (10.0, 4.0)
VALUE: Final = os.urandom(256)
CALLERS_BARS: Final = {"publisher": 5.0, "call": 2.0, "asyncio": 5.0}
"""At least so many times the records of one caller."""
COST_BARS: Final = {f"{CALLERS} callers, publisher": 0.25, f"{PUBLISHERS:,} publishers": 1.0}
"""At most so much processor time per record, beside one caller."""
METHOD: Final = "/forebay.v1.BufferService/Publish"


def together(send: Callable[[], object], count: int, process: Child, callers: int = CALLERS) -> Sample:
    """Let threads send ``count`` records each, one after the other."""
    gate = threading.Barrier(callers + 1)

    def run() -> None:
        gate.wait()
        for _ in range(count):
            send()

    with ThreadPoolExecutor(callers) as threads:
        running = [threads.submit(run) for _ in range(callers)]
        before = process.cost()
        gate.wait()
        begun = time.perf_counter()
        for one in running:
            one.result()
        took = time.perf_counter() - begun
    total = callers * count
    return Sample(total, total * len(VALUE), took, process.cost_since(before))


async def tasks_together(endpoint: str, sink: str, count: int, process: Child, callers: int) -> Sample:
    """Let tasks of one event loop send ``count`` records each, one after the other."""
    async with aio.Client(endpoint) as client, await client.publisher(sink) as publisher:

        async def run(records: int) -> None:
            for _ in range(records):
                await publisher.send_and_wait(VALUE)

        await asyncio.gather(*(run(WARM) for _ in range(callers)))
        before, begun = process.cost(), time.perf_counter()
        await asyncio.gather(*(run(count) for _ in range(callers)))
        took, cost = time.perf_counter() - begun, process.cost_since(before)
    return Sample(callers * count, callers * count * len(VALUE), took, cost)


@dataclass(slots=True)
class Publisher:
    """One of many publishers: a stream, and the times of its records."""

    call: Any
    taken: list[float]

    async def run(self, start: float, records: int) -> None:
        """Send a record a second from ``start`` on, and wait for each receipt."""
        for number in range(records):
            await asyncio.sleep(max(0.0, start + number - time.perf_counter()))
            begun = time.perf_counter()
            await self.call.write(frame_publish_page(0, number, encode_columns([VALUE]), ""))
            answer = await self.call.read()
            if answer.WhichOneof("response") not in {"answer", "answers"} or answer.answer.HasField("refusal"):
                raise RuntimeError(f"no receipt: {answer}")
            self.taken.append(time.perf_counter() - begun)


async def many(endpoint: str, sink: str, process: Child, seconds: float) -> tuple[Sample, list[float]]:
    """Run a thousand publishers; the cost of the broker, and the seconds of each record."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    async with AsyncExitStack() as stack:
        channels = [
            await stack.enter_async_context(grpc.aio.insecure_channel(endpoint, options=options))
            for _ in range(CONNECTIONS)
        ]
        publishers = [await _opened(channels[number % CONNECTIONS], sink, number) for number in range(PUBLISHERS)]
        before, start = process.cost(), time.perf_counter() + 0.2
        spread = [start + number / PUBLISHERS for number in range(PUBLISHERS)]
        running = zip(publishers, spread, strict=True)
        await asyncio.gather(*(publisher.run(first, int(seconds)) for publisher, first in running))
        took, cost = time.perf_counter() - start, process.cost_since(before)
        for publisher in publishers:
            publisher.call.cancel()
    taken = [one for publisher in publishers for one in publisher.taken]
    return Sample(len(taken), len(taken) * len(VALUE), took, cost), taken


async def _opened(channel: grpc.aio.Channel, sink: str, number: int) -> Publisher:
    call: Any = channel.stream_stream(METHOD, response_deserializer=pb.PublishResponse.FromString)()
    opening = pb.PublishOpen(sink=sink, writer_id=f"publisher-{number}", answers_together=True)
    await call.write(pb.PublishRequest(open=opening).SerializeToString())
    await call.read()
    return Publisher(call, [])


def measure(
    folder: Path, *, rounds: int, quick: bool, rows: list[Row], bars: list[Bar], say: Callable[[str], None]
) -> None:
    """Measure 64 threads beside one, by publisher and by call, and a thousand publishers beside them."""
    count, seconds = RECORDS[quick], SECONDS[quick]
    found: dict[str, list[Sample]] = {}
    taken: list[float] = []
    with broker(folder / "callers", folder / "broker.log") as (process, endpoint), Client(endpoint) as client:
        for sink in ("callers", "many"):
            client.sinks.create(sink)
        records = [Record(VALUE)]
        for number in range(rounds):
            say(f"{CALLERS} callers, round {number + 1} of {rounds}")
            with client.publisher("callers") as publisher:
                ways: dict[str, Callable[[], object]] = {
                    "publisher": lambda: publisher.send(VALUE).result(),
                    "call": lambda: client.publish("callers", records),
                }
                for way, send in ways.items():
                    together(send, WARM, process)
                    found.setdefault(f"one caller, {way}", []).append(together(send, SINGLES, process, 1))
                    found.setdefault(f"{CALLERS} callers, {way}", []).append(together(send, count, process))
            for callers, each in ((1, SINGLES), (CALLERS, count)):
                name = f"{'one caller' if callers == 1 else f'{callers} callers'}, asyncio"
                sample = asyncio.run(tasks_together(endpoint, "callers", each, process, callers))
                found.setdefault(name, []).append(sample)
            say(f"{PUBLISHERS:,} publishers, round {number + 1} of {rounds}")
            sample, times = uvloop.run(many(endpoint, "many", process, seconds))
            found.setdefault(f"{PUBLISHERS:,} publishers", []).append(sample)
            taken += times
    for name, samples in found.items():
        say(f"{name}: {median(map(_cost_ms, samples)):.3f} ms of a processor per record")
        row = row_of(name, samples, record_bytes=len(VALUE))
        if name == f"{PUBLISHERS:,} publishers":
            cuts = quantiles(taken, n=100, method="inclusive")
            row = replace(row, p50_ms=cuts[49] * 1e3, p99_ms=cuts[98] * 1e3)
        rows.append(row)
    _bars(found, bars)


def _bars(found: dict[str, list[Sample]], bars: list[Bar]) -> None:
    for way, bar in CALLERS_BARS.items():
        pairs = list(zip(found[f"{CALLERS} callers, {way}"], found[f"one caller, {way}"], strict=True))
        ratio = median(many.records_per_s / one.records_per_s for many, one in pairs)
        bars.append(Bar(f"records/s of {CALLERS} callers / one, {way}", ratio, bar))
    ones = found["one caller, publisher"]
    for name, bar in COST_BARS.items():
        pairs = list(zip(found[name], ones, strict=True))
        ratio = median(_cost_ms(many) / _cost_ms(one) for many, one in pairs)
        bars.append(Bar(f"broker's processor time per record, {name} / one", ratio, bar, Sense.AT_MOST))


def _cost_ms(sample: Sample) -> float:
    assert sample.cost is not None
    return sample.cost.processor_s / sample.records * 1e3
