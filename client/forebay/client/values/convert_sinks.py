"""Conversion between protobuf messages and the values of sinks."""

from __future__ import annotations

from typing import Final

from forebay.client.errors import InvalidSetting
from forebay.client.values.convert import duration, enum, moment, seconds
from forebay.client.values.records import DropReason, Durability
from forebay.client.values.sinks import (
    BufferMode,
    DeliveryState,
    LifetimeTotals,
    Ordering,
    Overflow,
    PartitionStats,
    ReaderMode,
    Sink,
    SinkOptions,
    SinkSettings,
    SinkStats,
    SubscriptionPartitionStats,
    SubscriptionStats,
)
from forebay.v1 import record_pb2, sink_pb2, sink_service_pb2

PLAIN: Final = (
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
DURATIONS: Final = {
    f"{name}_s": name
    for name in (
        "resend_interval",
        "retry_backoff_min",
        "retry_backoff_max",
        "ack_deadline",
        "writer_ttl",
        "staging_ttl",
        "max_age",
        "retain_acked_time",
    )
}
OVERFLOWS: Final = {
    Overflow.DROP_OLDEST: sink_pb2.OVERFLOW_DROP_OLDEST,
    Overflow.REJECT: sink_pb2.OVERFLOW_REJECT,
}
ORDERINGS: Final = {
    Ordering.STRICT: sink_pb2.ORDERING_STRICT,
    Ordering.RELAXED: sink_pb2.ORDERING_RELAXED,
}
BUFFER_MODES: Final = {
    BufferMode.DISK: sink_pb2.BUFFER_MODE_DISK,
    BufferMode.SPILL: sink_pb2.BUFFER_MODE_SPILL,
    BufferMode.MEMORY: sink_pb2.BUFFER_MODE_MEMORY,
}
CHOICES: Final = {
    "overflow": "DROP_OLDEST or REJECT",
    "ordering": "STRICT or RELAXED",
    "buffer_mode": "DISK, SPILL or MEMORY",
}
OPTIONS: Final = frozenset(SinkOptions.__annotations__)


def _wrong(name: str, value: object, allowed: str) -> InvalidSetting:
    facts = {"field": name, "value": str(value), "allowed": allowed}
    return InvalidSetting(f"{name} = {value}: must be {allowed}", facts=facts)


def settings_message(options: SinkOptions) -> tuple[sink_pb2.SinkSettings, list[str]]:
    """Return the wire form of the given settings and their field paths; raises ``InvalidSetting``."""
    message = sink_pb2.SinkSettings()
    paths = []
    given: dict[str, object] = dict(options)
    for name, value in given.items():
        path = DURATIONS.get(name, name)
        try:
            if name in PLAIN:
                setattr(message, name, value)
            elif name in DURATIONS and isinstance(value, int | float):
                getattr(message, path).CopyFrom(duration(value))
            elif name == "overflow":
                message.overflow = OVERFLOWS[Overflow(str(value))]
            elif name == "ordering":
                message.ordering = ORDERINGS[Ordering(str(value))]
            elif name == "buffer_mode":
                message.buffer_mode = BUFFER_MODES[BufferMode(str(value))]
            elif name in DURATIONS:
                raise _wrong(name, value, "seconds")
            else:
                raise _wrong(name, value, "one of " + ", ".join(sorted(OPTIONS)))
        except (TypeError, ValueError) as failure:
            raise _wrong(
                name, value, CHOICES.get(name, "a number within its bounds, or a boolean where the setting is a switch")
            ) from failure
        paths.append(path)
    return message, paths


def ordering(value: int) -> Ordering:
    """Return the ordering; STRICT for a broker that does not report one."""
    return Ordering.RELAXED if value == sink_pb2.ORDERING_RELAXED else Ordering.STRICT


def sink(message: sink_pb2.Sink) -> Sink:
    """Return a sink."""
    settings = message.settings
    dropping = settings.overflow == sink_pb2.OVERFLOW_DROP_OLDEST
    return Sink(
        name=message.name,
        incarnation=message.incarnation,
        settings=SinkSettings(
            overflow=Overflow.DROP_OLDEST if dropping else Overflow.REJECT,
            partitions=settings.partitions,
            buffer_page_size=settings.buffer_page_size,
            max_disk_cache=settings.max_disk_cache,
            max_total_bytes=settings.max_total_bytes,
            in_flight_bytes_max=settings.in_flight_bytes_max,
            resend_interval_s=seconds(settings.resend_interval),
            retry_backoff_min_s=seconds(settings.retry_backoff_min),
            retry_backoff_max_s=seconds(settings.retry_backoff_max),
            retry_backoff_factor=settings.retry_backoff_factor,
            ack_deadline_s=seconds(settings.ack_deadline),
            writer_ttl_s=seconds(settings.writer_ttl),
            staging_ttl_s=seconds(settings.staging_ttl),
            realtime=settings.realtime,
            max_age_s=seconds(settings.max_age),
            clean_cache_at_stop=settings.clean_cache_at_stop,
            memory_overload_protection=settings.memory_overload_protection,
            retain_acked_time_s=seconds(settings.retain_acked_time),
            retain_acked_bytes=settings.retain_acked_bytes,
            ordering=ordering(settings.ordering),
            resend_priority=settings.resend_priority,
            relaxed_failures_max=settings.relaxed_failures_max,
            max_attempts=settings.max_attempts,
            dlq=settings.dlq,
            dlq_ratio_max=settings.dlq_ratio_max,
            dlq_consecutive_max=settings.dlq_consecutive_max,
            buffer_mode=enum(BufferMode, sink_pb2.BufferMode, settings.buffer_mode, "BUFFER_MODE_"),
            fsync=settings.fsync,
            volatile=settings.volatile,
            memory_cache_threshold=settings.memory_cache_threshold,
        ),
        created_at=moment(message.created_at),
    )


def _partition(message: sink_service_pb2.PartitionStats) -> PartitionStats:
    return PartitionStats(
        partition=message.partition,
        earliest_offset=message.earliest_offset,
        next_offset=message.next_offset,
        records=message.records,
        bytes=message.bytes,
        pages=message.pages,
        dropped={
            enum(DropReason, record_pb2.DropReason, count.reason, "DROP_REASON_"): count.records
            for count in message.dropped
        },
        memory_records=message.memory_records,
        memory_bytes=message.memory_bytes,
        durability=enum(Durability, record_pb2.Durability, message.durability, "DURABILITY_"),
    )


def _account(message: sink_service_pb2.SubscriptionPartitionStats) -> SubscriptionPartitionStats:
    return SubscriptionPartitionStats(
        partition=message.partition,
        start_offset=message.start_offset,
        watermark=message.watermark,
        acked=message.acked,
        dead_lettered=message.dead_lettered,
        dropped=message.dropped,
        skipped=message.skipped,
        pending=message.pending,
        pending_bytes=message.pending_bytes,
        pending_age_s=seconds(message.pending_age),
        in_flight=message.in_flight,
        redelivered=message.redelivered,
        state=enum(DeliveryState, sink_service_pb2.DeliveryState, message.state, "DELIVERY_STATE_"),
        retry_at=moment(message.retry_at) if message.HasField("retry_at") else None,
        reason=message.reason,
        mode=enum(ReaderMode, sink_service_pb2.ReaderMode, message.mode, "READER_MODE_"),
        mode_switches=message.mode_switches,
        identity_ok=message.identity_ok,
        pages_behind=message.pages_behind,
        lifetime=LifetimeTotals(
            acked=message.lifetime.acked,
            dead_lettered=message.lifetime.dead_lettered,
            dropped=message.lifetime.dropped,
            skipped=message.lifetime.skipped,
            seeks=message.lifetime.seeks,
        ),
        holes=message.holes,
        parked_ranges=message.parked_ranges,
        parked_records=message.parked_records,
        waits_for_holes=message.waits_for_holes,
        live_stopped=message.live_stopped,
        leased_records=message.leased_records,
    )


def stats(message: sink_service_pb2.SinkStats) -> SinkStats:
    """Return the statistics of a sink."""
    return SinkStats(
        name=message.name,
        incarnation=message.incarnation,
        partitions=tuple(_partition(one) for one in message.partitions),
        subscriptions=tuple(
            SubscriptionStats(one.name, tuple(_account(part) for part in one.partitions), one.consumers)
            for one in message.subscriptions
        ),
        at=moment(message.at),
        identity_ok=message.identity_ok,
        staged_tokens=message.staged_tokens,
        staged_records=message.staged_records,
        staged_bytes=message.staged_bytes,
    )
