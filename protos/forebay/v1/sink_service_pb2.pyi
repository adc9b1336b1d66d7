import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import field_mask_pb2 as _field_mask_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from forebay.v1 import record_pb2 as _record_pb2
from forebay.v1 import sink_pb2 as _sink_pb2
from forebay.v1 import subscription_pb2 as _subscription_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RecordPlace(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RECORD_PLACE_UNSPECIFIED: _ClassVar[RecordPlace]
    RECORD_PLACE_NOT_ASSIGNED: _ClassVar[RecordPlace]
    RECORD_PLACE_AWAITING_COMMIT: _ClassVar[RecordPlace]
    RECORD_PLACE_RECENT: _ClassVar[RecordPlace]
    RECORD_PLACE_DISK: _ClassVar[RecordPlace]
    RECORD_PLACE_DROPPED: _ClassVar[RecordPlace]
    RECORD_PLACE_TRIMMED: _ClassVar[RecordPlace]
    RECORD_PLACE_MISSING: _ClassVar[RecordPlace]
    RECORD_PLACE_MEMORY: _ClassVar[RecordPlace]

class RecordState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RECORD_STATE_UNSPECIFIED: _ClassVar[RecordState]
    RECORD_STATE_PENDING: _ClassVar[RecordState]
    RECORD_STATE_IN_FLIGHT: _ClassVar[RecordState]
    RECORD_STATE_ACKED: _ClassVar[RecordState]
    RECORD_STATE_DEAD_LETTERED: _ClassVar[RecordState]
    RECORD_STATE_DROPPED: _ClassVar[RecordState]
    RECORD_STATE_SKIPPED: _ClassVar[RecordState]
    RECORD_STATE_SETTLED: _ClassVar[RecordState]
    RECORD_STATE_BEFORE_START: _ClassVar[RecordState]
    RECORD_STATE_LEASED: _ClassVar[RecordState]

class WaitReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WAIT_REASON_UNSPECIFIED: _ClassVar[WaitReason]
    WAIT_REASON_NOTHING: _ClassVar[WaitReason]
    WAIT_REASON_RECORD: _ClassVar[WaitReason]
    WAIT_REASON_COMMIT: _ClassVar[WaitReason]
    WAIT_REASON_PAUSED: _ClassVar[WaitReason]
    WAIT_REASON_PURGE: _ClassVar[WaitReason]
    WAIT_REASON_NO_CONSUMER: _ClassVar[WaitReason]
    WAIT_REASON_PULL: _ClassVar[WaitReason]
    WAIT_REASON_MOVING: _ClassVar[WaitReason]
    WAIT_REASON_BACKING_OFF: _ClassVar[WaitReason]
    WAIT_REASON_PROBING: _ClassVar[WaitReason]
    WAIT_REASON_RESEND_INTERVAL: _ClassVar[WaitReason]
    WAIT_REASON_ACK_HOLES_FULL: _ClassVar[WaitReason]
    WAIT_REASON_IN_FLIGHT_LIMIT: _ClassVar[WaitReason]
    WAIT_REASON_NO_CREDIT: _ClassVar[WaitReason]
    WAIT_REASON_ANSWER: _ClassVar[WaitReason]
    WAIT_REASON_BEHIND: _ClassVar[WaitReason]
    WAIT_REASON_PARKED: _ClassVar[WaitReason]
    WAIT_REASON_DEAD_LETTER: _ClassVar[WaitReason]
    WAIT_REASON_DEAD_LETTERS_FULL: _ClassVar[WaitReason]
    WAIT_REASON_LEASE: _ClassVar[WaitReason]
    WAIT_REASON_READ_FAILED: _ClassVar[WaitReason]

class DeliveryState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DELIVERY_STATE_UNSPECIFIED: _ClassVar[DeliveryState]
    DELIVERY_STATE_FLOWING: _ClassVar[DeliveryState]
    DELIVERY_STATE_BACKING_OFF: _ClassVar[DeliveryState]
    DELIVERY_STATE_PROBING: _ClassVar[DeliveryState]
    DELIVERY_STATE_RESENDING: _ClassVar[DeliveryState]
    DELIVERY_STATE_PAUSED: _ClassVar[DeliveryState]

class ReaderMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    READER_MODE_UNSPECIFIED: _ClassVar[ReaderMode]
    READER_MODE_REALTIME: _ClassVar[ReaderMode]
    READER_MODE_CATCH_UP: _ClassVar[ReaderMode]
RECORD_PLACE_UNSPECIFIED: RecordPlace
RECORD_PLACE_NOT_ASSIGNED: RecordPlace
RECORD_PLACE_AWAITING_COMMIT: RecordPlace
RECORD_PLACE_RECENT: RecordPlace
RECORD_PLACE_DISK: RecordPlace
RECORD_PLACE_DROPPED: RecordPlace
RECORD_PLACE_TRIMMED: RecordPlace
RECORD_PLACE_MISSING: RecordPlace
RECORD_PLACE_MEMORY: RecordPlace
RECORD_STATE_UNSPECIFIED: RecordState
RECORD_STATE_PENDING: RecordState
RECORD_STATE_IN_FLIGHT: RecordState
RECORD_STATE_ACKED: RecordState
RECORD_STATE_DEAD_LETTERED: RecordState
RECORD_STATE_DROPPED: RecordState
RECORD_STATE_SKIPPED: RecordState
RECORD_STATE_SETTLED: RecordState
RECORD_STATE_BEFORE_START: RecordState
RECORD_STATE_LEASED: RecordState
WAIT_REASON_UNSPECIFIED: WaitReason
WAIT_REASON_NOTHING: WaitReason
WAIT_REASON_RECORD: WaitReason
WAIT_REASON_COMMIT: WaitReason
WAIT_REASON_PAUSED: WaitReason
WAIT_REASON_PURGE: WaitReason
WAIT_REASON_NO_CONSUMER: WaitReason
WAIT_REASON_PULL: WaitReason
WAIT_REASON_MOVING: WaitReason
WAIT_REASON_BACKING_OFF: WaitReason
WAIT_REASON_PROBING: WaitReason
WAIT_REASON_RESEND_INTERVAL: WaitReason
WAIT_REASON_ACK_HOLES_FULL: WaitReason
WAIT_REASON_IN_FLIGHT_LIMIT: WaitReason
WAIT_REASON_NO_CREDIT: WaitReason
WAIT_REASON_ANSWER: WaitReason
WAIT_REASON_BEHIND: WaitReason
WAIT_REASON_PARKED: WaitReason
WAIT_REASON_DEAD_LETTER: WaitReason
WAIT_REASON_DEAD_LETTERS_FULL: WaitReason
WAIT_REASON_LEASE: WaitReason
WAIT_REASON_READ_FAILED: WaitReason
DELIVERY_STATE_UNSPECIFIED: DeliveryState
DELIVERY_STATE_FLOWING: DeliveryState
DELIVERY_STATE_BACKING_OFF: DeliveryState
DELIVERY_STATE_PROBING: DeliveryState
DELIVERY_STATE_RESENDING: DeliveryState
DELIVERY_STATE_PAUSED: DeliveryState
READER_MODE_UNSPECIFIED: ReaderMode
READER_MODE_REALTIME: ReaderMode
READER_MODE_CATCH_UP: ReaderMode

class CreateSinkRequest(_message.Message):
    __slots__ = ("name", "settings", "request_id", "shard")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    name: str
    settings: _sink_pb2.SinkSettings
    request_id: str
    shard: str
    def __init__(self, name: _Optional[str] = ..., settings: _Optional[_Union[_sink_pb2.SinkSettings, _Mapping]] = ..., request_id: _Optional[str] = ..., shard: _Optional[str] = ...) -> None: ...

class CreateSinkResponse(_message.Message):
    __slots__ = ("sink", "created")
    SINK_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    sink: _sink_pb2.Sink
    created: bool
    def __init__(self, sink: _Optional[_Union[_sink_pb2.Sink, _Mapping]] = ..., created: bool = ...) -> None: ...

class GetSinkRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class GetSinkResponse(_message.Message):
    __slots__ = ("sink",)
    SINK_FIELD_NUMBER: _ClassVar[int]
    sink: _sink_pb2.Sink
    def __init__(self, sink: _Optional[_Union[_sink_pb2.Sink, _Mapping]] = ...) -> None: ...

class ListSinksRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListSinksResponse(_message.Message):
    __slots__ = ("sinks", "next_page_token")
    SINKS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    sinks: _containers.RepeatedCompositeFieldContainer[_sink_pb2.Sink]
    next_page_token: str
    def __init__(self, sinks: _Optional[_Iterable[_Union[_sink_pb2.Sink, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class UpdateSinkRequest(_message.Message):
    __slots__ = ("name", "settings", "update_mask", "incarnation")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MASK_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    name: str
    settings: _sink_pb2.SinkSettings
    update_mask: _field_mask_pb2.FieldMask
    incarnation: str
    def __init__(self, name: _Optional[str] = ..., settings: _Optional[_Union[_sink_pb2.SinkSettings, _Mapping]] = ..., update_mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ..., incarnation: _Optional[str] = ...) -> None: ...

class UpdateSinkResponse(_message.Message):
    __slots__ = ("sink",)
    SINK_FIELD_NUMBER: _ClassVar[int]
    sink: _sink_pb2.Sink
    def __init__(self, sink: _Optional[_Union[_sink_pb2.Sink, _Mapping]] = ...) -> None: ...

class DeleteSinkRequest(_message.Message):
    __slots__ = ("name", "force", "dead_letters", "incarnation")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTERS_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    name: str
    force: bool
    dead_letters: bool
    incarnation: str
    def __init__(self, name: _Optional[str] = ..., force: bool = ..., dead_letters: bool = ..., incarnation: _Optional[str] = ...) -> None: ...

class DeleteSinkResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PauseSinkRequest(_message.Message):
    __slots__ = ("name", "reason", "incarnation")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    name: str
    reason: str
    incarnation: str
    def __init__(self, name: _Optional[str] = ..., reason: _Optional[str] = ..., incarnation: _Optional[str] = ...) -> None: ...

class PauseSinkResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ResumeSinkRequest(_message.Message):
    __slots__ = ("name", "incarnation")
    NAME_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    name: str
    incarnation: str
    def __init__(self, name: _Optional[str] = ..., incarnation: _Optional[str] = ...) -> None: ...

class ResumeSinkResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PurgeSinkRequest(_message.Message):
    __slots__ = ("name", "partition", "until_offset", "until_time", "incarnation", "end_offsets")
    class EndOffsetsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    UNTIL_OFFSET_FIELD_NUMBER: _ClassVar[int]
    UNTIL_TIME_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    END_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    name: str
    partition: int
    until_offset: int
    until_time: _timestamp_pb2.Timestamp
    incarnation: str
    end_offsets: _containers.ScalarMap[int, int]
    def __init__(self, name: _Optional[str] = ..., partition: _Optional[int] = ..., until_offset: _Optional[int] = ..., until_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., incarnation: _Optional[str] = ..., end_offsets: _Optional[_Mapping[int, int]] = ...) -> None: ...

class PurgedPartition(_message.Message):
    __slots__ = ("partition", "records", "bytes", "pages", "earliest_offset")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    PAGES_FIELD_NUMBER: _ClassVar[int]
    EARLIEST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    partition: int
    records: int
    bytes: int
    pages: int
    earliest_offset: int
    def __init__(self, partition: _Optional[int] = ..., records: _Optional[int] = ..., bytes: _Optional[int] = ..., pages: _Optional[int] = ..., earliest_offset: _Optional[int] = ...) -> None: ...

class PurgeSinkResponse(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[PurgedPartition]
    def __init__(self, partitions: _Optional[_Iterable[_Union[PurgedPartition, _Mapping]]] = ...) -> None: ...

class ListGapsRequest(_message.Message):
    __slots__ = ("sink", "partition", "page_size", "page_token")
    SINK_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    sink: str
    partition: int
    page_size: int
    page_token: str
    def __init__(self, sink: _Optional[str] = ..., partition: _Optional[int] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListGapsResponse(_message.Message):
    __slots__ = ("gaps", "next_page_token")
    GAPS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    gaps: _containers.RepeatedCompositeFieldContainer[_record_pb2.Gap]
    next_page_token: str
    def __init__(self, gaps: _Optional[_Iterable[_Union[_record_pb2.Gap, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ExplainRecordRequest(_message.Message):
    __slots__ = ("sink", "partition", "offset", "subscription", "incarnation")
    SINK_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    sink: str
    partition: int
    offset: int
    subscription: str
    incarnation: str
    def __init__(self, sink: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., subscription: _Optional[str] = ..., incarnation: _Optional[str] = ...) -> None: ...

class RecordFlight(_message.Message):
    __slots__ = ("consumer_id", "owner_epoch", "revision", "sent_at")
    CONSUMER_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    SENT_AT_FIELD_NUMBER: _ClassVar[int]
    consumer_id: str
    owner_epoch: int
    revision: int
    sent_at: _timestamp_pb2.Timestamp
    def __init__(self, consumer_id: _Optional[str] = ..., owner_epoch: _Optional[int] = ..., revision: _Optional[int] = ..., sent_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class RecordLease(_message.Message):
    __slots__ = ("holder", "taken_at", "until")
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    TAKEN_AT_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    holder: str
    taken_at: _timestamp_pb2.Timestamp
    until: _timestamp_pb2.Timestamp
    def __init__(self, holder: _Optional[str] = ..., taken_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ExplainRecordResponse(_message.Message):
    __slots__ = ("place", "accepted_at", "page_first_offset", "page_last_offset", "page_bytes", "durability", "gap", "subscription", "state", "flight", "attempts", "delivered_before", "delivery_state", "wait", "wait_until", "wait_detail", "records_before", "watermark", "text", "rejection", "lease", "trace_id")
    PLACE_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_AT_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    PAGE_LAST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    PAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    DURABILITY_FIELD_NUMBER: _ClassVar[int]
    GAP_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    FLIGHT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_BEFORE_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_STATE_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    WAIT_UNTIL_FIELD_NUMBER: _ClassVar[int]
    WAIT_DETAIL_FIELD_NUMBER: _ClassVar[int]
    RECORDS_BEFORE_FIELD_NUMBER: _ClassVar[int]
    WATERMARK_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    REJECTION_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    place: RecordPlace
    accepted_at: _timestamp_pb2.Timestamp
    page_first_offset: int
    page_last_offset: int
    page_bytes: int
    durability: _record_pb2.Durability
    gap: _record_pb2.Gap
    subscription: str
    state: RecordState
    flight: RecordFlight
    attempts: int
    delivered_before: bool
    delivery_state: DeliveryState
    wait: WaitReason
    wait_until: _timestamp_pb2.Timestamp
    wait_detail: str
    records_before: int
    watermark: int
    text: str
    rejection: _record_pb2.Gap
    lease: RecordLease
    trace_id: str
    def __init__(self, place: _Optional[_Union[RecordPlace, str]] = ..., accepted_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., page_first_offset: _Optional[int] = ..., page_last_offset: _Optional[int] = ..., page_bytes: _Optional[int] = ..., durability: _Optional[_Union[_record_pb2.Durability, str]] = ..., gap: _Optional[_Union[_record_pb2.Gap, _Mapping]] = ..., subscription: _Optional[str] = ..., state: _Optional[_Union[RecordState, str]] = ..., flight: _Optional[_Union[RecordFlight, _Mapping]] = ..., attempts: _Optional[int] = ..., delivered_before: bool = ..., delivery_state: _Optional[_Union[DeliveryState, str]] = ..., wait: _Optional[_Union[WaitReason, str]] = ..., wait_until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., wait_detail: _Optional[str] = ..., records_before: _Optional[int] = ..., watermark: _Optional[int] = ..., text: _Optional[str] = ..., rejection: _Optional[_Union[_record_pb2.Gap, _Mapping]] = ..., lease: _Optional[_Union[RecordLease, _Mapping]] = ..., trace_id: _Optional[str] = ...) -> None: ...

class GetSinkStatsRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class GetSinkStatsResponse(_message.Message):
    __slots__ = ("stats",)
    STATS_FIELD_NUMBER: _ClassVar[int]
    stats: SinkStats
    def __init__(self, stats: _Optional[_Union[SinkStats, _Mapping]] = ...) -> None: ...

class WatchSinkStatsRequest(_message.Message):
    __slots__ = ("name", "interval")
    NAME_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_FIELD_NUMBER: _ClassVar[int]
    name: str
    interval: _duration_pb2.Duration
    def __init__(self, name: _Optional[str] = ..., interval: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class WatchSinkStatsResponse(_message.Message):
    __slots__ = ("stats",)
    STATS_FIELD_NUMBER: _ClassVar[int]
    stats: SinkStats
    def __init__(self, stats: _Optional[_Union[SinkStats, _Mapping]] = ...) -> None: ...

class DropCount(_message.Message):
    __slots__ = ("reason", "records")
    REASON_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    reason: _record_pb2.DropReason
    records: int
    def __init__(self, reason: _Optional[_Union[_record_pb2.DropReason, str]] = ..., records: _Optional[int] = ...) -> None: ...

class PartitionStats(_message.Message):
    __slots__ = ("partition", "earliest_offset", "next_offset", "records", "bytes", "pages", "dropped", "memory_records", "memory_bytes", "durability")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    EARLIEST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    PAGES_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    MEMORY_RECORDS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    DURABILITY_FIELD_NUMBER: _ClassVar[int]
    partition: int
    earliest_offset: int
    next_offset: int
    records: int
    bytes: int
    pages: int
    dropped: _containers.RepeatedCompositeFieldContainer[DropCount]
    memory_records: int
    memory_bytes: int
    durability: _record_pb2.Durability
    def __init__(self, partition: _Optional[int] = ..., earliest_offset: _Optional[int] = ..., next_offset: _Optional[int] = ..., records: _Optional[int] = ..., bytes: _Optional[int] = ..., pages: _Optional[int] = ..., dropped: _Optional[_Iterable[_Union[DropCount, _Mapping]]] = ..., memory_records: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., durability: _Optional[_Union[_record_pb2.Durability, str]] = ...) -> None: ...

class SubscriptionPartitionStats(_message.Message):
    __slots__ = ("partition", "start_offset", "watermark", "acked", "dead_lettered", "dropped", "skipped", "pending", "pending_bytes", "pending_age", "in_flight", "redelivered", "state", "retry_at", "reason", "mode", "mode_switches", "identity_ok", "pages_behind", "holes", "parked_ranges", "parked_records", "waits_for_holes", "live_stopped", "leased_records", "mode_time", "realtime_lag", "catch_up_lag", "lifetime")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    WATERMARK_FIELD_NUMBER: _ClassVar[int]
    ACKED_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTERED_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    PENDING_BYTES_FIELD_NUMBER: _ClassVar[int]
    PENDING_AGE_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    REDELIVERED_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    RETRY_AT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    MODE_SWITCHES_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_OK_FIELD_NUMBER: _ClassVar[int]
    PAGES_BEHIND_FIELD_NUMBER: _ClassVar[int]
    HOLES_FIELD_NUMBER: _ClassVar[int]
    PARKED_RANGES_FIELD_NUMBER: _ClassVar[int]
    PARKED_RECORDS_FIELD_NUMBER: _ClassVar[int]
    WAITS_FOR_HOLES_FIELD_NUMBER: _ClassVar[int]
    LIVE_STOPPED_FIELD_NUMBER: _ClassVar[int]
    LEASED_RECORDS_FIELD_NUMBER: _ClassVar[int]
    MODE_TIME_FIELD_NUMBER: _ClassVar[int]
    REALTIME_LAG_FIELD_NUMBER: _ClassVar[int]
    CATCH_UP_LAG_FIELD_NUMBER: _ClassVar[int]
    LIFETIME_FIELD_NUMBER: _ClassVar[int]
    partition: int
    start_offset: int
    watermark: int
    acked: int
    dead_lettered: int
    dropped: int
    skipped: int
    pending: int
    pending_bytes: int
    pending_age: _duration_pb2.Duration
    in_flight: int
    redelivered: int
    state: DeliveryState
    retry_at: _timestamp_pb2.Timestamp
    reason: str
    mode: ReaderMode
    mode_switches: int
    identity_ok: bool
    pages_behind: int
    holes: int
    parked_ranges: int
    parked_records: int
    waits_for_holes: bool
    live_stopped: bool
    leased_records: int
    mode_time: _duration_pb2.Duration
    realtime_lag: PathLag
    catch_up_lag: PathLag
    lifetime: LifetimeTotals
    def __init__(self, partition: _Optional[int] = ..., start_offset: _Optional[int] = ..., watermark: _Optional[int] = ..., acked: _Optional[int] = ..., dead_lettered: _Optional[int] = ..., dropped: _Optional[int] = ..., skipped: _Optional[int] = ..., pending: _Optional[int] = ..., pending_bytes: _Optional[int] = ..., pending_age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., in_flight: _Optional[int] = ..., redelivered: _Optional[int] = ..., state: _Optional[_Union[DeliveryState, str]] = ..., retry_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., reason: _Optional[str] = ..., mode: _Optional[_Union[ReaderMode, str]] = ..., mode_switches: _Optional[int] = ..., identity_ok: bool = ..., pages_behind: _Optional[int] = ..., holes: _Optional[int] = ..., parked_ranges: _Optional[int] = ..., parked_records: _Optional[int] = ..., waits_for_holes: bool = ..., live_stopped: bool = ..., leased_records: _Optional[int] = ..., mode_time: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., realtime_lag: _Optional[_Union[PathLag, _Mapping]] = ..., catch_up_lag: _Optional[_Union[PathLag, _Mapping]] = ..., lifetime: _Optional[_Union[LifetimeTotals, _Mapping]] = ...) -> None: ...

class PathLag(_message.Message):
    __slots__ = ("records", "bytes", "age")
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    records: int
    bytes: int
    age: _duration_pb2.Duration
    def __init__(self, records: _Optional[int] = ..., bytes: _Optional[int] = ..., age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class LifetimeTotals(_message.Message):
    __slots__ = ("acked", "dead_lettered", "dropped", "skipped", "seeks")
    ACKED_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTERED_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    SEEKS_FIELD_NUMBER: _ClassVar[int]
    acked: int
    dead_lettered: int
    dropped: int
    skipped: int
    seeks: int
    def __init__(self, acked: _Optional[int] = ..., dead_lettered: _Optional[int] = ..., dropped: _Optional[int] = ..., skipped: _Optional[int] = ..., seeks: _Optional[int] = ...) -> None: ...

class SubscriptionStats(_message.Message):
    __slots__ = ("name", "partitions", "consumers", "settled_per_s")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    CONSUMERS_FIELD_NUMBER: _ClassVar[int]
    SETTLED_PER_S_FIELD_NUMBER: _ClassVar[int]
    name: str
    partitions: _containers.RepeatedCompositeFieldContainer[SubscriptionPartitionStats]
    consumers: int
    settled_per_s: float
    def __init__(self, name: _Optional[str] = ..., partitions: _Optional[_Iterable[_Union[SubscriptionPartitionStats, _Mapping]]] = ..., consumers: _Optional[int] = ..., settled_per_s: _Optional[float] = ...) -> None: ...

class SinkStats(_message.Message):
    __slots__ = ("name", "incarnation", "partitions", "subscriptions", "at", "identity_ok", "staged_tokens", "staged_records", "staged_bytes", "realtime", "tail_bytes", "appended_per_s", "limit_used", "full", "replays")
    NAME_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTIONS_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_OK_FIELD_NUMBER: _ClassVar[int]
    STAGED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    STAGED_RECORDS_FIELD_NUMBER: _ClassVar[int]
    STAGED_BYTES_FIELD_NUMBER: _ClassVar[int]
    REALTIME_FIELD_NUMBER: _ClassVar[int]
    TAIL_BYTES_FIELD_NUMBER: _ClassVar[int]
    APPENDED_PER_S_FIELD_NUMBER: _ClassVar[int]
    LIMIT_USED_FIELD_NUMBER: _ClassVar[int]
    FULL_FIELD_NUMBER: _ClassVar[int]
    REPLAYS_FIELD_NUMBER: _ClassVar[int]
    name: str
    incarnation: str
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionStats]
    subscriptions: _containers.RepeatedCompositeFieldContainer[SubscriptionStats]
    at: _timestamp_pb2.Timestamp
    identity_ok: bool
    staged_tokens: int
    staged_records: int
    staged_bytes: int
    realtime: bool
    tail_bytes: int
    appended_per_s: float
    limit_used: float
    full: bool
    replays: _containers.RepeatedCompositeFieldContainer[ReplayStats]
    def __init__(self, name: _Optional[str] = ..., incarnation: _Optional[str] = ..., partitions: _Optional[_Iterable[_Union[PartitionStats, _Mapping]]] = ..., subscriptions: _Optional[_Iterable[_Union[SubscriptionStats, _Mapping]]] = ..., at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., identity_ok: bool = ..., staged_tokens: _Optional[int] = ..., staged_records: _Optional[int] = ..., staged_bytes: _Optional[int] = ..., realtime: bool = ..., tail_bytes: _Optional[int] = ..., appended_per_s: _Optional[float] = ..., limit_used: _Optional[float] = ..., full: bool = ..., replays: _Optional[_Iterable[_Union[ReplayStats, _Mapping]]] = ...) -> None: ...

class ReplayStats(_message.Message):
    __slots__ = ("partition", "reader_id", "position", "mode", "mode_time", "mode_switches", "pending", "pending_bytes", "pending_age", "realtime_lag", "catch_up_lag")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    READER_ID_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    MODE_TIME_FIELD_NUMBER: _ClassVar[int]
    MODE_SWITCHES_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    PENDING_BYTES_FIELD_NUMBER: _ClassVar[int]
    PENDING_AGE_FIELD_NUMBER: _ClassVar[int]
    REALTIME_LAG_FIELD_NUMBER: _ClassVar[int]
    CATCH_UP_LAG_FIELD_NUMBER: _ClassVar[int]
    partition: int
    reader_id: str
    position: int
    mode: ReaderMode
    mode_time: _duration_pb2.Duration
    mode_switches: int
    pending: int
    pending_bytes: int
    pending_age: _duration_pb2.Duration
    realtime_lag: PathLag
    catch_up_lag: PathLag
    def __init__(self, partition: _Optional[int] = ..., reader_id: _Optional[str] = ..., position: _Optional[int] = ..., mode: _Optional[_Union[ReaderMode, str]] = ..., mode_time: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., mode_switches: _Optional[int] = ..., pending: _Optional[int] = ..., pending_bytes: _Optional[int] = ..., pending_age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., realtime_lag: _Optional[_Union[PathLag, _Mapping]] = ..., catch_up_lag: _Optional[_Union[PathLag, _Mapping]] = ...) -> None: ...
