"""ResendService: leases of the retry queue as sets. Only converts and delegates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from forebay.broker.core.delivery.leased_sets import LeasedPart, Wanted, checked_holder, lease_us
from forebay.broker.core.errors import BrokerError
from forebay.broker.core.settings import SECOND_US
from forebay.broker.rpc import convert
from forebay.broker.rpc.buffer.answers import in_message
from forebay.broker.runtime.broker import Broker
from forebay.broker.runtime.delivery.subscription import Subscription
from forebay.errors.reasons import Reason
from forebay.v1 import buffer_service_pb2, record_pb2
from forebay.v1 import resend_service_pb2 as pb
from forebay.v1 import resend_service_pb2_grpc as pb_grpc

_Request = pb.LeaseResendsRequest | pb.SettleResendsRequest | pb.ReleaseResendsRequest


class ResendServicer(pb_grpc.ResendServiceServicer):
    """Resend sets over gRPC."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def LeaseResends(self, request: pb.LeaseResendsRequest, context: Any) -> pb.LeaseResendsResponse:
        subscription = self._subscription(request)
        holder, duration_us = checked_holder(request.holder), _duration_us(request, subscription)
        if request.ranges:
            named = _parts(request.ranges)
            found = await subscription.leasing.lease_again(holder, named, duration_us / SECOND_US)
        else:
            found = await subscription.leasing.lease(holder, _wanted(request), duration_us / SECOND_US)
        message = pb.LeaseResendsResponse(
            partitions=[_ranges(part) for part in found],
            incarnation=self._broker.sink(request.sink).record.incarnation,
            subscription_incarnation=subscription.record.incarnation,
        )
        if found:
            message.duration.CopyFrom(convert.duration(duration_us))
        return message

    async def SettleResends(self, request: pb.SettleResendsRequest, context: Any) -> pb.SettleResendsResponse:
        subscription = self._subscription(request)
        found = await subscription.leasing.settle(checked_holder(request.holder), _parts(request.partitions))
        return pb.SettleResendsResponse(results=await in_message(found))

    async def ReleaseResends(self, request: pb.ReleaseResendsRequest, context: Any) -> pb.ReleaseResendsResponse:
        subscription = self._subscription(request)
        return pb.ReleaseResendsResponse(records=subscription.leasing.release(checked_holder(request.holder)))

    def _subscription(self, request: _Request) -> Subscription:
        self._broker.check_serving()
        return self._broker.sink(request.sink, request.incarnation).subscription(
            request.subscription, request.subscription_incarnation
        )


def _duration_us(request: pb.LeaseResendsRequest, subscription: Subscription) -> int:
    asked_us = convert.duration_us(request.duration) if request.HasField("duration") else None
    return lease_us(asked_us, subscription.settings.ack_deadline_us)


def _wanted(request: pb.LeaseResendsRequest) -> Wanted:
    return Wanted(request.max_records, request.max_bytes or None, before_due=request.before_due).checked()


def _parts(named: Sequence[pb.ResendRanges]) -> list[LeasedPart]:
    """Return the parts that a request names, checked: each partition once."""
    if not named or len({one.partition for one in named}) != len(named):
        raise BrokerError(Reason.INVALID_RANGE, "name each partition once, with at least one range", field="partitions")
    return [LeasedPart(one.partition, one.account, tuple(convert.ranges(one.ranges))) for one in named]


def _ranges(part: LeasedPart) -> pb.ResendRanges:
    return pb.ResendRanges(
        partition=part.partition,
        account=part.account,
        ranges=[record_pb2.OffsetRange(first_offset=one.first, last_offset=one.end - 1) for one in part.ranges],
        attempts=list(_attempts(part.attempts)),
    )


def _attempts(attempts: Iterable[tuple[int, int]]) -> Iterable[buffer_service_pb2.Attempt]:
    return (buffer_service_pb2.Attempt(offset=offset, attempt=tries) for offset, tries in attempts)
