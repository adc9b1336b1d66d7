"""Leases what a subscription has set aside, as sets under a name, settles them and gives them back.

A set holds places, not records: read them with ``replay`` or ``replay_pages``. No connection keeps it; whoever knows
the holder's name and the ranges goes on with it.
"""

from __future__ import annotations

from collections.abc import Sequence

from forebay.client.errors import InvalidRange
from forebay.client.transport.channel import Channels, Unary
from forebay.client.values import convert
from forebay.client.values.records import SettleResult
from forebay.client.values.resends import ResendRanges, ResendSet
from forebay.v1 import record_pb2
from forebay.v1 import resend_service_pb2 as pb
from forebay.v1.resend_service_pb2_grpc import ResendServiceStub


class Resends:
    """The sets of a client's sinks. Usable from several threads.

    All methods raise ``SinkNotFound``, ``SubscriptionNotFound``, ``SinkReplaced`` for ranges of a sink that was deleted
    and made anew, and ``InvalidLease`` for a ``holder`` that is not 1 to 128 of ``[A-Za-z0-9._:-]``.
    """

    def __init__(self, channels: Channels) -> None:
        self._channels = channels
        self._unary = Unary(channels)

    def _stub(self, sink: str) -> ResendServiceStub:
        return self._channels.stub(ResendServiceStub, sink)

    def lease(
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
        """Take a set of what the subscription ``name`` has set aside and what is due; return what the holder has then.

        A holder has one set: while it has something, that is extended and nothing more is taken, so the call may be
        repeated. ``duration_s``: 1 to 86,400, by default the sink's ``ack_deadline_s``; what runs out has failed once
        more. ``records_max``: 1 to 1,000,000, by default 10,000. ``bytes_max``: about how many bytes its stored pages
        have. ``before_due`` takes what waits for a delay that its nack named, too.

        Raises ``OrderingStrict`` unless the sink is in RELAXED order, ``InvalidLease``, ``TooManyStreams``.
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
        return self._lease(sink, request, duration_s)

    def lease_again(
        self,
        sink: str,
        name: str = "default",
        *,
        holder: str,
        ranges: Sequence[ResendRanges],
        duration_s: float | None = None,
    ) -> ResendSet:
        """Extend a holder's set, and take of ``ranges`` what it has lost and nobody else has; return what it has then.

        For whoever takes up a set: its lease may have run out, or been forgotten by a restart of the broker. What is
        not in the answer is settled, somebody else's, or void by a seek.

        Raises ``OrderingStrict``, ``InvalidLease``, ``InvalidRange``, ``InvalidPartition``, ``TooManyStreams``.
        """
        if not ranges:
            raise InvalidRange("no ranges are named: take a set with `lease`")
        request = pb.LeaseResendsRequest(
            sink=sink,
            subscription=name,
            holder=holder,
            ranges=_messages(ranges),
            incarnation=_incarnation(ranges),
        )
        return self._lease(sink, request, duration_s)

    def settle(
        self, sink: str, name: str = "default", *, holder: str, ranges: Sequence[ResendRanges]
    ) -> tuple[SettleResult, ...]:
        """Settle what was processed of a set, as acked: all in one durable write. Doing it again changes nothing.

        What nobody has is settled too: the lease may have run out. What somebody else has by now is ``STALE`` and left
        to him; so is what was leased before a seek.

        Raises ``InvalidRange``, ``InvalidPartition``; then nothing was settled.
        """
        request = pb.SettleResendsRequest(
            sink=sink,
            subscription=name,
            holder=holder,
            partitions=_messages(ranges),
            incarnation=_incarnation(ranges),
        )
        response, _ = self._unary.call("SettleResends", lambda t: self._stub(sink).SettleResends(request, timeout=t))
        return tuple(convert.settle_result(result) for result in response.results)

    def release(self, sink: str, name: str = "default", *, holder: str, incarnation: str = "") -> int:
        """Give back what a holder has, without a failed try; return how many records that was."""
        request = pb.ReleaseResendsRequest(sink=sink, subscription=name, holder=holder, incarnation=incarnation)
        response, _ = self._unary.call("ReleaseResends", lambda t: self._stub(sink).ReleaseResends(request, timeout=t))
        return int(response.records)

    def _lease(self, sink: str, request: pb.LeaseResendsRequest, duration_s: float | None) -> ResendSet:
        if duration_s is not None:
            request.duration.CopyFrom(convert.duration(duration_s))
        response, _ = self._unary.call("LeaseResends", lambda t: self._stub(sink).LeaseResends(request, timeout=t))
        return ResendSet(
            request.holder,
            response.incarnation,
            tuple(_ranges(one, response.incarnation) for one in response.partitions),
            convert.seconds(response.duration) if response.HasField("duration") else 0.0,
        )


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
    """The incarnation that ranges belong to; raises ``InvalidRange`` where they are of several."""
    found = list(dict.fromkeys(one.incarnation for one in ranges)) or [""]
    if len(found) > 1:
        raise InvalidRange(f"the ranges are of two sinks of one name, incarnations {found[0]!r} and {found[1]!r}")
    return found[0]


def _ranges(message: pb.ResendRanges, incarnation: str) -> ResendRanges:
    return ResendRanges(
        message.partition,
        message.account,
        tuple((one.first_offset, one.last_offset) for one in message.ranges),
        tuple((one.offset, one.attempt) for one in message.attempts),
        incarnation,
    )
