"""Publish stream: reads pages, and answers them in the order of arrival."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import grpc.aio

from forebay.broker.core.epochs.values import checked_application, checked_token
from forebay.broker.core.errors import BrokerError, Draining, InvalidValue, StoreFenced, WriterFenced, quoted
from forebay.broker.core.names import ID_FORM, is_id
from forebay.broker.core.publish.writer import WINDOW
from forebay.broker.rpc import convert
from forebay.broker.rpc.buffer.first_message import first_message
from forebay.broker.rpc.epochs import convert as epochs
from forebay.broker.rpc.pages.bounds import bounded_rows, count_records
from forebay.broker.rpc.pages.requests import PageRequest
from forebay.broker.rpc.requests.numbers import NUMBER_MAX
from forebay.broker.rpc.status import status_of
from forebay.broker.runtime.broker import Broker
from forebay.broker.runtime.epochs.stage import StageSession
from forebay.broker.runtime.publish.result import PublishResult
from forebay.broker.runtime.publish.writers import WriterSession
from forebay.broker.runtime.resources.stream_memory import Share
from forebay.broker.runtime.resources.streams import OpenStream
from forebay.broker.runtime.sink.schemas import Schemas
from forebay.errors.reasons import Reason
from forebay.page.crc32 import crc32
from forebay.page.format import PAGE_BYTES_MAX, Bytes
from forebay.v1 import buffer_service_pb2 as pb

IN_FLIGHT_BYTES_MAX: Final = 64 << 20
"""Bytes of one connection with pending answers; above the bound nothing more is read from it."""
ANSWERS_MAX: Final = 256
"""Answers in one message."""
UNANSWERED_MAX: Final = 4 * WINDOW
"""Pages with a pending or unread answer; above the bound nothing more is read from the connection."""
UNANSWERED_AT_EASE: Final = 64
"""Such pages that are allowed whatever the other streams hold."""
ANSWER_BYTES: Final = 2_048
"""Memory of a pending answer."""
_ENDING: Final = (WriterFenced, Draining, StoreFenced)


@dataclass(frozen=True, slots=True)
class _Unanswered:
    """Page that was accepted or rejected, and whose publisher has no answer yet."""

    partition: int
    sequence: int
    size: int
    """Bytes of its body."""
    answer: asyncio.Future[PublishResult] | BrokerError


class PublishStream:
    """Serves one call of `Publish`."""

    def __init__(self, broker: Broker, context: Any, stream: OpenStream) -> None:
        self._broker = broker
        self._context = context
        self._stream = stream
        self._answers: deque[_Unanswered] = deque()
        self._batches_answers = False
        """True if the publisher accepts several answers in a message."""
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._in_flight = 0
        self._memory = Share()
        self._sink = ""
        self._schemas: Schemas | None = None
        self._done = False

    async def serve(self) -> None:
        """Serve until the publisher ends the stream, or raise the reason of its end."""
        request = await first_message(self._context)
        if not isinstance(request, pb.PublishRequest) or request.WhichOneof("request") != "open":
            raise BrokerError(Reason.INVALID_OPEN, "the first message must be `open`", field="open")
        session, opened = await self._open(request.open)
        with self._broker.stream_memory.share() as self._memory:
            self._stream.memory = self._memory
            try:
                await self._context.write(pb.PublishResponse(opened=opened))
                await self._until_over(session)
            finally:
                session.end()

    async def _until_over(self, session: WriterSession | StageSession) -> None:
        tasks = [
            asyncio.ensure_future(self._read(session)),
            asyncio.ensure_future(self._answer()),
            asyncio.ensure_future(self._broker.ended()),
            asyncio.ensure_future(session.on_fenced.wait()),
            asyncio.ensure_future(self._memory.shed.wait()),
        ]
        reading, answering, ended, fenced, shed = tasks
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                await answering  # it failed, or everything was read and answered
            if reading.done():
                await reading
                await asyncio.wait([answering, shed], return_when=asyncio.FIRST_COMPLETED)
                if answering.done():
                    await answering
            if session.fenced is not None and fenced.done():
                raise session.fenced
            if shed.done():
                raise BrokerError(Reason.READER_TOO_SLOW, held=self._memory.held)
            if ended.done():
                self._broker.check_serving()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _open(self, opening: pb.PublishOpen) -> tuple[WriterSession | StageSession, pb.PublishOpened]:
        staged = opening.HasField("stage")
        if not staged and not is_id(opening.writer_id):
            raise InvalidValue(Reason.INVALID_OPEN, "open.writer_id", quoted(opening.writer_id), ID_FORM)
        self._broker.check_serving()
        buffer = self._broker.sink(opening.sink, opening.incarnation)
        self._sink = self._stream.sink = opening.sink
        self._stream.client_id = opening.stage.write_name or opening.stage.producer if staged else opening.writer_id
        self._batches_answers = opening.answers_together
        self._schemas = buffer.schemas
        epoch = opening.writer_epoch if opening.HasField("writer_epoch") else None
        session: WriterSession | StageSession
        if staged:
            claim = epochs.claim(opening.sink, opening.stage).checked("open.stage")
            token = checked_token(opening.stage.token, "open.stage.token")
            application = checked_application(opening.stage.application, "open.stage.application")
            session = buffer.staging.open(claim, token, epoch, application=application)
        else:
            session = await self._broker.writers[opening.sink].open(opening.writer_id, epoch)
        opened = pb.PublishOpened(
            writer_epoch=session.epoch,
            incarnation=buffer.record.incarnation,
            partitions=len(buffer.logs),
            next_sequences={number: min(after, NUMBER_MAX) for number, after in session.next_sequences().items()},
            page_bytes_max=PAGE_BYTES_MAX,
            record_bytes_max=self._broker.bounds.record_bytes,
            unanswered_max=WINDOW,
        )
        return session, opened

    async def _read(self, session: WriterSession | StageSession) -> None:
        try:
            while True:
                await self._room_for_answers()
                request = await self._context.read()
                if request is grpc.aio.EOF:
                    return
                if isinstance(request, PageRequest):
                    await self._page(session, request)
                elif request.WhichOneof("request") == "close":
                    await session.remove()
                    return
                else:
                    raise BrokerError(
                        Reason.INVALID_OPEN, "`open` came twice, or the message is empty", field="request"
                    )
        finally:
            self._done = True
            self._changed.set()

    async def _room_for_answers(self) -> None:
        """Wait until the peer has read enough of its answers."""
        while len(self._answers) >= UNANSWERED_MAX:
            self._room.clear()
            await self._room.wait()
        if len(self._answers) >= UNANSWERED_AT_EASE:
            await self._memory.settled()

    async def _page(self, session: WriterSession | StageSession, request: PageRequest) -> None:
        page, incoming = request.page, convert.incoming(request.page, request.body)
        size = len(incoming.body)
        while self._in_flight and self._in_flight + size > IN_FLIGHT_BYTES_MAX:
            self._room.clear()
            await self._room.wait()
        answer: asyncio.Future[PublishResult] | BrokerError
        session.arrived(incoming.partition, page.sequence)
        try:
            bound = self._broker.bounds.record_bytes
            checked = incoming.checked(
                record_bytes_max=bound, count_records=count_records, count_rows=self._count_rows, crc32=crc32
            )
            answer = await session.publish(checked, page.sequence)
        except _ENDING:
            raise
        except BrokerError as refusal:
            answer = refusal
        else:
            self._stream.count(incoming.record_count, size)
        self._in_flight += size
        self._answers.append(_Unanswered(page.partition, page.sequence, size, answer))
        self._memory.acquire(ANSWER_BYTES)
        self._changed.set()

    def _count_rows(self, body: Bytes) -> int:
        """Return the rows of a page.

        Raises ValueError for an invalid body, and ``InvalidPage`` for an unknown schema.
        """
        page = bounded_rows(body)
        assert self._schemas is not None, "an open stream has its sink"
        self._schemas.check_page(page.schema_version)
        return page.count

    async def _answer(self) -> None:
        while True:
            while self._answers:
                await self._first()
                answers = list(self._ready(ANSWERS_MAX if self._batches_answers else 1))
                self._room.set()
                if len(answers) == 1:
                    response = pb.PublishResponse(answer=answers[0])
                else:
                    response = pb.PublishResponse(answers=pb.PublishAnswers(answers=answers))
                await self._context.write(response)
                self._memory.release(len(answers) * ANSWER_BYTES)
            if self._done:
                return
            self._changed.clear()
            await self._changed.wait()

    async def _first(self) -> None:
        """Wait for the oldest unanswered page, or raise the reason why it has no answer.

        Pages that became durable with it are ready then too.
        """
        answer = self._answers[0].answer
        if not isinstance(answer, BrokerError):
            await answer

    def _ready(self, count: int) -> Iterator[pb.PublishAnswer]:
        """Yield up to ``count`` answers that are ready, in the order of arrival."""
        for _ in range(min(count, len(self._answers))):
            page = self._answers[0]
            message = pb.PublishAnswer(partition=page.partition, sequence=page.sequence)
            if isinstance(page.answer, BrokerError):
                message.refusal.CopyFrom(status_of(page.answer))
            elif page.answer.done() and page.answer.exception() is None:
                message.receipt.CopyFrom(convert.receipt(self._sink, page.partition, page.answer.result()))
            else:
                return
            self._answers.popleft()
            self._in_flight -= page.size
            yield message
