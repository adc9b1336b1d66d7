"""SinkService: create, change and observe sinks. Only converts and delegates."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, Final

from forebay.broker.core.errors import BrokerError, InvalidValue, SinkNotFound
from forebay.broker.rpc.convert import duration_us
from forebay.broker.rpc.sinks import convert, questions
from forebay.broker.rpc.sinks.subscriptions import SubscriptionCalls
from forebay.broker.rpc.streams import open_stream
from forebay.broker.runtime.broker import Broker
from forebay.broker.runtime.read.explanation import explained
from forebay.broker.runtime.resources.streams import StreamKind
from forebay.broker.runtime.sink.retention.purge import purge
from forebay.broker.runtime.sink.statistics import sink_state
from forebay.errors.reasons import Reason
from forebay.v1 import sink_service_pb2 as pb
from forebay.v1 import sink_service_pb2_grpc as pb_grpc

PAGE_SIZE: Final = 100
PAGE_SIZE_MAX: Final = 1_000
INTERVAL_US: Final = (100_000, 1_000_000, 3_600_000_000)
REASON_MAX: Final = 1_024


class SinkServicer(SubscriptionCalls, pb_grpc.SinkServiceServicer):
    """Sinks over gRPC, with the subscriptions of ``SubscriptionCalls``."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def CreateSink(self, request: pb.CreateSinkRequest, context: Any) -> pb.CreateSinkResponse:
        settings = replace(self._broker.sink_defaults, **convert.given(request.settings))
        buffer, created = await self._broker.create(
            request.name, settings, request_id=request.request_id, shard=request.shard
        )
        return pb.CreateSinkResponse(sink=convert.sink(buffer.record), created=created)

    async def GetSink(self, request: pb.GetSinkRequest, context: Any) -> pb.GetSinkResponse:
        return pb.GetSinkResponse(sink=convert.sink(self._broker.sink(request.name).record))

    async def ListSinks(self, request: pb.ListSinksRequest, context: Any) -> pb.ListSinksResponse:
        names = sorted(self._broker.sinks)
        if request.page_token and not request.page_token.isascii():
            raise BrokerError(Reason.INVALID_PAGE_TOKEN, "page_token was not issued by this broker", field="page_token")
        size = min(request.page_size or PAGE_SIZE, PAGE_SIZE_MAX)
        rest = [name for name in names if name > request.page_token]
        return pb.ListSinksResponse(
            sinks=[convert.sink(self._broker.sinks[name].record) for name in rest[:size]],
            next_page_token=rest[size - 1] if len(rest) > size else "",
        )

    async def UpdateSink(self, request: pb.UpdateSinkRequest, context: Any) -> pb.UpdateSinkResponse:
        values = convert.masked(request.settings, request.update_mask, self._broker.sink_defaults)
        buffer = await self._broker.update(request.name, values, incarnation=request.incarnation)
        return pb.UpdateSinkResponse(sink=convert.sink(buffer.record))

    async def DeleteSink(self, request: pb.DeleteSinkRequest, context: Any) -> pb.DeleteSinkResponse:
        self._broker.check_serving()
        await self._broker.delete(
            request.name,
            force=request.force,
            dead_letters=request.dead_letters,
            incarnation=request.incarnation,
        )
        return pb.DeleteSinkResponse()

    async def PauseSink(self, request: pb.PauseSinkRequest, context: Any) -> pb.PauseSinkResponse:
        self._broker.check_serving()
        buffer = self._broker.sink(request.name, request.incarnation)
        await buffer.stop(request.reason[:REASON_MAX] or "paused by request")
        return pb.PauseSinkResponse()

    async def ResumeSink(self, request: pb.ResumeSinkRequest, context: Any) -> pb.ResumeSinkResponse:
        self._broker.check_serving()
        await self._broker.sink(request.name, request.incarnation).resume()
        return pb.ResumeSinkResponse()

    async def PurgeSink(self, request: pb.PurgeSinkRequest, context: Any) -> pb.PurgeSinkResponse:
        self._broker.check_serving()
        buffer = self._broker.sink(request.name, request.incarnation)
        partitions, until = questions.purge_request(buffer, request)
        return questions.purge_response(
            await purge(buffer, partitions, until, committer=self._broker.committer, pages=self._broker.pages)
        )

    async def ListGaps(self, request: pb.ListGapsRequest, context: Any) -> pb.ListGapsResponse:
        buffer = self._broker.sink(request.sink)
        response = await questions.gaps_response(buffer, request)
        await buffer.removal.confirmed()
        return response

    async def ExplainRecord(self, request: pb.ExplainRecordRequest, context: Any) -> pb.ExplainRecordResponse:
        buffer = self._broker.sink(request.sink, request.incarnation)
        subscription = buffer.subscription(request.subscription)
        found = await explained(buffer, subscription, request.partition, request.offset)
        return questions.explain_response(request.partition, subscription.name, found, self._broker.restored)

    async def GetSinkStats(self, request: pb.GetSinkStatsRequest, context: Any) -> pb.GetSinkStatsResponse:
        return pb.GetSinkStatsResponse(stats=await self._stats(request.name))

    async def WatchSinkStats(
        self, request: pb.WatchSinkStatsRequest, context: Any
    ) -> AsyncIterator[pb.WatchSinkStatsResponse]:
        low, default, high = INTERVAL_US
        interval = duration_us(request.interval) if request.HasField("interval") else default
        if not low <= interval <= high:
            raise InvalidValue(Reason.INVALID_INTERVAL, "interval", f"{interval} us", "100 ms to 1 h")
        incarnation = self._broker.sink(request.name).record.incarnation
        with open_stream(self._broker, StreamKind.WATCH, context, sink=request.name):
            while True:
                stats = await self._stats(request.name)
                if stats.incarnation != incarnation:
                    raise SinkNotFound(request.name)
                yield pb.WatchSinkStatsResponse(stats=stats)
                try:
                    async with asyncio.timeout(interval / 1_000_000):
                        await self._broker.ended()
                except TimeoutError:
                    continue
                self._broker.check_serving()

    async def _stats(self, name: str) -> pb.SinkStats:
        buffer = self._broker.sink(name)
        state, at_us = await sink_state(buffer), self._broker.clock.wall_us()
        await buffer.removal.confirmed()
        return await convert.stats(buffer, state, at_us)
