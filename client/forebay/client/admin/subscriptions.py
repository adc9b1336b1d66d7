"""Administration of subscriptions. Durable before each call returns."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from forebay.client.errors import (
    AlreadyExists,
    InvalidArgument,
    SinkNotFound,
    SinkReplaced,
    SubscriptionReplaced,
)
from forebay.client.errors import SubscriptionNotFound as NotFound
from forebay.client.transport.channel import Channels
from forebay.client.transport.operations import Blocking, operation
from forebay.client.transport.service import Service
from forebay.client.values.convert import moment, stamp, value
from forebay.client.values.subscriptions import Position, SettledPartition, Subscription, SubscriptionPlace
from forebay.errors.reasons import Reason
from forebay.v1 import subscription_pb2 as pb
from forebay.v1.sink_service_pb2_grpc import SinkServiceStub

_GONE: Final = (NotFound, SinkNotFound, SinkReplaced, SubscriptionReplaced)


class SubscriptionCalls:
    """Subscriptions of a client's sinks."""

    def __init__(self, channels: Channels) -> None:
        self._service = Service(channels, SinkServiceStub)

    @operation
    async def create(
        self,
        sink: str,
        name: str,
        *,
        start: Position = "earliest",
        or_earliest: bool = False,
        exist_ok: bool = False,
        incarnation: str = "",
    ) -> Subscription:
        """Create a subscription and return it; the sink then retains the records that it has not settled.

        If ``start`` is a mapping, partitions missing from it start at the earliest offset. With ``or_earliest``, a
        trimmed start offset becomes the lowest available one. With ``exist_ok``, an existing subscription with the same
        start is returned, whatever its position.

        Raises ``SUBSCRIPTION_EXISTS``, ``INVALID_SUBSCRIPTION_NAME``, ``INVALID_POSITION``, ``INVALID_PARTITION``,
        ``OFFSET_AHEAD``, ``OffsetTrimmed``, ``TOO_MANY_SUBSCRIPTIONS``, ``SinkNotFound``. Here and below, raises
        ``SinkReplaced`` if the sink has another ``incarnation``.
        """
        request = pb.CreateSubscriptionRequest(
            sink=sink,
            name=name,
            start=position_message(start),
            or_earliest=or_earliest,
            incarnation=incarnation or await self._service.unary.incarnation(sink),
            request_id=secrets.token_hex(8),
        )
        response = await self._service.call("CreateSubscription", sink, request)
        if not response.created and not exist_ok:
            facts = {"sink": sink, "subscription": name}
            raise AlreadyExists(
                f"sink {sink!r} has a subscription {name!r}: pass exist_ok=True or another name",
                reason=Reason.SUBSCRIPTION_EXISTS,
                facts=facts,
            )
        return subscription(response.subscription)

    @operation
    async def list(self, sink: str) -> list[Subscription]:
        """Return all subscriptions of a sink, by name; raises ``SinkNotFound``."""
        return [subscription(one) for one in await self._list(sink)]

    async def _list(self, sink: str) -> Sequence[pb.Subscription]:
        request = pb.ListSubscriptionsRequest(sink=sink)
        response = await self._service.call("ListSubscriptions", sink, request)
        found: Sequence[pb.Subscription] = response.subscriptions
        return found

    @operation
    async def delete(self, sink: str, name: str, *, incarnation: str = "", subscription_incarnation: str = "") -> None:
        """Delete a subscription with its unsettled records; its consumers get ``SubscriptionNotFound``.

        A subscription that is recreated in the meantime is not deleted; with ``subscription_incarnation``, only that
        one is. Raises ``SubscriptionNotFound``, ``SubscriptionReplaced``, ``DEFAULT_SUBSCRIPTION``, ``SinkNotFound``.
        """
        request = pb.DeleteSubscriptionRequest(
            sink=sink,
            name=name,
            incarnation=incarnation or await self._service.unary.incarnation(sink),
            subscription_incarnation=subscription_incarnation,
        )
        for one in await self._list(sink):
            if one.name == name:
                request.created_at.CopyFrom(one.created_at)
        await self._service.delete("DeleteSubscription", sink, request, _GONE)

    @operation
    async def seek(
        self,
        sink: str,
        name: str = "default",
        *,
        to: Position,
        partition: int | None = None,
        or_earliest: bool = False,
        incarnation: str = "",
        subscription_incarnation: str = "",
    ) -> tuple[SubscriptionPlace, ...]:
        """Seek a subscription, in one ``partition`` or all; return its new position by partition.

        Deliveries in flight become void. The accounts are closed into the lifetime totals, and pending records count as
        skipped. With ``or_earliest``, a trimmed offset becomes the lowest available one, and ``trimmed`` is the missed
        range. The call is not retried if the connection breaks, so that no record is counted as skipped twice.

        Raises ``OFFSET_AHEAD``, ``OffsetTrimmed``, ``INVALID_POSITION``, ``INVALID_PARTITION``,
        ``SubscriptionNotFound``, ``SinkNotFound``, and ``SubscriptionReplaced`` if the subscription has another
        ``subscription_incarnation``; then nothing was moved.
        """
        request = pb.SeekSubscriptionRequest(
            sink=sink,
            name=name,
            to=position_message(to),
            partition=partition,
            or_earliest=or_earliest,
            incarnation=incarnation or await self._service.unary.incarnation(sink),
            subscription_incarnation=subscription_incarnation,
        )
        response = await self._service.call("SeekSubscription", sink, request)
        return tuple(
            SubscriptionPlace(
                one.partition,
                one.start_offset,
                (one.trimmed.first_offset, one.trimmed.last_offset) if one.HasField("trimmed") else None,
            )
            for one in response.places
        )

    @operation
    async def settle(
        self,
        sink: str,
        name: str = "default",
        *,
        offsets: Mapping[int, int],
        incarnation: str = "",
        subscription_incarnation: str = "",
    ) -> tuple[SettledPartition, ...]:
        """Settle all unsettled records below an offset, by partition, as acked; return the results.

        For readers that store their own position and read with ``replay``. Repeating the call, or passing a lower
        offset, has no effect. Applies to all given partitions or to none.

        Raises ``SUBSCRIPTION_IN_USE`` if a consumer owns one of the partitions, or a holder has a lease below the
        offset; ``OFFSET_AHEAD``, ``INVALID_POSITION``, ``INVALID_PARTITION``, ``SubscriptionNotFound``,
        ``SinkNotFound``; and ``SubscriptionReplaced`` if the subscription has another ``subscription_incarnation``.
        """
        request = pb.SettleSubscriptionRequest(
            sink=sink,
            name=name,
            offsets=dict(offsets),
            incarnation=incarnation,
            subscription_incarnation=subscription_incarnation,
        )
        response = await self._service.call("SettleSubscription", sink, request)
        return tuple(value(SettledPartition, one) for one in response.partitions)


