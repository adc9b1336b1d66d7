"""Latency of other users: single records into their own sink, published, delivered and acked.

The longest wait of the publisher is that for a receipt; of the consumer, that from the receipt to the delivery.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import grpc.aio

from forebay.v1 import buffer_service_pb2 as pb
from forebay.v1 import record_pb2
from forebay.v1.buffer_service_pb2_grpc import BufferServiceStub

SINK: Final = "neighbours"
PAUSE_S: Final = 0.005
"""Between two records."""
VALUE: Final = bytes(256)


class Neighbours:
    """A publisher and a consumer beside what is measured."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub: Any = BufferServiceStub(channel)
        self._received: asyncio.Queue[int] = asyncio.Queue()
        self._acks: asyncio.Queue[pb.DeliverRequest] = asyncio.Queue()
        self.publish_s: list[float] = []
        """Waits for receipts."""
        self.deliver_s: list[float] = []
        """Waits for deliveries, from the receipt on."""

    async def publish(self) -> None:
        """Publish, and wait until it is delivered, for ever."""
        request = pb.PublishBatchRequest(sink=SINK, records=[record_pb2.Record(value=VALUE)])
        while True:
            begun = time.perf_counter()
            response = await self._stub.PublishBatch(request)
            stored = time.perf_counter()
            offset = response.receipts[0].first_offset
            while await self._received.get() < offset:
                pass
            self.publish_s.append(stored - begun)
            self.deliver_s.append(time.perf_counter() - stored)
            await asyncio.sleep(PAUSE_S)

    async def consume(self) -> None:
        """Take and ack, for ever."""
        async for response in self._stub.Deliver(self._requests()):
            if response.HasField("delivery"):
                found = response.delivery
                self._received.put_nowait(max(one.last_offset for one in found.ranges))
                ack = pb.AckRanges(
                    partition=found.partition,
                    owner_epoch=found.owner_epoch,
                    revision=found.revision,
                    ranges=found.ranges,
                )
                self._acks.put_nowait(pb.DeliverRequest(ack=ack))

    async def _requests(self) -> AsyncIterator[pb.DeliverRequest]:
        credit = pb.Credit(records=1_000, bytes=1 << 20)
        yield pb.DeliverRequest(open=pb.DeliverOpen(sink=SINK, consumer_id="neighbour", credit=credit))
        while True:
            yield await self._acks.get()


@asynccontextmanager
async def beside(channel: grpc.aio.Channel) -> AsyncIterator[Neighbours]:
    """Neighbours at work, from their first record on."""
    found = Neighbours(channel)
    tasks = [asyncio.create_task(found.consume()), asyncio.create_task(found.publish())]
    try:
        while not found.deliver_s and not any(task.done() for task in tasks):
            await asyncio.sleep(PAUSE_S)
        yield found
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    failed = [one for one in ended if not isinstance(one, asyncio.CancelledError)]
    if failed:
        raise RuntimeError(f"a neighbour ended: {failed!r}")
