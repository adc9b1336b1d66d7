"""Deliver stream: sends records up to the credit, and reads answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Final

import grpc.aio

from forebay.broker.core.errors import BrokerError, InvalidValue, quoted
from forebay.broker.core.names import ID_FORM, is_id
from forebay.broker.core.settings import Ordering
from forebay.broker.rpc import convert
from forebay.broker.rpc.buffer.answers import Results, acked, extended, in_message, nacked
from forebay.broker.rpc.buffer.first_message import first_message
from forebay.broker.rpc.pages import frames
from forebay.broker.runtime.broker import Broker
from forebay.broker.runtime.delivery.consumer import Consumer, Credit, Unsent
from forebay.broker.runtime.delivery.events import Answered, Assigned, Delivered, Event, GapMet, Pinged, Revoked
from forebay.broker.runtime.delivery.liveness import StreamLiveness
from forebay.broker.runtime.delivery.subscription import Subscription
from forebay.broker.runtime.resources.streams import CreditUse, OpenStream
from forebay.errors.reasons import Reason
from forebay.state.numbers import plural
from forebay.v1 import buffer_service_pb2 as pb
from forebay.v1 import record_pb2

RECORDS_MAX: Final = 10_000_000
BYTES_MAX: Final = 1 << 30
ANSWERS_MAX: Final = 10_000
"""Acks and nacks of one stream with pending results; above the bound nothing more is read from it."""
RESULTS_MAX: Final = 20_000
"""Unread results of one stream, one per range; above the bound nothing more is read from it."""
RESULTS_AT_EASE: Final = 256
"""Unread results of one stream that are allowed whatever the other streams hold."""
RESULT_BYTES: Final = 256
"""Memory of a pending result."""

PROGRAM_MAX: Final = 128
"""Characters of the name of a consumer's program."""


class DeliverStream:
    """Serves one call of `Deliver`."""

    def __init__(self, broker: Broker, context: Any, stream: OpenStream) -> None:
        self._broker = broker
        self._context = context
        self._stream = stream
        self._outbox: asyncio.Queue[tuple[Event, int]] = asyncio.Queue()
        """Events to send, each with the number of results that it carries."""
        self._unsent = Unsent()
        self._answers: asyncio.Queue[tuple[int, Awaitable[Results]]] = asyncio.Queue(ANSWERS_MAX)
        self._pending_results = 0
        """Results that are pending or unread, one per range of the answers."""
        self._taken = asyncio.Event()
        self._memory = stream.memory = broker.stream_memory.share(self._wake)
        self._consumer: Consumer | None = None
        self._closed_by_consumer = False
        """True if the consumer has ended the stream: it has not vanished."""

    async def serve(self) -> None:
        """Serve until the consumer ends the stream, or raise the reason of its end."""
        with self._memory:
            await self._serve()

    def _wake(self) -> None:
        if self._consumer is not None:
            self._consumer.wakeup.set()

    async def _serve(self) -> None:
        request = await first_message(self._context)
        if request is grpc.aio.EOF or request.WhichOneof("request") != "open":
            raise BrokerError(Reason.INVALID_OPEN, "the first message must be `open`", field="open")
        opening = request.open
        if not is_id(opening.consumer_id):
            raise InvalidValue(Reason.INVALID_OPEN, "open.consumer_id", quoted(opening.consumer_id), ID_FORM)
        if len(opening.program) > PROGRAM_MAX or not (opening.program.isascii() and opening.program.isprintable()):
            allowed = f"up to {PROGRAM_MAX} printable ASCII characters"
            raise InvalidValue(Reason.INVALID_OPEN, "open.program", quoted(opening.program), allowed)
        self._broker.check_serving()
        buffer = self._broker.sink(opening.sink, opening.incarnation)
        subscription = buffer.subscription(opening.subscription, opening.subscription_incarnation)
        credit = _credit(opening.credit)
        opened = pb.DeliverOpened(
            incarnation=buffer.record.incarnation,
            subscription_incarnation=subscription.record.incarnation,
            partitions=len(buffer.logs),
            ack_deadline=convert.duration(buffer.settings.ack_deadline_us),
            ordering=convert.ordering(relaxed=buffer.settings.ordering == Ordering.RELAXED),
        )
        await self._context.write(pb.DeliverResponse(opened=opened))
        consumer = subscription.join(opening.consumer_id, credit, self._put)
        consumer.unsent = self._unsent
        consumer.memory = self._memory
        self._consumer = consumer
        stream = self._stream
        stream.sink, stream.client_id = opening.sink, opening.consumer_id
        stream.subscription, stream.program = subscription.name, opening.program
        stream.credit = lambda: CreditUse(consumer.usage.records, consumer.credit.records)
        if opening.answers_pings:
            consumer.session = StreamLiveness(self._broker.bounds.session_timeout_s, self._broker.clock.monotonic())
        tasks = [
            asyncio.ensure_future(self._read(subscription, consumer)),
            asyncio.ensure_future(consumer.pump()),
            asyncio.ensure_future(self._send(consumer)),
            asyncio.ensure_future(self._forward_results()),
            asyncio.ensure_future(self._broker.ended()),
            asyncio.ensure_future(buffer.state.gone.wait()),
            asyncio.ensure_future(self._memory.shed.wait()),
        ]
        *_, ended, gone, shed = tasks
        orderly = False
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            # Records in flight at an end without a fault of the consumer have not failed.
            orderly = self._closed_by_consumer or not done.isdisjoint((ended, gone, shed))
            for task in done:
                await task
            if self._memory.shed.is_set():
                raise BrokerError(Reason.READER_TOO_SLOW, held=self._memory.held)
            self._broker.check_serving()
            self._broker.sink(opening.sink, buffer.record.incarnation)
        finally:
            subscription.leave(consumer, orderly=orderly)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self, subscription: Subscription, consumer: Consumer) -> None:
        while True:
            await self._room_for_results()
            request = await self._context.read()
            consumer.note_message()
            kind = "close" if request is grpc.aio.EOF else request.WhichOneof("request")
            if kind == "ack":
                results = self._count_results(request.ack)
                await self._answers.put((results, await acked(subscription, request.ack)))
            elif kind == "nack":
                results = self._count_results(request.nack)
                await self._answers.put((results, await nacked(subscription, request.nack)))
            elif kind == "extend":
                await extended(subscription, request.extend)
            elif kind == "close":
                self._closed_by_consumer = request is not grpc.aio.EOF
                consumer.credit = Credit(0, 0)  # nothing more is sent
                await self._answers.join()
                await self._outbox.join()
                return
            elif kind == "pong":
                pass  # it only proves that the consumer is alive
            elif kind == "credit":
                consumer.credit = _credit(request.credit)
            else:
                raise BrokerError(Reason.INVALID_OPEN, "`open` came twice, or the message is empty", field="request")
            consumer.wakeup.set()

    async def _room_for_results(self) -> None:
        """Wait until the peer has read enough of its pending results."""
        while self._pending_results >= RESULTS_MAX:
            self._taken.clear()
            await self._taken.wait()
        if self._pending_results >= RESULTS_AT_EASE:
            await self._memory.settled()

    def _count_results(self, answer: pb.AckRanges | pb.NackRanges) -> int:
        """Count the results of an answer."""
        count = max(1, len(answer.ranges))
        self._pending_results += count
        self._memory.acquire(count * RESULT_BYTES)
        return count

    async def _forward_results(self) -> None:
        while True:
            count, answered = await self._answers.get()
            self._outbox.put_nowait((Answered(await answered), count))
            self._answers.task_done()

    def _put(self, event: Event) -> None:
        """Queue an event to send; queued events use credit."""
        self._count(event, 1)
        self._outbox.put_nowait((event, 0))

    def _count(self, event: Event, sign: int) -> None:
        if isinstance(event, Delivered):
            self._unsent.records += sign * sum(part.size for part in event.ranges)
            self._unsent.size += sign * event.size
        elif isinstance(event, GapMet):
            self._unsent.records += sign
            self._unsent.size += sign * RESULT_BYTES

    async def _send(self, consumer: Consumer) -> None:
        while True:
            event, results = await self._outbox.get()
            session, now = consumer.session, self._broker.clock.monotonic
            if session is not None:
                session.writes(now())
            await self._context.write(await _message(event))
            if session is not None:
                session.wrote(now(), ping=isinstance(event, Pinged))
            self._outbox.task_done()
            self._count(event, -1)
            if isinstance(event, Delivered):
                self._memory.release_pages(event.size)
                self._stream.count(sum(part.size for part in event.ranges), event.size)
            if isinstance(event, Delivered | GapMet):
                consumer.wakeup.set()
            if results:
                self._pending_results -= results
                self._memory.release(results * RESULT_BYTES)
                self._taken.set()


