"""Cost of many sinks: the same rate of records into one sink, or spread over a thousand.

Records come one by one, evenly spaced, each a call of its own; every sink has a consumer that acks what it is given.
The client speaks the wire's messages on one loop, because a thousand of the library's subscribers would have more to do
than the broker that is measured. What is compared is the processor time of the broker's process.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from statistics import median
from typing import Any, Final

import grpc.aio
import uvloop

from forebay.client import Client
from forebay.v1 import buffer_service_pb2 as pb
from forebay.v1 import record_pb2
from forebay.v1.buffer_service_pb2_grpc import BufferServiceStub
from tests.bench.processes import Child, broker
from tests.bench.values import Bar, Row, Sample, Sense, row_of

SINKS: Final = 1_000
RECORDS_PER_S: Final = 200
"""Over all sinks: one of a thousand gets a record every five seconds."""

VALUE: Final = bytes(256)
SECONDS: Final = (20.0, 8.0)
"""Measured in full, and quickly; every sink has had a record before that."""

BAR: Final = 2.0


class Load:
    """Publishes to some sinks and consumes them."""

    def __init__(self, endpoint: str, sinks: int) -> None:
        self._endpoint = endpoint
        self._sinks = [f"trickle-{number}" for number in range(sinks)]
        self.acked = 0

    async def run(self, process: Child, seconds: float) -> Sample:
        """Warm up, measure."""
        async with grpc.aio.insecure_channel(self._endpoint) as channel:
            stub: Any = BufferServiceStub(channel)
            consumers = [asyncio.create_task(self._consume(stub, name)) for name in self._sinks]
            await self._publish(stub, len(self._sinks) / RECORDS_PER_S + 2.0)
            before, begun, acked = process.cost(), time.perf_counter(), self.acked
            sent = await self._publish(stub, seconds)
            took, cost = time.perf_counter() - begun, process.cost_since(before)
            if self.acked - acked < sent * 0.9:
                raise RuntimeError(f"{sent} records were sent, {self.acked - acked} acked")
            for one in consumers:
                one.cancel()
            await asyncio.gather(*consumers, return_exceptions=True)
        return Sample(sent, sent * len(VALUE), took, cost)

    async def _publish(self, stub: Any, seconds: float) -> int:
        """Send records evenly, each to the next sink; returns how many."""
        begun, calls = time.perf_counter(), []
        for number in range(int(seconds * RECORDS_PER_S)):
            await asyncio.sleep(max(0.0, begun + number / RECORDS_PER_S - time.perf_counter()))
            sink = self._sinks[number % len(self._sinks)]
            request = pb.PublishBatchRequest(sink=sink, records=[record_pb2.Record(value=VALUE)])
            calls.append(asyncio.ensure_future(stub.PublishBatch(request)))
        await asyncio.gather(*calls)
        return len(calls)

    async def _consume(self, stub: Any, sink: str) -> None:
        acks: asyncio.Queue[pb.DeliverRequest] = asyncio.Queue()

        async def requests() -> AsyncIterator[pb.DeliverRequest]:
            credit = pb.Credit(records=1_000, bytes=1 << 20)
            yield pb.DeliverRequest(open=pb.DeliverOpen(sink=sink, consumer_id="one", credit=credit))
            while True:
                yield await acks.get()

        async for response in stub.Deliver(requests()):
            if response.HasField("delivery"):
                delivery = response.delivery
                self.acked += sum(one.last_offset - one.first_offset + 1 for one in delivery.ranges)
                ack = pb.AckRanges(
                    partition=delivery.partition,
                    owner_epoch=delivery.owner_epoch,
                    revision=delivery.revision,
                    ranges=delivery.ranges,
                )
                acks.put_nowait(pb.DeliverRequest(ack=ack))


def measure(
    folder: Path, *, rounds: int, quick: bool, rows: list[Row], bars: list[Bar], say: Callable[[str], None]
) -> None:
    """Compare one sink with a thousand, round by round."""
    seconds = SECONDS[1] if quick else SECONDS[0]
    found: dict[int, list[Sample]] = {1: [], SINKS: []}
    for number in range(rounds):
        for sinks, samples in found.items():
            say(f"{sinks} sinks, round {number + 1} of {rounds}")
            with broker(folder / f"trickle-{sinks}-{number}", folder / "broker.log") as (process, endpoint):
                with Client(endpoint) as client:
                    for index in range(sinks):
                        client.sinks.create(f"trickle-{index}")
                samples.append(uvloop.run(Load(endpoint, sinks).run(process, seconds)))
    for sinks, samples in found.items():
        rows.append(row_of(f"trickle, {sinks:,} sinks", samples, record_bytes=len(VALUE)))
        used = median(one.cost.processor_s / one.seconds for one in samples if one.cost is not None)
        say(f"{sinks} sinks: {used:.3f} of a processor at {RECORDS_PER_S} records a second")
    ratios = [
        many.cost.processor_s / one.cost.processor_s
        for one, many in zip(found[1], found[SINKS], strict=True)
        if one.cost is not None and many.cost is not None
    ]
    name = f"processor time of {SINKS:,} sinks / one, {RECORDS_PER_S} records/s in all"
    bars.append(Bar(name, median(ratios), BAR, Sense.AT_MOST))
