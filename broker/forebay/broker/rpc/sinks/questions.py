"""Queries of a sink's records and gaps, and the purge, between the wire and the runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from forebay.broker.core.backups.values import Restored
from forebay.broker.core.errors import BrokerError, InvalidPartition
from forebay.broker.core.partition.pages import Gap
from forebay.broker.rpc import convert
from forebay.broker.rpc.sinks.explanation_text import text
from forebay.broker.rpc.sinks.page_tokens import page_token, place_of
from forebay.broker.runtime.read.explanation import Explained
from forebay.broker.runtime.resources.slices import Slices
from forebay.broker.runtime.sink.buffer import Buffer
from forebay.broker.runtime.sink.retention.purge import Purged, Until
from forebay.errors.reasons import Reason
from forebay.v1 import sink_service_pb2 as pb

PAGE_SIZE: Final = 100
PAGE_SIZE_MAX: Final = 1_000


def purge_request(buffer: Buffer, request: pb.PurgeSinkRequest) -> tuple[list[int], Until]:
    """Return the requested partitions and bounds of a purge."""
    partitions = [log.number for log in buffer.logs]
    if request.HasField("partition"):
        partitions = [_partition(buffer, request.partition)]
    ends = {_partition(buffer, partition): end for partition, end in request.end_offsets.items()}
    if ends:
        partitions = [partition for partition in partitions if partition in ends]
    kind = request.WhichOneof("until")
    if kind == "until_offset":
        if len(partitions) > 1:
            raise BrokerError(
                Reason.INVALID_RANGE, "until_offset is an offset of one partition: name it", field="partition"
            )
        return partitions, Until(offset=request.until_offset, ends=ends)
    until_us = convert.timestamp_us(request.until_time) if kind == "until_time" else None
    return partitions, Until(time_us=until_us, ends=ends)


def purge_response(purged: Sequence[Purged]) -> pb.PurgeSinkResponse:
    """Return the result of a purge for the wire."""
    return pb.PurgeSinkResponse(
        partitions=[
            pb.PurgedPartition(
                partition=one.partition,
                records=one.records,
                bytes=one.size,
                pages=one.pages,
                earliest_offset=one.earliest,
            )
            for one in purged
        ]
    )


async def gaps_response(buffer: Buffer, request: pb.ListGapsRequest) -> pb.ListGapsResponse:
    """Return a page of gaps. The token is the place of the last one; later gaps below it are left out."""
    first, end = 0, len(buffer.logs)
    if request.HasField("partition"):
        first = _partition(buffer, request.partition)
        end = first + 1
    after = _place(place_of(buffer.record, request.page_token))
    size = min(request.page_size or PAGE_SIZE, PAGE_SIZE_MAX)
    chosen: list[tuple[int, Gap]] = []
    for log in buffer.logs[max(first, after[0]) : end]:
        begin = after[1] if log.number == after[0] else 0
        # Gaps of several subscriptions may begin at one offset: read as many more as may lie before the place.
        gaps = log.all_gaps_from(begin, size + 1 + len(buffer.subscriptions) + 1)
        chosen += [(log.number, gap) for gap in gaps if (log.number, gap.first, gap.subscription) > after]
        if len(chosen) > size:
            break
    more = len(chosen) > size
    chosen = chosen[:size]
    response = pb.ListGapsResponse(
        next_page_token=page_token(buffer.record, ":".join(map(str, _place_of(*chosen[-1]))) if more else "")
    )
    slices = Slices()
    for partition, gap in chosen:
        response.gaps.append(convert.gap(partition, gap))
        await slices.turn()
    return response


def _place_of(partition: int, gap: Gap) -> tuple[int, int, str]:
    return partition, gap.first, gap.subscription


def _place(spelled: str) -> tuple[int, int, str]:
    if not spelled:
        return -1, -1, ""
    partition, _, rest = spelled.partition(":")
    first, _, subscription = rest.partition(":")
    try:
        return int(partition), int(first), subscription
    except ValueError:
        raise BrokerError(
            Reason.INVALID_PAGE_TOKEN, "page_token was not issued by this broker", field="page_token"
        ) from None


def _partition(buffer: Buffer, partition: int) -> int:
    if partition >= len(buffer.logs):
        raise InvalidPartition(partition, len(buffer.logs))
    return partition


def explain_response(
    partition: int, subscription: str, explained: Explained, restored: Restored | None
) -> pb.ExplainRecordResponse:
    """Return the explanation of a record for the wire."""
    found = explained.explanation
    message = pb.ExplainRecordResponse(
        place=cast("pb.RecordPlace", int(found.place)),
        subscription=subscription,
        state=cast("pb.RecordState", int(found.state or 0)),
        attempts=found.attempts,
        delivered_before=found.delivered_before,
        delivery_state=cast("pb.DeliveryState", int(found.delivery)),
        wait=cast("pb.WaitReason", int(found.waiting.reason)),
        wait_detail=found.waiting.detail,
        records_before=found.before,
        watermark=found.watermark,
        text=text(explained, subscription, restored),
    )
    entry = found.entry
    if entry is not None:
        part = max((part for part in entry.parts if part.first <= found.offset), key=lambda part: part.first)
        message.accepted_at.CopyFrom(convert.timestamp(part.accepted_at_us))
        message.page_first_offset, message.page_last_offset = entry.base, entry.end - 1
        message.page_bytes = entry.size
        message.trace_id = convert.trace_id(part.traceparent)
    if found.durability is not None:
        message.durability = convert.durability(found.durability)
    if found.gap is not None:
        message.gap.CopyFrom(convert.gap(partition, found.gap))
    if found.rejection is not None:
        message.rejection.CopyFrom(convert.gap(partition, found.rejection))
    if found.owner is not None and found.sent_at is not None:
        message.flight.consumer_id = found.owner
        message.flight.owner_epoch = found.owner_epoch
        message.flight.revision = found.revision
        message.flight.sent_at.CopyFrom(convert.timestamp(explained.wall_us(found.sent_at)))
    if found.lease is not None and found.sent_at is not None:
        message.lease.holder = found.lease.holder
        message.lease.taken_at.CopyFrom(convert.timestamp(explained.wall_us(found.sent_at)))
        message.lease.until.CopyFrom(convert.timestamp(explained.wall_us(found.lease.until)))
    if found.waiting.until is not None:
        message.wait_until.CopyFrom(convert.timestamp(explained.wall_us(found.waiting.until)))
    return message
