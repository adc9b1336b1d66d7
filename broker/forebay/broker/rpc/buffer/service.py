"""BufferService: the data path. Only converts and delegates."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from forebay.broker.core.errors import (
    BrokerError,
    InvalidPage,
    InvalidValue,
    SinkNotFound,
)
from forebay.broker.core.names import is_id
from forebay.broker.core.partition.pages import Body, Encoding, Entry
from forebay.broker.core.partition.ranges import Range
from forebay.broker.rpc import convert
from forebay.broker.rpc.buffer import batches
from forebay.broker.rpc.buffer.answers import Results, acked, extended, in_message, nacked
from forebay.broker.rpc.buffer.deliver_stream import DeliverStream
from forebay.broker.rpc.buffer.peek import peek
from forebay.broker.rpc.buffer.publish_stream import PublishStream
from forebay.broker.rpc.buffer.replay_stream import ReplayStream
from forebay.broker.rpc.pages import records
from forebay.broker.rpc.streams import open_stream
from forebay.broker.rpc.transport.answer_memory import AnswerMemory, HangUp, becomes
from forebay.broker.runtime.broker import Broker
from forebay.broker.runtime.delivery.events import Delivered
from forebay.broker.runtime.delivery.subscription import Subscription
from forebay.broker.runtime.publish.result import PublishResult
from forebay.broker.runtime.resources.streams import StreamKind
from forebay.broker.runtime.sink.buffer import Buffer
from forebay.errors.reasons import Reason
from forebay.v1 import buffer_service_pb2 as pb
from forebay.v1 import buffer_service_pb2_grpc as pb_grpc
from forebay.v1 import record_pb2

BATCH_RECORDS_MAX: Final = 65_536
LARGE_BATCH_RECORDS: Final = 500
"""Records of one call above which they are encoded in a thread."""
PULL_RECORDS: Final = (100, 10_000)
PULL_WAIT_US_MAX: Final = 60_000_000
PULL_BYTES: Final = 28 << 20
"""Bound of an answer's bytes, below that of a message. Only rows can reach it."""
LARGE_PAGE_BYTES: Final = 64 << 10
"""Size of a page above which its records are decoded in a thread."""
PULL_CONSUMER: Final = "pull"
ANSWERS_MAX: Final = 1_024

_T = TypeVar("_T")


