"""Sinks, their settings and their state, between the wire and the core."""

from __future__ import annotations

from typing import Any, Final, cast

from google.protobuf.field_mask_pb2 import FieldMask

from forebay.broker.core.errors import InvalidSetting
from forebay.broker.core.settings import SinkSettings
from forebay.broker.core.writes import SinkRecord
from forebay.broker.rpc.convert import duration, duration_us, timestamp
from forebay.broker.runtime.resources.slices import Slices
from forebay.broker.runtime.sink.buffer import Buffer
from forebay.broker.runtime.sink.statistics import LaneState, PartitionState, SinkState
from forebay.v1 import record_pb2, sink_pb2
from forebay.v1 import sink_service_pb2 as pb

LANES_TOGETHER: Final = 256
"""Lane states converted to messages before other tasks get a turn."""
_DURATIONS: Final = {
    "resend_interval": "resend_interval_us",
    "retry_backoff_min": "retry_backoff_min_us",
    "retry_backoff_max": "retry_backoff_max_us",
    "ack_deadline": "ack_deadline_us",
    "writer_ttl": "writer_ttl_us",
    "staging_ttl": "staging_ttl_us",
    "max_age": "max_age_us",
    "retain_acked_time": "retain_acked_time_us",
}
_PLAIN: Final = (
    "partitions",
    "buffer_page_size",
    "max_disk_cache",
    "max_total_bytes",
    "in_flight_bytes_max",
    "retry_backoff_factor",
    "realtime",
    "clean_cache_at_stop",
    "memory_overload_protection",
    "retain_acked_bytes",
    "resend_priority",
    "relaxed_failures_max",
    "max_attempts",
    "dlq",
    "dlq_ratio_max",
    "dlq_consecutive_max",
    "fsync",
    "volatile",
    "memory_cache_threshold",
)
PATHS: Final = (*_PLAIN, *_DURATIONS, "overflow", "ordering", "buffer_mode")
"""Every setting on the wire; a test compares them with those of the core."""


def given(settings: sink_pb2.SinkSettings) -> dict[str, Any]:
    """Return the settings that the message sets, by the core's names."""
    values: dict[str, Any] = {name: getattr(settings, name) for name in _PLAIN if settings.HasField(name)}
    for name, ours in _DURATIONS.items():
        if settings.HasField(name):
            values[ours] = duration_us(getattr(settings, name))
    if settings.overflow:
        values["overflow"] = int(settings.overflow)
    if settings.ordering:
        values["ordering"] = int(settings.ordering)
    if settings.buffer_mode:
        values["buffer_mode"] = int(settings.buffer_mode)
    return values


def masked(settings: sink_pb2.SinkSettings, mask: FieldMask, defaults: SinkSettings) -> dict[str, Any]:
    """Return new values of the settings in the mask; an unset one returns to its default."""
    if not mask.paths:
        raise InvalidSetting("update_mask", "", f"at least one of {', '.join(PATHS)}")
    values = given(settings)
    chosen: dict[str, Any] = {}
    for path in mask.paths:
        if path not in PATHS:
            raise InvalidSetting("update_mask", path, f"one of {', '.join(PATHS)}")
        ours = _DURATIONS.get(path, path)
        chosen[ours] = values.get(ours, getattr(defaults, ours))
    return chosen


def settings_message(settings: SinkSettings) -> sink_pb2.SinkSettings:
    """Return all settings for the wire."""
    plain: dict[str, Any] = {name: getattr(settings, name) for name in _PLAIN}
    durations: dict[str, Any] = {name: duration(getattr(settings, ours)) for name, ours in _DURATIONS.items()}
    overflow = cast("sink_pb2.Overflow", int(settings.overflow))
    ordering = cast("sink_pb2.Ordering", int(settings.ordering))
    buffer_mode = cast("sink_pb2.BufferMode", int(settings.buffer_mode))
    return sink_pb2.SinkSettings(**plain, **durations, overflow=overflow, ordering=ordering, buffer_mode=buffer_mode)


def sink(record: SinkRecord) -> sink_pb2.Sink:
    """Return a sink for the wire."""
    return sink_pb2.Sink(
        name=record.name,
        incarnation=record.incarnation,
        settings=settings_message(record.settings),
        created_at=timestamp(record.created_at_us),
    )


async def stats(buffer: Buffer, state: SinkState, at_us: int) -> pb.SinkStats:
    """Return the state of a sink for the wire; yields to other tasks during a large one."""
    message = pb.SinkStats(
        name=buffer.name,
        incarnation=buffer.record.incarnation,
        partitions=[_partition(each) for each in state.partitions],
        at=timestamp(at_us),
        identity_ok=all(lane.balances for _, _, lanes in state.subscriptions for lane in lanes),
        staged_tokens=len(buffer.staging.stages),
        staged_records=buffer.staging.records,
        staged_bytes=buffer.staging.size,
    )
    slices = Slices()
    for name, consumers, lanes in state.subscriptions:
        subscription = message.subscriptions.add(name=name, consumers=consumers)
        for first in range(0, len(lanes), LANES_TOGETHER):
            subscription.partitions.extend(_lane(lane) for lane in lanes[first : first + LANES_TOGETHER])
            await slices.turn()
    return message


def _partition(state: PartitionState) -> pb.PartitionStats:
    return pb.PartitionStats(
        partition=state.partition,
        earliest_offset=state.earliest,
        next_offset=state.next_offset,
        records=state.records,
        bytes=state.size,
        pages=state.pages,
        dropped=[
            pb.DropCount(reason=cast("record_pb2.DropReason", reason), records=records)
            for reason, records in state.dropped
        ],
        memory_records=state.memory_records,
        memory_bytes=state.memory_bytes,
        durability=cast("record_pb2.Durability", int(state.durability)),
    )


def _lane(state: LaneState) -> pb.SubscriptionPartitionStats:
    cursor = state.cursor
    message = pb.SubscriptionPartitionStats(
        partition=state.partition,
        start_offset=cursor.start,
        watermark=cursor.watermark,
        acked=cursor.acked,
        dead_lettered=cursor.dead_lettered,
        dropped=cursor.dropped,
        skipped=cursor.skipped,
        pending=state.pending,
        pending_bytes=state.pending_bytes,
        pending_age=duration(state.oldest_age_us),
        in_flight=state.in_flight,
        redelivered=state.redelivered,
        state=cast("pb.DeliveryState", int(state.state)),
        reason=state.reason,
        mode=_MODES[state.realtime],
        mode_switches=state.mode_switches,
        identity_ok=state.balances,
        pages_behind=state.pending_pages,
        lifetime=pb.LifetimeTotals(
            acked=state.lifetime.acked,
            dead_lettered=state.lifetime.dead_lettered,
            dropped=state.lifetime.dropped,
            skipped=state.lifetime.skipped,
            seeks=state.lifetime.seeks,
        ),
        holes=state.holes,
        parked_ranges=state.parked_ranges,
        parked_records=state.parked_records,
        leased_records=state.leased_records,
        waits_for_holes=state.waits_for_holes,
        live_stopped=state.live_stopped,
    )
    if state.retry_at_us is not None:
        message.retry_at.CopyFrom(timestamp(state.retry_at_us))
    return message


_MODES: Final = {
    None: pb.READER_MODE_UNSPECIFIED,
    True: pb.READER_MODE_REALTIME,
    False: pb.READER_MODE_CATCH_UP,
}
