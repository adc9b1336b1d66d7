"""Calls that read gaps, statistics and explanations, and purge sinks."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from forebay.client.admin.listing import parts
from forebay.client.settings import RetryPolicy
from forebay.client.transport.channel import Channels, Unary
from forebay.client.values.convert import enum, gap, moment, stamp
from forebay.client.values.explanations import (
    Explanation,
    Purged,
    RecordFlight,
    RecordLease,
    RecordPlace,
    RecordState,
    WaitReason,
)
from forebay.client.values.records import Gap
from forebay.client.values.sinks import DeliveryState
from forebay.v1 import sink_service_pb2 as pb
from forebay.v1.sink_service_pb2_grpc import SinkServiceStub

GAPS_PER_CALL: Final = 1_000
ONCE: Final = RetryPolicy(tries_max=1)
"""Policy without retries, for a bound that means *now*: a retry would return a later bound."""


class Asking:
    """Calls of the sink service with their conversion. Thread-safe."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels
        self._unary = Unary(channels)

    def _stub(self, sink: str) -> SinkServiceStub:
        return self._channels.stub(SinkServiceStub, sink)

    def purge(
        self,
        sink: str,
        *,
        partition: int | None,
        until_offset: int | None,
        until_time: datetime | None,
        incarnation: str,
    ) -> list[Purged]:
        """Drop pages up to an offset, or up to the current ends; a retry drops nothing newer."""
        request = pb.PurgeSinkRequest(name=sink, partition=partition)
        if until_offset is not None:
            request.until_offset = until_offset
            request.incarnation = incarnation or self._unary.incarnation(sink)
        else:
            found = self.stats(sink, policy=ONCE)
            request.incarnation = incarnation or found.incarnation
            request.end_offsets.update({one.partition: one.next_offset for one in found.partitions})
        if until_time is not None:
            request.until_time.CopyFrom(stamp(until_time))
        response, _ = self._unary.call("PurgeSink", lambda t: self._stub(sink).PurgeSink(request, timeout=t))
        return [
            Purged(one.partition, one.records, one.bytes, one.pages, one.earliest_offset) for one in response.partitions
        ]

    def gaps(self, sink: str, *, partition: int | None) -> Iterator[Gap]:
        """Yield all gaps, page by page."""

        def ask(token: str) -> pb.ListGapsResponse:
            request = pb.ListGapsRequest(sink=sink, partition=partition, page_size=GAPS_PER_CALL, page_token=token)
            answer: pb.ListGapsResponse = self._unary.call(
                "ListGaps", lambda t: self._stub(sink).ListGaps(request, timeout=t)
            )[0]
            return answer

        for part in parts(ask):
            yield from map(gap, part.gaps)

    def stats(self, sink: str, *, policy: RetryPolicy | None = None) -> pb.SinkStats:
        """Return counters, account and lag."""
        request = pb.GetSinkStatsRequest(name=sink)
        response, _ = self._unary.call(
            "GetSinkStats", lambda t: self._stub(sink).GetSinkStats(request, timeout=t), policy=policy
        )
        found: pb.SinkStats = response.stats
        return found

    def explain(self, sink: str, offset: int, *, partition: int, subscription: str, incarnation: str) -> Explanation:
        """Return the explanation of a record."""
        request = pb.ExplainRecordRequest(
            sink=sink, partition=partition, offset=offset, subscription=subscription, incarnation=incarnation
        )
        response, _ = self._unary.call("ExplainRecord", lambda t: self._stub(sink).ExplainRecord(request, timeout=t))
        return explanation(partition, offset, response)


def explanation(partition: int, offset: int, message: pb.ExplainRecordResponse) -> Explanation:
    """Return the explanation of a message."""
    stored = message.HasField("page_first_offset")
    flight = message.flight
    return Explanation(
        partition=partition,
        offset=offset,
        place=enum(RecordPlace, pb.RecordPlace, message.place, "RECORD_PLACE_"),
        accepted_at=moment(message.accepted_at) if message.HasField("accepted_at") else None,
        page=(message.page_first_offset, message.page_last_offset) if stored else None,
        page_bytes=message.page_bytes,
        gap=gap(message.gap) if message.HasField("gap") else None,
        rejection=gap(message.rejection) if message.HasField("rejection") else None,
        subscription=message.subscription,
        state=enum(RecordState, pb.RecordState, message.state, "RECORD_STATE_"),
        flight=RecordFlight(flight.consumer_id, flight.owner_epoch, flight.revision, moment(flight.sent_at))
        if message.HasField("flight")
        else None,
        attempts=message.attempts,
        delivered_before=message.delivered_before,
        delivery_state=enum(DeliveryState, pb.DeliveryState, message.delivery_state, "DELIVERY_STATE_"),
        wait=enum(WaitReason, pb.WaitReason, message.wait, "WAIT_REASON_"),
        wait_until=moment(message.wait_until) if message.HasField("wait_until") else None,
        wait_detail=message.wait_detail,
        records_before=message.records_before,
        watermark=message.watermark,
        text=message.text,
        lease=RecordLease(message.lease.holder, moment(message.lease.taken_at), moment(message.lease.until))
        if message.HasField("lease")
        else None,
    )