def _credit(credit: pb.Credit) -> Credit:
    if credit.records > RECORDS_MAX or credit.bytes > BYTES_MAX:
        records, size = plural(credit.records, "record"), plural(credit.bytes, "byte")
        given = f"{credit.records} {records} and {credit.bytes} {size}"
        raise InvalidValue(Reason.INVALID_CREDIT, "credit", given, f"up to {RECORDS_MAX} records and {BYTES_MAX} bytes")
    return Credit(credit.records, credit.bytes)


async def _message(event: Event) -> pb.DeliverResponse | bytes:
    match event:
        case Delivered():
            return frames.delivery(_delivery(event), event.pages)
        case Revoked(partition, first_message, revision):
            return pb.DeliverResponse(
                revoked=pb.Revoked(partition=partition, from_offset=first_message, revision=revision)
            )
        case GapMet(partition, found):
            return pb.DeliverResponse(gap=convert.gap(partition, found))
        case Answered(results):
            return pb.DeliverResponse(results=pb.Results(results=await in_message(results)))
        case Assigned(partitions):
            assigned = [
                pb.AssignedPartition(partition=partition, owner_epoch=epoch, revision=revision)
                for partition, epoch, revision in partitions
            ]
            return pb.DeliverResponse(assignment=pb.Assignment(partitions=assigned))
        case Pinged():
            return pb.DeliverResponse(ping=pb.Ping())


def _delivery(event: Delivered) -> pb.Delivery:
    """Return a delivery without its pages."""
    return pb.Delivery(
        partition=event.partition,
        owner_epoch=event.owner_epoch,
        revision=event.revision,
        ranges=[record_pb2.OffsetRange(first_offset=r.first, last_offset=r.end - 1) for r in event.ranges],
        attempts=[pb.Attempt(offset=offset, attempt=tries) for offset, tries in event.attempts],
        resend=event.resend,
        durability=convert.durability(event.durability),
        ordering=convert.ordering(relaxed=event.relaxed),
    )
