"""Administration of sinks. Durable before each call returns."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, suppress
from datetime import datetime
from typing import Final, Unpack

from google.protobuf.field_mask_pb2 import FieldMask

from forebay.client.errors import AlreadyExists, InvalidArgument, NotOwner, SinkNotFound, SinkReplaced
from forebay.client.settings import RetryPolicy
from forebay.client.transport.channel import Channels
from forebay.client.transport.operations import Blocking, operation, stream
from forebay.client.transport.service import Service
from forebay.client.values.convert import duration, stamp, value
from forebay.client.values.convert_sinks import settings_message
from forebay.client.values.explanations import Explanation, Purged
from forebay.client.values.records import Gap
from forebay.client.values.sink_settings import SinkOptions
from forebay.client.values.sinks import Sink, SinkStats
from forebay.errors.reasons import Reason
from forebay.v1 import sink_service_pb2 as pb
from forebay.v1.sink_service_pb2_grpc import SinkServiceStub

DEAD_LETTERS: Final = ".dlq"
GAPS_PER_CALL: Final = 1_000
ONCE: Final = RetryPolicy(tries_max=1)
"""Policy without retries, for a bound that means *now*: a retry would return a later bound."""

_GONE: Final = (SinkNotFound, SinkReplaced)


class SinkCalls:
    """Sinks of a client's brokers."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels
        self._service = Service(channels, SinkServiceStub)

    @operation
    async def create(
        self, name: str, *, exist_ok: bool = False, shard: str = "", **settings: Unpack[SinkOptions]
    ) -> Sink:
        """Create a sink and return it; unset settings get the broker's defaults.

        With ``exist_ok`` an existing sink with the same settings is returned. ``shard`` is the name of the shard that
        must have it, by default that of its name: sinks of one commit must be in one shard, and a sink keeps its shard.
        In a fleet every shard has to answer, so that no name exists twice.
        Raises ``INVALID_SINK_NAME``, ``INVALID_SETTING``, ``SINK_EXISTS``, ``TOO_MANY_SINKS``.
        """
        request = pb.CreateSinkRequest(
            name=name, settings=settings_message(settings)[0], request_id=secrets.token_hex(8), shard=shard
        )
        response = await self._service.call("CreateSink", name, request, creates_in=shard)
        if not response.created and not exist_ok:
            raise AlreadyExists(
                f"sink {name!r} exists already: pass exist_ok=True or another name",
                reason=Reason.SINK_EXISTS,
                facts={"sink": name},
            )
        return value(Sink, response.sink)

    @operation
    async def get(self, name: str) -> Sink:
        """Return a sink; raises ``SinkNotFound``."""
        return await self.find(name)

    async def find(self, name: str) -> Sink:
        """Return a sink, for other parts of the client."""
        request = pb.GetSinkRequest(name=name)
        response = await self._service.call("GetSink", name, request)
        return value(Sink, response.sink)

    @operation
    async def list(self) -> list[Sink]:
        """Return all sinks of all brokers, by name."""
        request = pb.ListSinksRequest(page_size=1000)
        found: list[Sink] = []
        for endpoint in await self._channels.brokers():
            request.page_token = ""
            async for page in self._service.pages("ListSinks", "", request, endpoint=endpoint):
                found.extend(value(Sink, one) for one in page.sinks)
                if self._channels.fleet is not None:
                    for one in page.sinks:
                        self._channels.fleet.note(one.name, endpoint)
        return sorted(found, key=lambda one: one.name)

    @operation
    async def update(self, name: str, *, incarnation: str = "", **settings: Unpack[SinkOptions]) -> Sink:
        """Change the given settings of a sink. Raises ``INVALID_SETTING``, ``SinkNotFound``.

        Here and below, a call without ``incarnation`` applies to the sink that has the name when the call starts, also
        if the call is retried. With ``incarnation``, any other sink raises ``SinkReplaced``.
        """
        message, paths = settings_message(settings)
        request = pb.UpdateSinkRequest(
            name=name,
            settings=message,
            update_mask=FieldMask(paths=paths),
            incarnation=incarnation or await self._service.unary.incarnation(name),
        )
        response = await self._service.call("UpdateSink", name, request)
        return value(Sink, response.sink)

    @operation
    async def delete(
        self, name: str, *, force: bool = False, dead_letters: bool = False, incarnation: str = ""
    ) -> None:
        """Delete a sink and its records; with ``dead_letters`` also its dead-letter sink ``<name>.dlq``.

        A sink that is recreated in the meantime is not deleted. Raises ``SINK_NOT_EMPTY`` unless forced,
        ``SinkNotFound``, ``SinkReplaced``.
        """
        await self._delete(name, force=force, dead_letters=dead_letters, incarnation=incarnation)

    async def _delete(self, name: str, *, force: bool, dead_letters: bool, incarnation: str) -> None:
        request = pb.DeleteSinkRequest(
            name=name,
            force=force,
            dead_letters=dead_letters,
            incarnation=incarnation or await self._service.unary.incarnation(name),
        )
        letters = await self._letters(name) if dead_letters else ""
        if not await self._service.delete("DeleteSink", name, request, _GONE) and letters:
            # A broker that was killed may have deleted only the first; one that has neither may name a shard.
            with suppress(*_GONE, NotOwner):
                await self._delete(name + DEAD_LETTERS, force=force, dead_letters=False, incarnation=letters)

    async def _letters(self, name: str) -> str:
        """Return the incarnation of a dead-letter sink; empty if there is none."""
        try:
            return await self._service.unary.incarnation(name + DEAD_LETTERS)
        except SinkNotFound:
            return ""

    @operation
    async def pause(self, name: str, reason: str = "", *, incarnation: str = "") -> None:
        """Pause deliveries; appends continue. ``reason`` is shown in the stats."""
        incarnation = incarnation or await self._service.unary.incarnation(name)
        request = pb.PauseSinkRequest(name=name, reason=reason, incarnation=incarnation)
        await self._service.call("PauseSink", name, request)

    @operation
    async def resume(self, name: str, *, incarnation: str = "") -> None:
        """Resume deliveries where they were paused."""
        request = pb.ResumeSinkRequest(
            name=name, incarnation=incarnation or await self._service.unary.incarnation(name)
        )
        await self._service.call("ResumeSink", name, request)

    @operation
    async def purge(
        self,
        name: str,
        *,
        partition: int | None = None,
        until_offset: int | None = None,
        until_time: datetime | None = None,
        end_offsets: Mapping[int, int] | None = None,
        incarnation: str = "",
    ) -> Sequence[Purged]:
        """Drop the records that a sink holds when this is called, durably; return the result per partition.

        Drops all records, those of one partition, only pages that end at or below ``until_offset`` (of one partition),
        or only pages whose records were all accepted before ``until_time``. Deliveries in flight are revoked. Dropped
        records count as ``PURGED``.

        Records published after the call started stay, also if the connection breaks and the purge is retried. The
        result then excludes records dropped by the attempt whose answer was lost. ``end_offsets`` is an earlier end by
        partition, such as ``next_offset`` of stats that were shown to a user: pages that reach beyond it stay, and so
        do partitions that it does not name. It belongs to ``incarnation``. With neither ``until_offset`` nor
        ``end_offsets``, the call first gets the end offsets from the broker, without a retry: if that fails, nothing
        is dropped and ``BrokerUnavailable`` is raised. Raises ``SinkNotFound``, ``SinkReplaced``,
        ``INVALID_PARTITION``, ``INVALID_RANGE``, ``OFFSET_AHEAD``.
        """
        if until_offset is not None and until_time is not None:
            raise InvalidArgument(
                "until_offset and until_time are set: set only one of them", reason=Reason.INVALID_RANGE
            )
        request = pb.PurgeSinkRequest(name=name, partition=partition)
        if until_offset is not None:
            request.until_offset = until_offset
        if until_offset is not None or end_offsets is not None:
            request.incarnation = incarnation or await self._service.unary.incarnation(name)
            request.end_offsets.update(end_offsets or {})
        else:
            found = await stats_message(self._service, name, policy=ONCE)
            request.incarnation = incarnation or found.incarnation
            request.end_offsets.update({one.partition: one.next_offset for one in found.partitions})
        if end_offsets is not None and not end_offsets:
            return []  # on the wire an empty map is no bound
        if until_time is not None:
            request.until_time.CopyFrom(stamp(until_time))
        response = await self._service.call("PurgeSink", name, request)
        return [value(Purged, one) for one in response.partitions]

    @stream
    async def gaps(self, name: str, *, partition: int | None = None) -> AsyncGenerator[Gap, None]:
        """Yield the gaps of a sink by partition and offset, with reason, time and counts."""
        request = pb.ListGapsRequest(sink=name, partition=partition, page_size=GAPS_PER_CALL)
        async for page in self._service.pages("ListGaps", name, request):
            for one in page.gaps:
                yield value(Gap, one)

    @operation
    async def explain(
        self, name: str, offset: int, *, partition: int = 0, subscription: str = "default", incarnation: str = ""
    ) -> Explanation:
        """Return location and state of a record, and what its delivery waits for, for any offset.

        Raises ``SinkNotFound``, ``SubscriptionNotFound``, ``INVALID_PARTITION``.
        """
        request = pb.ExplainRecordRequest(
            sink=name, partition=partition, offset=offset, subscription=subscription, incarnation=incarnation
        )
        found = await self._service.call("ExplainRecord", name, request)
        page = (found.page_first_offset, found.page_last_offset) if found.HasField("page_first_offset") else None
        return value(Explanation, found, partition=partition, offset=offset, page=page)

    @operation
    async def stats(self, name: str) -> SinkStats:
        """Return counters, account and lag."""
        return value(SinkStats, await stats_message(self._service, name))

    @stream
    async def watch(self, name: str, *, interval_s: float = 1.0) -> AsyncGenerator[SinkStats, None]:
        """Yield the stats immediately and then at every interval, until the iterator is closed.

        Raises the error that broke the stream; ``SinkNotFound`` if the sink was deleted.
        """
        request = pb.WatchSinkStatsRequest(name=name, interval=duration(interval_s))
        async with aclosing(self._service.responses("WatchSinkStats", name, request)) as responses:
            async for response in responses:
                yield value(SinkStats, response.stats)


class Sinks(SinkCalls, Blocking):
    """Sinks of a client's brokers. Thread-safe."""


async def stats_message(service: Service, sink: str, *, policy: RetryPolicy | None = None) -> pb.SinkStats:
    """Return counters, account and lag."""
    request = pb.GetSinkStatsRequest(name=sink)
    found: pb.SinkStats = (await service.call("GetSinkStats", sink, request, policy=policy)).stats
    return found
