"""Sinks, their settings and their state, between the wire and the core."""

from __future__ import annotations

from typing import Any, Final, cast

from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask

from forebay.broker.core.errors import InvalidSetting
from forebay.broker.core.settings import SECOND_US, SETTINGS, SinkSettings
from forebay.broker.core.writes import SinkRecord
from forebay.broker.rpc.convert import duration, duration_us, timestamp
from forebay.broker.runtime.instruments import PathLag
from forebay.broker.runtime.resources.slices import Slices
from forebay.broker.runtime.sink.buffer import Buffer
from forebay.broker.runtime.sink.statistics import LaneState, PartitionState, ReaderState, SinkState
from forebay.v1 import record_pb2, sink_pb2
from forebay.v1 import sink_service_pb2 as pb

LANES_PER_TURN: Final = 256
"""Lane states converted to messages before other tasks get a turn."""
_BY_FIELD: Final = {setting.wire_name: setting for setting in SETTINGS}
"""Settings by the names of their fields, which the paths of a mask name too."""

_DURATIONS: Final = frozenset(setting.wire_name for setting in SETTINGS if setting.is_duration)


def given(settings: sink_pb2.SinkSettings) -> dict[str, Any]:
    """Return the settings that the message sets, by the core's names."""
    return {
        _BY_FIELD[field.name].name: _duration_us(field.name, value) if field.name in _DURATIONS else value
        for field, value in settings.ListFields()
    }


def _duration_us(name: str, value: Duration) -> int:
    """Return microseconds; less than one is no 0, which has a meaning of its own."""
    found = duration_us(value)
    if not found and value.nanos:
        raise InvalidSetting(name, f"{value.nanos} ns", _BY_FIELD[name].allowed)
    return found


def masked(settings: sink_pb2.SinkSettings, mask: FieldMask, defaults: SinkSettings) -> dict[str, Any]:
    """Return new values of the settings in the mask; an unset one returns to its default."""
    if not mask.paths:
        raise InvalidSetting("update_mask", "", f"at least one of {', '.join(_BY_FIELD)}")
    for path in mask.paths:
        if path not in _BY_FIELD:
            raise InvalidSetting("update_mask", path, f"one of {', '.join(_BY_FIELD)}")
    values = given(settings)
    names = [_BY_FIELD[path].name for path in mask.paths]
    return {name: values.get(name, getattr(defaults, name)) for name in names}


def settings_message(settings: SinkSettings) -> sink_pb2.SinkSettings:
    """Return all settings for the wire."""
    values: dict[str, Any] = {field: getattr(settings, setting.name) for field, setting in _BY_FIELD.items()}
    values |= {field: duration(values[field]) for field in _DURATIONS}
    return sink_pb2.SinkSettings(**values)


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
        identity_ok=all(lane.balances for each in state.subscriptions for lane in each.lanes),
        staged_tokens=len(buffer.staging.stages),
        staged_records=buffer.state.staged.records,
        staged_bytes=buffer.state.staged.size,
        realtime=state.realtime,
        tail_bytes=state.tail_bytes,
        appended_per_s=state.appended_per_s,
        limit_used=state.limit_used,
        full=state.full,
    )
    slices = Slices()
    for each in state.subscriptions:
        subscription = message.subscriptions.add(
            name=each.name, consumers=each.consumers, settled_per_s=each.settled_per_s
        )
        for first in range(0, len(each.lanes), LANES_PER_TURN):
            subscription.partitions.extend(_lane(lane) for lane in each.lanes[first : first + LANES_PER_TURN])
            await slices.turn()
    for first in range(0, len(state.readers), LANES_PER_TURN):
        message.replays.extend(_replay(reader) for reader in state.readers[first : first + LANES_PER_TURN])
        await slices.turn()
    return message


def _replay(state: ReaderState) -> pb.ReplayStats:
    return pb.ReplayStats(
        partition=state.partition,
        reader_id=state.client_id,
        position=state.position,
        mode=reader_mode(state.realtime),
        mode_time=duration(round(state.mode_s * SECOND_US)),
        mode_switches=state.mode_switches,
        pending=state.pending,
        pending_bytes=state.pending_bytes,
        pending_age=duration(state.oldest_age_us),
        realtime_lag=_path(state.in_memory),
        catch_up_lag=_path(state.in_store),
    )


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
        mode=reader_mode(state.realtime),
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
        mode_time=duration(round(state.mode_s * SECOND_US)),
        realtime_lag=_path(state.in_memory),
        catch_up_lag=_path(state.in_store),
    )
    if state.retry_at_us is not None:
        message.retry_at.CopyFrom(timestamp(state.retry_at_us))
    return message


def _path(lag: PathLag) -> pb.PathLag:
    return pb.PathLag(records=lag.records, bytes=lag.size, age=duration(lag.age_us))


def reader_mode(realtime: bool | None) -> pb.ReaderMode:
    """Return the mode of a reader for the wire."""
    return _MODES[realtime]


_MODES: Final = {
    None: pb.READER_MODE_UNSPECIFIED,
    True: pb.READER_MODE_REALTIME,
    False: pb.READER_MODE_CATCH_UP,
}
