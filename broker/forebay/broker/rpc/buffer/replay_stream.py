"""Replay stream: sends pages of a partition at the pace of its reader."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import aclosing
from typing import Any

from forebay.broker.core.errors import BrokerError, InvalidPartition, InvalidValue, quoted
from forebay.broker.core.names import ID_FORM, is_id
from forebay.broker.core.partition.pages import Gap
from forebay.broker.rpc import convert
from forebay.broker.rpc.pages import frames
from forebay.broker.rpc.streams import open_stream
from forebay.broker.runtime.broker import Broker
from forebay.broker.runtime.read.readers import Reader
from forebay.broker.runtime.resources.stream_memory import Share
from forebay.broker.runtime.resources.streams import OpenStream, StreamKind
from forebay.broker.runtime.sink.buffer import Buffer
from forebay.errors.reasons import Reason
from forebay.v1 import buffer_service_pb2 as pb


class ReplayStream:
    """Serves one call of `Replay`."""

    def __init__(self, broker: Broker, context: Any) -> None:
        self._broker = broker
        self._context = context

    async def serve(self, request: pb.ReplayRequest) -> None:
        """Serve until everything is sent or the broker ends its streams, or raise the reason of its end."""
        buffer = self._broker.sink(request.sink, request.incarnation)
        if request.partition >= len(buffer.logs):
            raise InvalidPartition(request.partition, len(buffer.logs))
        if request.reader_id and not is_id(request.reader_id):
            raise InvalidValue(Reason.INVALID_OPEN, "reader_id", quoted(request.reader_id), ID_FORM)
        with (
            open_stream(self._broker, StreamKind.REPLAY, self._context, sink=request.sink) as stream,
            self._broker.stream_memory.share() as memory,
            buffer.readers.opened(request.partition, request.reader_id) as reader,
        ):
            stream.memory, stream.client_id, stream.reader = memory, request.reader_id, reader
            await self._until_over(self._send(buffer, request, stream, reader), memory)

    async def _until_over(self, work: Coroutine[Any, Any, None], memory: Share) -> None:
        tasks: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(work),
            asyncio.ensure_future(self._broker.ended()),
            asyncio.ensure_future(memory.shed.wait()),
        ]
        sending, _, shed = tasks
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                await sending
            elif shed.done():
                raise BrokerError(Reason.READER_TOO_SLOW, held=memory.held)
            else:
                self._broker.check_serving()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)  # the reader may be gone

    async def _send(self, buffer: Buffer, request: pb.ReplayRequest, stream: OpenStream, reader: Reader) -> None:
        replay = buffer.replay(request.partition, stream.memory, ahead=True, reader=reader)
        kind = request.WhichOneof("start")
        start = await replay.start_at(
            offset=request.start_offset if kind == "start_offset" else None,
            time_us=convert.timestamp_us(request.start_time) if kind == "start_time" else None,
        )
        end = request.end_offset if request.HasField("end_offset") else None
        if end is not None and end < start:
            raise BrokerError(Reason.INVALID_RANGE, f"the end {end} is below the start {start}", field="end_offset")
        opened = pb.ReplayOpened(start_offset=start, incarnation=buffer.record.incarnation)
        if not request.follow:
            last = buffer.logs[request.partition].tail.next_offset
            opened.end_offset = last if end is None else end
            end = opened.end_offset
        await self._context.write(pb.ReplayResponse(opened=opened))
        async with aclosing(replay.read(start, end, follow=request.follow)) as steps:
            async for step in steps:
                if isinstance(step, Gap):
                    await self._context.write(pb.ReplayResponse(gap=convert.gap(request.partition, step)))
                else:
                    await self._context.write(frames.replay_pages(step.pages))
                    stream.memory.release_pages(step.size)
                    stream.count(sum(entry.count for entry, _ in step.pages), step.size)
