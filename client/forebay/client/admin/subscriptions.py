"""Makes, lists, moves, settles and deletes the subscriptions of a sink. Durable before it returns."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime

from forebay.client.errors import InvalidPosition, SinkNotFound, SinkReplaced, SubscriptionExists, SubscriptionReplaced
from forebay.client.errors import SubscriptionNotFound as NotFound
from forebay.client.transport.channel import Channels, Unary
from forebay.client.values.convert import moment, stamp
from forebay.client.values.subscriptions import Position, SettledPartition, Subscription, SubscriptionPlace
from forebay.v1 import subscription_pb2 as pb
from forebay.v1.sink_service_pb2_grpc import SinkServiceStub


class Subscriptions:
    """The subscriptions of a client's sinks. Usable from several threads."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels
        self._unary = Unary(channels)

    def _stub(self, sink: str) -> SinkServiceStub:
        return self._channels.stub(SinkServiceStub, sink)

    def create(
        self,
        sink: str,
        name: str,
        *,
        start: Position = "earliest",
        or_earliest: bool = False,
        exist_ok: bool = False,
        incarnation: str = "",
    ) -> Subscription:
        """Make a subscription and return it; from now on the sink keeps what it has not settled.

        Partitions that ``start`` leaves out, where it is a mapping, begin at the earliest. With ``or_earliest`` an
        offset that is gone begins at the lowest that can be had. With ``exist_ok`` one that was made with the same
        start is returned, wherever it stands by now.

        Raises ``SubscriptionExists``, ``InvalidSubscriptionName``, ``InvalidPosition``, ``InvalidPartition``,
        ``OffsetAhead``, ``OffsetTrimmed``, ``TooManySubscriptions``, ``SinkNotFound``; and ``SinkReplaced``, here and
        below, for another ``incarnation`` than the one that is there.
        """
        request = pb.CreateSubscriptionRequest(
            sink=sink,
            name=name,
            start=position_message(start),
            or_earliest=or_earliest,
            incarnation=incarnation or self._unary.incarnation(sink),
            request_id=secrets.token_hex(8),
        )
        response, _ = self._unary.call(
            "CreateSubscription", lambda t: self._stub(sink).CreateSubscription(request, timeout=t)
        )
        if not response.created and not exist_ok:
            facts = {"sink": sink, "subscription": name}
            raise SubscriptionExists(f"sink {sink!r} has a subscription {name!r}", facts=facts)
        return subscription(response.subscription)

    def list(self, sink: str) -> list[Subscription]:
        """Return all subscriptions of a sink, by name; raises ``SinkNotFound``."""
        return [subscription(one) for one in self._list(sink)]

    def _list(self, sink: str) -> Sequence[pb.Subscription]:
        request = pb.ListSubscriptionsRequest(sink=sink)
        response, _ = self._unary.call(
            "ListSubscriptions", lambda t: self._stub(sink).ListSubscriptions(request, timeout=t)
        )
        found: Sequence[pb.Subscription] = response.subscriptions
        return found

    def delete(self, sink: str, name: str, *, incarnation: str = "", subscription_incarnation: str = "") -> None:
        """Delete a subscription, whatever it has not settled; its consumers end with ``SubscriptionNotFound``.

        One that is made anew meanwhile is left alone, and with ``subscription_incarnation`` any other than that one.
        Raises ``SubscriptionNotFound``, ``SubscriptionReplaced``, ``DefaultSubscription``, ``SinkNotFound``.
        """
        request = pb.DeleteSubscriptionRequest(
            sink=sink,
            name=name,
            incarnation=incarnation or self._unary.incarnation(sink),
            subscription_incarnation=subscription_incarnation,
        )
        for one in self._list(sink):
            if one.name == name:
                request.created_at.CopyFrom(one.created_at)
        tries = 0

        def attempt(timeout_s: float) -> object:
            nonlocal tries
            tries += 1
            return self._stub(sink).DeleteSubscription(request, timeout=timeout_s)

        try:
            self._unary.call("DeleteSubscription", attempt)
        except (NotFound, SinkNotFound, SinkReplaced, SubscriptionReplaced):
            # The first try did it and its answer was lost.
            if tries == 1:
                raise

    def seek(
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
        """Move a subscription, in one ``partition`` or all; return where it stands now, by partition.

        What is in flight is void. The accounts are closed into the lifetime totals, with what was pending as skipped.
        With ``or_earliest`` an offset that is gone becomes the lowest that can be had, and ``trimmed`` says what was
        missed. Not repeated when the connection breaks, so that nothing is counted as skipped twice.

        Raises ``OffsetAhead``, ``OffsetTrimmed``, ``InvalidPosition``, ``InvalidPartition``,
        ``SubscriptionNotFound``, ``SubscriptionReplaced`` for another ``subscription_incarnation`` than the one that is
        there, ``SinkNotFound``; then nothing was moved.
        """
        request = pb.SeekSubscriptionRequest(
            sink=sink,
            name=name,
            to=position_message(to),
            partition=partition,
            or_earliest=or_earliest,
            incarnation=incarnation or self._unary.incarnation(sink),
            subscription_incarnation=subscription_incarnation,
        )
        response, _ = self._unary.call(
            "SeekSubscription", lambda t: self._stub(sink).SeekSubscription(request, timeout=t)
        )
        return tuple(
            SubscriptionPlace(
                one.partition,
                one.start_offset,
                (one.trimmed.first_offset, one.trimmed.last_offset) if one.HasField("trimmed") else None,
            )
            for one in response.places
        )

    def settle(
        self,
        sink: str,
        name: str = "default",
        *,
        offsets: Mapping[int, int],
        incarnation: str = "",
        subscription_incarnation: str = "",
    ) -> tuple[SettledPartition, ...]:
        """Settle all that a subscription has not settled below an offset, by partition; return what became of it.

        It counts as acked. For readers that keep their own position and read with ``replay``; doing it again, or with
        a lower offset, changes nothing. All partitions or none.

        Raises ``SubscriptionInUse`` when a consumer owns one of them, or a holder has a set below, ``OffsetAhead``,
        ``InvalidPosition``, ``InvalidPartition``, ``SubscriptionNotFound``, ``SinkNotFound``, and
        ``SubscriptionReplaced`` for another ``subscription_incarnation`` than the one that is there.
        """
        request = pb.SettleSubscriptionRequest(
            sink=sink,
            name=name,
            offsets=dict(offsets),
            incarnation=incarnation,
            subscription_incarnation=subscription_incarnation,
        )
        response, _ = self._unary.call(
            "SettleSubscription", lambda t: self._stub(sink).SettleSubscription(request, timeout=t)
        )
        return tuple(SettledPartition(one.partition, one.acked, one.watermark) for one in response.partitions)


def position_message(place: Position) -> pb.Position:
    """Return the wire's form of a position; raises ``InvalidPosition`` for what is none."""
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


def _wrong(place: object) -> InvalidPosition:
    allowed = "earliest, latest, an offset, offsets by partition, or a time"
    return InvalidPosition(f"{place!r}: must be {allowed}", facts={"allowed": allowed})


def position(message: pb.Position) -> Position:
    """Return a position."""
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
    """Return a subscription."""
    return Subscription(
        message.sink, message.name, moment(message.created_at), position(message.start), message.incarnation
    )
