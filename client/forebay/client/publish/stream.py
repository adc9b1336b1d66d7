"""Publish stream: opens, sends, reads answers, and reconnects after a failure.

Jobs: this one (``forebay-publisher-SINK``) opens streams and expires late pages; one per stream reads answers
(``forebay-answers-SINK``); the call requests pages from the buffer. All end with ``close``. A job is a thread, or a
task of an event loop.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import AsyncGenerator
from typing import Final

import grpc

from forebay.client.errors import (
    BrokerUnavailable,
    ClientFault,
    Closed,
    ForebayError,
    ProtocolViolation,
)
from forebay.client.publish.pages import frame_publish_page
from forebay.client.publish.send_buffer import SendBuffer
from forebay.client.publish.sender import PublishStreamState, Sender
from forebay.client.transport.channel import Channels
from forebay.client.transport.io import Job, Responses
from forebay.client.transport.reconnect import Reconnect
from forebay.client.transport.threads import fault_of
from forebay.client.values.epochs import StagedPart
from forebay.errors.reasons import Reason
from forebay.v1 import buffer_service_pb2 as pb

METHOD: Final = "/forebay.v1.BufferService/Publish"
log = logging.getLogger(__name__)


def _unchanged(frame: bytes) -> bytes:
    """Serializer of pages, which the sender has already serialized."""
    return frame


class PublishStream:
    """Jobs of one publisher."""

    def __init__(
        self,
        channels: Channels,
        sink: str,
        writer_id: str,
        buffer: SendBuffer,
        stage: pb.PublishStage | None = None,
        incarnation: str = "",
    ) -> None:
        self._channels = channels
        self._sink = sink
        self._writer_id = writer_id
        self._buffer = buffer
        self._stage = stage
        self._sender = Sender(buffer, renews=stage is None)
        self._epoch: int | None = None
        self.incarnation = incarnation
        """Incarnation of the sink, once it is known; later streams require it."""
        self._encoding = threading.Lock()
        """Prevents concurrent encoding of a page by the sender of a broken stream and the next sender."""
        self._abandoned = False
        self._progressed = False
        """The stream has brought answers."""
        self._endpoint = channels.endpoint_of(sink)
        """Broker of the present stream."""
        self._hops = 0
        """Times that the streams since the last open one have followed the sink to another shard."""
        self._call: Responses | None = None
        self.last_error: ForebayError | None = None
        """Cause of the last broken stream."""
        self._job: Job | None = None
        self._reader: Job | None = None
        """Reads the answers of the present stream."""

    def stored(self) -> list[StagedPart]:
        """Return the staged parts with a receipt, by partition."""
        with self._buffer.lock:
            return [part for _, part in sorted(self._sender.stored.items())]

    def start(self) -> None:
        """Start the job, which connects."""
        name = f"forebay-publisher-{self._sink}"
        self._job = self._channels.io.spawn(self._run, name=name, on_fault=self._failed)

    async def join(self, timeout_s: float | None) -> bool:
        """Wait for the end; return False after the timeout. The buffer must be closed.

        A callback, which runs in one of the jobs of the stream, waits for nothing: its job ends after it.
        """
        if any(job.is_current() for job in (self._job, self._reader) if job is not None):
            return True
        return self._job is None or await self._job.join(timeout_s)

    def abandon(self) -> None:
        """End immediately; records that are not durable fail with ``PUBLISH_ABANDONED``."""
        with self._buffer.lock:
            self._abandoned = True
            call = self._call
            self._buffer.wake_all()
        if call is not None:
            call.cancel()
        self._sender.end_all(
            Closed("the publisher was closed before the records were durable", reason=Reason.PUBLISH_ABANDONED)
        )

    def _failed(self, fault: ClientFault) -> None:
        """Apply an unexpected failure: end the stream and notify the waiting threads."""
        self._sender.end_all(fault)
        self._buffer.close()
        with self._buffer.lock:
            call = self._call
        if call is not None:
            call.cancel()

    async def _run(self) -> None:
        reconnect = Reconnect(self._channels.settings, clock=self._buffer.clock, random=random.random)
        while not self._sender.is_done():
            state = PublishStreamState()
            error = await self._one_stream(state)
            self.last_error = error or self.last_error
            if state.is_open:
                reconnect.opened()
                self._hops = 0
            if self._progressed:
                reconnect.progressed()
                self._progressed = False
            if error is None:
                continue
            if self._channels.misplaced(self._sink, self._endpoint, error, self._hops):
                self._hops += 1
                continue
            is_fatal = self._sender.fatal_error() is not None
            delay_s = None if is_fatal else reconnect.delay_s(error)
            if delay_s is None:
                self._sender.end_all(error)
                self._buffer.close()
                break
            log.log(
                reconnect.level(),
                "publish stream broke sink=%s endpoint=%s reason=%s failures=%d delay_s=%.2f",
                self._sink,
                self._endpoint,
                error.reason,
                reconnect.failures,
                delay_s,
            )
            await self._sender.await_change(None, self._buffer.clock() + delay_s)

    async def _one_stream(self, state: PublishStreamState) -> ForebayError | None:
        """Run one stream to its end; return its error, ``None`` after an orderly end."""
        if (lost := self._sender.fatal_error()) is not None:
            return lost
        resumed = self._epoch is not None and not self._sender.may_renew()
        try:
            self._endpoint = await self._channels.locate(self._sink)
            channel = self._channels.of_endpoint(self._endpoint)
            publish = channel.stream_stream(METHOD, _unchanged, pb.PublishResponse.FromString)
            requests = self._requests(state, self._epoch if resumed else None)
            call = self._channels.io.exchange(publish, requests, self._channels.opening_s)
        except ValueError as failure:  # grpc: the channel was closed
            return Closed(str(failure), reason=Reason.CLIENT_CLOSED)
        except ForebayError as error:
            return error
        with self._buffer.lock:
            self._call = call
            abandoned = self._abandoned
        if abandoned:
            call.cancel()
        reader = self._reader = self._channels.io.spawn(
            lambda: self._read(call, state, resumed),
            name=f"forebay-answers-{self._sink}",
            on_fault=lambda _: None,  # `_read` has ended the stream, and the next one continues
        )
        await self._sender.await_change(state, None)
        call.cancel()
        await reader.join(None)
        expected = self._sender.is_done() or self._sender.may_renew()
        self._sender.disconnected(state)
        await call.join()
        if (lost := self._sender.fatal_error()) is not None:
            return lost
        if state.error is None and not expected:
            return BrokerUnavailable("the broker ended the stream")
        return state.error

    async def _requests(self, state: PublishStreamState, epoch: int | None) -> AsyncGenerator[bytes, None]:
        """Yield the serialized messages. Runs in the call, which would swallow an exception."""
        try:
            async for message in self._serialised(state, epoch):
                yield message
        except Exception as error:  # noqa: BLE001 - reported to the waiting threads
            self._sender.ended(state, fault_of(error))

    async def _serialised(self, state: PublishStreamState, epoch: int | None) -> AsyncGenerator[bytes, None]:
        opening = pb.PublishOpen(
            sink=self._sink,
            writer_id=self._writer_id,
            writer_epoch=epoch,
            stage=self._stage,
            answers_together=True,
            incarnation=self.incarnation,
        )
        yield pb.PublishRequest(open=opening).SerializeToString()
        telemetry = self._buffer.telemetry
        while (taken := await self._sender.take(state)) is not None:
            batch, sequence = taken
            with self._encoding:
                encoded = batch.encode()
                if batch.span is None:
                    batch.span = telemetry.send(batch.partition, encoded.record_count, batch.context)
            yield frame_publish_page(batch.partition, sequence, encoded, batch.span.traceparent)
        if self._sender.is_done() and self._stage is None:
            yield pb.PublishRequest(close=pb.PublishClose()).SerializeToString()

    async def _read(self, call: Responses, state: PublishStreamState, resumed: bool) -> None:
        """Read answers until the stream ends. Runs in a job of its own."""
        error: ForebayError | None = None
        try:
            async for response in call:
                kind = response.WhichOneof("response")
                self._progressed = self._progressed or kind in {"answer", "answers"}
                if kind == "answers":
                    self._sender.answered(response.answers.answers, self._sink)
                elif kind == "answer":
                    self._sender.answered([response.answer], self._sink)
                elif state.is_open:
                    raise ProtocolViolation("a second `opened` on one stream")
                else:
                    self._channels.reached(self._endpoint)
                    self._epoch, self.incarnation = response.opened.writer_epoch, response.opened.incarnation
                    self._sender.opened(state, response.opened, self._sink, resumed=resumed)
        except grpc.RpcError as failure:
            error = await self._channels.ended(failure, self._endpoint)
        except ForebayError as failure:
            error = failure
        finally:  # also after an unexpected error: the next stream continues
            self._sender.ended(state, error)
