"""Leases on a subscription's retry queue: sets of ranges under a holder's name.

A set contains offsets, not records: read the records with ``replay`` or ``replay_pages``. A lease is independent of
connections; any process that knows the holder's name and the ranges can continue it.
"""

from __future__ import annotations

from collections.abc import Sequence

from forebay.client.errors import InvalidArgument
from forebay.client.transport.channel import Channels
from forebay.client.transport.operations import Blocking, operation
from forebay.client.transport.service import Service
from forebay.client.values import convert
from forebay.client.values.records import SettleResult
from forebay.client.values.resends import ResendRanges, ResendSet
from forebay.errors.reasons import Reason
from forebay.v1 import record_pb2
from forebay.v1 import resend_service_pb2 as pb
from forebay.v1.resend_service_pb2_grpc import ResendServiceStub


class ResendCalls:
    """Leased sets of a client's sinks.

    All methods raise ``SinkNotFound``, ``SubscriptionNotFound``, ``SinkReplaced`` for ranges of a sink that was deleted
    and recreated, and ``INVALID_LEASE`` for a ``holder`` that is not 1 to 128 characters of ``[A-Za-z0-9._:-]``.
    """

    def __init__(self, channels: Channels) -> None:
        self._service = Service(channels, ResendServiceStub)

    @operation
    async def lease(
        self,
        sink: str,
        name: str = "default",
        *,
        holder: str,
        duration_s: float | None = None,
        records_max: int | None = None,
        bytes_max: int | None = None,
        before_due: bool = False,
        incarnation: str = "",
    ) -> ResendSet:
        """Lease a set of due ranges from the retry queue of ``name``; return the set of the holder.

        A holder has one set. If it has one already, its lease is extended and nothing is added, so the call may be
        repeated. ``duration_s`` is 1 to 86,400, by default the sink's ``ack_deadline_s``; an expired lease counts as a
        failed attempt. ``records_max`` is 1 to 1,000,000, by default 10,000. ``bytes_max`` is an approximate bound of
        the stored pages. ``before_due`` also takes records whose nack requested a delay that has not passed.

        Raises ``ORDERING_STRICT`` unless the sink is in RELAXED order, ``INVALID_LEASE``, ``TOO_MANY_STREAMS``.
        """
        request = pb.LeaseResendsRequest(
            sink=sink,
            subscription=name,
            holder=holder,
            max_records=records_max,
            max_bytes=bytes_max,
            before_due=before_due,
            incarnation=incarnation,
        )
        return await self._lease(sink, request, duration_s)

    @operation
    async def lease_again(
        self,
        sink: str,
        name: str = "default",
        *,
        holder: str,
        ranges: Sequence[ResendRanges],
        duration_s: float | None = None,
    ) -> ResendSet:
        """Extend a holder's set, and lease lost ``ranges`` again that are free; return the set of the holder.

        For a holder that resumes a set: its lease may have expired, or a restart of the broker may have lost it. Ranges
        that are missing from the answer are settled, leased by another holder, or void after a seek.

        Raises ``ORDERING_STRICT``, ``INVALID_LEASE``, ``INVALID_RANGE``, ``INVALID_PARTITION``, ``TOO_MANY_STREAMS``.
        """
        if not ranges:
            raise InvalidArgument("ranges is empty: lease a set with `lease`", reason=Reason.INVALID_RANGE)
        request = pb.LeaseResendsRequest(
            sink=sink,
            subscription=name,
            holder=holder,
            ranges=_messages(ranges),
            incarnation=_incarnation(ranges),
        )
        return await self._lease(sink, request, duration_s)

    @operation
    async def settle(
        self, sink: str, name: str = "default", *, holder: str, ranges: Sequence[ResendRanges]
    ) -> tuple[SettleResult, ...]:
        """Settle processed ranges of a set as acked, in one durable write. Idempotent.

        Ranges without a lease are settled too, because the lease may have expired. Ranges that another holder has
        leased, and ranges leased before a seek, are ``STALE`` and not settled.

        Raises ``INVALID_RANGE``, ``INVALID_PARTITION``; then nothing was settled.
        """
        request = pb.SettleResendsRequest(
            sink=sink,
            subscription=name,
            holder=holder,
            partitions=_messages(ranges),
            incarnation=_incarnation(ranges),
        )
        response = await self._service.call("SettleResends", sink, request)
        return tuple(convert.settle_result(result) for result in response.results)

    @operation
    async def release(self, sink: str, name: str = "default", *, holder: str, incarnation: str = "") -> int:
        """Release the set of a holder without a failed attempt; return its number of records."""
        request = pb.ReleaseResendsRequest(sink=sink, subscription=name, holder=holder, incarnation=incarnation)
        response = await self._service.call("ReleaseResends", sink, request)
        return int(response.records)

    async def _lease(self, sink: str, request: pb.LeaseResendsRequest, duration_s: float | None) -> ResendSet:
        if duration_s is not None:
            request.duration.CopyFrom(convert.duration(duration_s))
        response = await self._service.call("LeaseResends", sink, request)
        return ResendSet(
            request.holder,
            response.incarnation,
            tuple(_ranges(one, response.incarnation) for one in response.partitions),
            convert.seconds(response.duration) if response.HasField("duration") else 0.0,
        )


class Resends(ResendCalls, Blocking):
    """Leased sets of a client's sinks. Thread-safe."""


def _messages(ranges: Sequence[ResendRanges]) -> list[pb.ResendRanges]:
    return [
        pb.ResendRanges(
            partition=one.partition,
            account=one.account,
            ranges=[record_pb2.OffsetRange(first_offset=first, last_offset=last) for first, last in one.ranges],
        )
        for one in ranges
    ]


def _incarnation(ranges: Sequence[ResendRanges]) -> str:
    """Return the incarnation of ``ranges``; raises ``INVALID_RANGE`` if there are several."""
    found = list(dict.fromkeys(one.incarnation for one in ranges)) or [""]
    if len(found) > 1:
        raise InvalidArgument(
            f"ranges of incarnations {found[0]!r} and {found[1]!r} of the sink: must be of one incarnation",
            reason=Reason.INVALID_RANGE,
        )
    return found[0]


def _ranges(message: pb.ResendRanges, incarnation: str) -> ResendRanges:
    return ResendRanges(
        message.partition,
        message.account,
        tuple((one.first_offset, one.last_offset) for one in message.ranges),
        tuple((one.offset, one.attempt) for one in message.attempts),
        incarnation,
    )
