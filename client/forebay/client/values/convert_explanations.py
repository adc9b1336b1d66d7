"""Conversion of the explanation of a record."""

from __future__ import annotations

from forebay.client.values.convert import enum, gap, moment
from forebay.client.values.explanations import (
    Explanation,
    RecordFlight,
    RecordLease,
    RecordPlace,
    RecordState,
    WaitReason,
)
from forebay.client.values.sinks import DeliveryState
from forebay.v1 import sink_service_pb2 as pb


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