class BufferServicer(pb_grpc.BufferServiceServicer):
    """The data path over gRPC."""

    def __init__(self, broker: Broker, hang_up: HangUp = lambda address: None) -> None:
        """``hang_up`` closes a connection whose peer does not read an answer."""
        self._broker = broker
        self._memory = AnswerMemory(broker.stream_memory, hang_up)
        self._turn = 0

    async def Publish(self, requests: object, context: Any) -> None:
        with open_stream(self._broker, StreamKind.PUBLISH, context) as stream:
            await PublishStream(self._broker, context, stream).serve()

    async def Deliver(self, requests: object, context: Any) -> None:
        with open_stream(self._broker, StreamKind.DELIVER, context) as stream:
            await DeliverStream(self._broker, context, stream).serve()

    async def PublishBatch(self, request: pb.PublishBatchRequest, context: Any) -> pb.PublishBatchResponse:
        self._broker.check_serving()
        buffer = self._broker.sink(request.sink, request.incarnation)
        if not 1 <= len(request.records) <= BATCH_RECORDS_MAX:
            raise InvalidPage(
                f"a call takes 1 to {BATCH_RECORDS_MAX} records, not {len(request.records)}", field="records"
            )
        receipts: list[record_pb2.Receipt] = []
        traceparent = convert.traceparent(context.invocation_metadata())
        self._turn += 1
        make = partial(
            batches.pages_of,
            request,
            len(buffer.logs),
            self._turn,
            record_bytes_max=self._broker.bounds.record_bytes,
            traceparent=traceparent,
        )
        is_large = len(request.records) > LARGE_BATCH_RECORDS
        made = await self._broker.pages.decode(make) if is_large else make()
        for partition, pages in made.items():
            for append in await buffer.append_all(pages):
                await append.done
                count = append.page.record_count
                level = buffer.tier.level(partition, append.first, append.first + count)
                stored = PublishResult(append.first, count, duplicate=False, durability=level)
                receipts.append(convert.receipt(request.sink, partition, stored))
        return pb.PublishBatchResponse(receipts=receipts)

    async def Pull(self, request: pb.PullRequest, context: Any) -> pb.PullResponse:
        self._broker.check_serving()
        buffer = self._broker.sink(request.sink, request.incarnation)
        subscription = buffer.subscription(request.subscription, request.subscription_incarnation)
        default, most = PULL_RECORDS
        wait_us = convert.duration_us(request.wait)
        consumer_id = request.consumer_id or PULL_CONSUMER
        if request.max_records > most or not 0 <= wait_us <= PULL_WAIT_US_MAX or not is_id(consumer_id):
            raise BrokerError(
                Reason.INVALID_PULL,
                f"max_records is up to {most}, wait 0 to 60 s, consumer_id 1 to 64 of [A-Za-z0-9._-]",
                field="request",
            )
        puller = subscription.pullers.get(consumer_id)
        memory = self._memory.of(context, puller.consumer.wakeup.set)
        with puller.answering() as call:
            taken = await self._unless_over(
                buffer, puller.pull(request.max_records or default, wait_us / 1_000_000, memory, call)
            )
            response = pb.PullResponse(
                incarnation=buffer.record.incarnation, subscription_incarnation=subscription.record.incarnation
            )
            room = PULL_BYTES
            for event in taken:
                if isinstance(event, Delivered):
                    delivered = await self._delivered(buffer, event, room)
                    room -= sum(record.ByteSize() for record in delivered)
                    response.records.extend(delivered)
                else:
                    response.gaps.append(convert.gap(event.partition, event.gap))
        becomes(memory, PULL_BYTES - room)
        return response

    async def _unless_over(self, buffer: Buffer, work: Coroutine[Any, Any, _T]) -> _T:
        """Return the result of ``work``, unless the broker ends its streams or the sink is deleted before."""
        working = asyncio.ensure_future(work)
        ends = [asyncio.ensure_future(self._broker.ended()), asyncio.ensure_future(buffer.state.gone.wait())]
        try:
            await asyncio.wait([working, *ends], return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                self._broker.check_serving()
                raise SinkNotFound(buffer.name)
            return working.result()
        finally:
            await _cancelled([working, *ends])

    def _subscription(self, request: pb.AckRequest | pb.NackRequest | pb.ExtendDeadlineRequest) -> Subscription:
        buffer = self._broker.sink(request.sink, request.incarnation)
        return buffer.subscription(request.subscription, request.subscription_incarnation)

    async def Ack(self, request: pb.AckRequest, context: Any) -> pb.AckResponse:
        self._broker.check_serving()
        subscription = self._subscription(request)
        _check_answers(len(request.acks))
        found = await _all([await acked(subscription, ack) for ack in request.acks])
        return pb.AckResponse(results=await in_message(found))

    async def Nack(self, request: pb.NackRequest, context: Any) -> pb.NackResponse:
        self._broker.check_serving()
        subscription = self._subscription(request)
        _check_answers(len(request.nacks))
        found = await _all([await nacked(subscription, nack) for nack in request.nacks])
        return pb.NackResponse(results=await in_message(found))

    async def ExtendDeadline(self, request: pb.ExtendDeadlineRequest, context: Any) -> pb.ExtendDeadlineResponse:
        subscription = self._subscription(request)
        _check_answers(len(request.extends))
        moved = [extend.partition for extend in request.extends if await extended(subscription, extend)]
        return pb.ExtendDeadlineResponse(partitions=moved)

    async def Replay(self, request: pb.ReplayRequest, context: Any) -> None:
        await ReplayStream(self._broker, context).serve(request)

    async def Peek(self, request: pb.PeekRequest, context: Any) -> pb.PeekResponse:
        return await peek(self._broker, request, self._memory.of(context))

    async def _delivered(self, buffer: Buffer, event: Delivered, room: int) -> list[pb.DeliveredRecord]:
        tries = dict(event.attempts)
        delivered: list[pb.DeliveredRecord] = []
        for wanted in event.ranges:
            for entry, body in event.pages:
                if entry.end <= wanted.first or wanted.end <= entry.base:
                    continue
                for found in await self._placed(buffer, entry, body, wanted):
                    room -= found.size
                    if room < 0:
                        raise BrokerError(
                            Reason.INVALID_PULL,
                            f"the records become more than {PULL_BYTES} bytes: pull fewer with max_records, or take "
                            "their pages with Deliver",
                            field="max_records",
                        )
                    delivered.append(
                        pb.DeliveredRecord(
                            partition=event.partition,
                            offset=found.offset,
                            record=found.record,
                            accepted_at=convert.timestamp(found.accepted_at_us),
                            attempt=tries.get(found.offset, 0),
                            resend=event.resend,
                            owner_epoch=event.owner_epoch,
                            revision=event.revision,
                        )
                    )
        return delivered

    async def _placed(self, buffer: Buffer, entry: Entry, body: Body, within: Range) -> Iterable[records.Placed]:
        """Return the records of a page one by one; a large page is decoded in a thread."""
        found = records.placed(entry, body, within, buffer.schemas.stored)
        if entry.encoding == Encoding.ARROW or entry.size > LARGE_PAGE_BYTES:
            return await self._broker.pages.decode(list, found)
        return found


async def _cancelled(tasks: Sequence[asyncio.Future[Any]]) -> None:
    """Cancel the unfinished tasks, and return when all have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _check_answers(count: int) -> None:
    if not 1 <= count <= ANSWERS_MAX:
        raise InvalidValue(Reason.INVALID_RANGE, "request", f"{count} answers", f"1 to {ANSWERS_MAX}")


async def _all(answers: list[Awaitable[Results]]) -> Results:
    return tuple(result for results in await asyncio.gather(*answers) for result in results)
