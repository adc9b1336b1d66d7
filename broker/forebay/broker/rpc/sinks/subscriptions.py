"""Subscriptions in SinkService: create, list, seek, settle and delete. It only translates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from forebay.broker.core.errors import BrokerError
from forebay.broker.core.partition.position import EARLIEST, At, Position, StartOffset
from forebay.broker.core.writes import SubscriptionRecord
from forebay.broker.rpc.convert import timestamp, timestamp_us
from forebay.broker.runtime.broker import Broker
from forebay.errors.reasons import Reason
from forebay.v1 import subscription_pb2 as pb


class SubscriptionCalls:
    """Subscriptions over gRPC."""

    _broker: Broker

    async def CreateSubscription(
        self, request: pb.CreateSubscriptionRequest, context: Any
    ) -> pb.CreateSubscriptionResponse:
        self._broker.check_serving()
        start = position(request.start, "start") if request.HasField("start") else EARLIEST
        subscribing = self._broker.sink(request.sink, request.incarnation).subscribing
        made, found, created = await subscribing.create(
            request.name, start, or_earliest=request.or_earliest, request_id=request.request_id
        )
        return pb.CreateSubscriptionResponse(
            subscription=subscription(request.sink, made), created=created, places=places(found)
        )

    async def ListSubscriptions(
        self, request: pb.ListSubscriptionsRequest, context: Any
    ) -> pb.ListSubscriptionsResponse:
        found = self._broker.sink(request.sink).subscribing.all()
        return pb.ListSubscriptionsResponse(subscriptions=[subscription(request.sink, record) for record in found])

    async def DeleteSubscription(
        self, request: pb.DeleteSubscriptionRequest, context: Any
    ) -> pb.DeleteSubscriptionResponse:
        self._broker.check_serving()
        made_at_us = timestamp_us(request.created_at) if request.HasField("created_at") else None
        subscribing = self._broker.sink(request.sink, request.incarnation).subscribing
        await subscribing.delete(request.name, made_at_us=made_at_us, incarnation=request.subscription_incarnation)
        return pb.DeleteSubscriptionResponse()

    async def SeekSubscription(self, request: pb.SeekSubscriptionRequest, context: Any) -> pb.SeekSubscriptionResponse:
        self._broker.check_serving()
        moved = await self._broker.sink(request.sink, request.incarnation).subscribing.seek(
            request.name,
            position(request.to, "to"),
            partition=request.partition if request.HasField("partition") else None,
            or_earliest=request.or_earliest,
            incarnation=request.subscription_incarnation,
        )
        return pb.SeekSubscriptionResponse(places=places(moved))

    async def SettleSubscription(
        self, request: pb.SettleSubscriptionRequest, context: Any
    ) -> pb.SettleSubscriptionResponse:
        self._broker.check_serving()
        subscribing = self._broker.sink(request.sink, request.incarnation).subscribing
        settled = await subscribing.settle(
            request.name, dict(request.offsets), incarnation=request.subscription_incarnation
        )
        return pb.SettleSubscriptionResponse(
            partitions=[
                pb.SettledPartition(partition=one.partition, acked=one.acked, watermark=one.watermark)
                for one in settled
            ]
        )


def position(message: pb.Position, field: str) -> Position:
    """Return a position from the wire; ``field`` is its path in the request."""
    match message.WhichOneof("at"):
        case "earliest" if message.earliest:
            return EARLIEST
        case "latest" if message.latest:
            return Position(At.LATEST)
        case "offset":
            return Position(At.OFFSET, message.offset)
        case "offsets" if message.offsets.offsets:
            return Position(At.OFFSETS, offsets=tuple(sorted(message.offsets.offsets.items())))
        case "time":
            return Position(At.TIME, timestamp_us(message.time))
    raise BrokerError(
        Reason.INVALID_POSITION,
        f"{field} must be earliest (true), latest (true), an offset, offsets by partition, or a time",
        field=field,
    )


def position_message(found: Position) -> pb.Position:
    """Return a position for the wire."""
    match found.at:
        case At.EARLIEST:
            return pb.Position(earliest=True)
        case At.LATEST:
            return pb.Position(latest=True)
        case At.OFFSET:
            return pb.Position(offset=found.number)
        case At.OFFSETS:
            return pb.Position(offsets=pb.PartitionOffsets(offsets=dict(found.offsets)))
        case At.TIME:
            return pb.Position(time=timestamp(found.number))


def subscription(sink: str, record: SubscriptionRecord) -> pb.Subscription:
    """Return a subscription for the wire."""
    return pb.Subscription(
        sink=sink,
        name=record.name,
        created_at=timestamp(record.created_at_us),
        start=position_message(record.start),
        incarnation=record.incarnation,
    )


def places(found: Sequence[StartOffset]) -> list[pb.SubscriptionPlace]:
    """Return the places where accounts were opened, for the wire."""
    messages = []
    for where in found:
        message = pb.SubscriptionPlace(partition=where.partition, start_offset=where.start)
        if where.trimmed is not None:
            message.trimmed.first_offset = where.trimmed.first
            message.trimmed.last_offset = where.trimmed.end - 1
        messages.append(message)
    return messages