class Subscriptions(SubscriptionCalls, Blocking):
    """Subscriptions of a client's sinks. Thread-safe."""


def position_message(place: Position) -> pb.Position:
    """Return the wire form of a position; raises ``INVALID_POSITION``."""
    try:
        match place:
            case "earliest":
                return pb.Position(earliest=True)
            case "latest":
                return pb.Position(latest=True)
            case bool():
                pass
            case int():
                return pb.Position(offset=place)
            case datetime():
                return pb.Position(time=stamp(place if place.tzinfo is not None else place.astimezone()))
            case Mapping() if place:
                return pb.Position(offsets=pb.PartitionOffsets(offsets=dict(place)))
    except (TypeError, ValueError) as failure:
        raise _wrong(place) from failure
    raise _wrong(place)


def _wrong(place: object) -> InvalidArgument:
    allowed = "earliest, latest, an offset, offsets by partition, or a time"
    return InvalidArgument(
        f"position = {place!r}: must be {allowed}", reason=Reason.INVALID_POSITION, facts={"allowed": allowed}
    )


def position(message: pb.Position) -> Position:
    """Return the position of a message."""
    match message.WhichOneof("at"):
        case "latest":
            return "latest"
        case "offset":
            return int(message.offset)
        case "offsets":
            return dict(message.offsets.offsets)
        case "time":
            return moment(message.time)
    return "earliest"


def subscription(message: pb.Subscription) -> Subscription:
    """Return the subscription of a message."""
    return Subscription(
        message.sink, message.name, moment(message.created_at), position(message.start), message.incarnation
    )
