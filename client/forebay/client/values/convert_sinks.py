"""Conversion between protobuf messages and the values of sinks."""

from __future__ import annotations

from typing import Any, Final, get_type_hints

from forebay.client.errors import InvalidArgument
from forebay.client.values.convert import duration, enum, moment, seconds
from forebay.client.values.records import DropReason, Durability
from forebay.client.values.sink_settings import Ordering, SinkOptions, SinkSettings
from forebay.client.values.sinks import (
    DeliveryState,
    LifetimeTotals,
    PartitionStats,
    ReaderMode,
    Sink,
    SinkStats,
    SubscriptionPartitionStats,
    SubscriptionStats,
)
from forebay.errors.reasons import Reason
from forebay.v1 import record_pb2, sink_pb2, sink_service_pb2

DURATIONS: Final = {
    f"{field.name}_s": field.name for field in sink_pb2.SinkSettings.DESCRIPTOR.fields if field.message_type is not None
}
"""Fields that are durations, by the names of their settings, which are in seconds."""

KINDS: Final = get_type_hints(SinkSettings)
PATHS: Final = {name: DURATIONS.get(name, name) for name in KINDS}
"""Fields by the names of settings."""

CHOICES: Final = {
    name: {value.name.removeprefix(values[0].name.removesuffix("UNSPECIFIED")): value.number for value in values[1:]}
    for name, values in (
        (field.name, field.enum_type.values)
        for field in sink_pb2.SinkSettings.DESCRIPTOR.fields
        if field.enum_type is not None
    )
}
"""Numbers of the choices, by the name of their setting and their own."""

MEMBERS: Final = {name: {number: KINDS[name](choice) for choice, number in CHOICES[name].items()} for name in CHOICES}


def _wrong(name: str, value: object, allowed: str) -> InvalidArgument:
    facts = {"field": name, "value": str(value), "allowed": allowed}
    return InvalidArgument(f"{name} = {value}: must be {allowed}", reason=Reason.INVALID_SETTING, facts=facts)


def _allowed(name: str) -> str:
    """Return the allowed values as text for people; the broker knows the bounds of a number."""
    if name in CHOICES:
        *choices, last = CHOICES[name]
        return f"{', '.join(choices)} or {last}"
    if name in DURATIONS:
        return "a number of seconds within its bounds"
    return "true or false" if KINDS[name] is bool else "a number within its bounds"


def settings_message(options: SinkOptions) -> tuple[sink_pb2.SinkSettings, list[str]]:
    """Return the wire form of the given settings and their field paths; raises ``INVALID_SETTING``."""
    message = sink_pb2.SinkSettings()
    given: dict[str, Any] = dict(options)
    for name, value in given.items():
        if name not in PATHS:
            raise _wrong(name, value, "one of " + ", ".join(sorted(PATHS)))
        try:
            if name in DURATIONS:
                getattr(message, PATHS[name]).CopyFrom(duration(value))
            else:
                setattr(message, name, CHOICES[name][str(value)] if name in CHOICES else value)
        except (KeyError, OverflowError, TypeError, ValueError) as failure:
            raise _wrong(name, value, _allowed(name)) from failure
    return message, [PATHS[name] for name in given]


def settings(message: sink_pb2.SinkSettings) -> SinkSettings:
    """Return all settings of a message; a choice that only a newer broker knows is ``UNSPECIFIED``."""
    values: dict[str, Any] = {name: getattr(message, path) for name, path in PATHS.items()}
    values |= {name: seconds(values[name]) for name in DURATIONS}
    values |= {name: members.get(values[name], KINDS[name]("UNSPECIFIED")) for name, members in MEMBERS.items()}
    return SinkSettings(**values)


def ordering(value: int) -> Ordering:
    """Return the ordering; STRICT for a broker that does not report one."""
    return Ordering.RELAXED if value == sink_pb2.ORDERING_RELAXED else Ordering.STRICT


def sink(message: sink_pb2.Sink) -> Sink:
    """Return a sink."""
    return Sink(
        name=message.name,
        incarnation=message.incarnation,
        settings=settings(message.settings),
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
