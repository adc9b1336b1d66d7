import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import field_mask_pb2 as _field_mask_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from holdfast.v1 import record_pb2 as _record_pb2
from holdfast.v1 import sink_pb2 as _sink_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

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
    __slots__ = ("name", "settings")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    name: str
    settings: _sink_pb2.SinkSettings
    def __init__(self, name: _Optional[str] = ..., settings: _Optional[_Union[_sink_pb2.SinkSettings, _Mapping]] = ...) -> None: ...

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
    __slots__ = ("name", "settings", "update_mask")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    UPDATE_MASK_FIELD_NUMBER: _ClassVar[int]
    name: str
    settings: _sink_pb2.SinkSettings
    update_mask: _field_mask_pb2.FieldMask
    def __init__(self, name: _Optional[str] = ..., settings: _Optional[_Union[_sink_pb2.SinkSettings, _Mapping]] = ..., update_mask: _Optional[_Union[_field_mask_pb2.FieldMask, _Mapping]] = ...) -> None: ...

class UpdateSinkResponse(_message.Message):
    __slots__ = ("sink",)
    SINK_FIELD_NUMBER: _ClassVar[int]
    sink: _sink_pb2.Sink
    def __init__(self, sink: _Optional[_Union[_sink_pb2.Sink, _Mapping]] = ...) -> None: ...

class DeleteSinkRequest(_message.Message):
    __slots__ = ("name", "force", "dead_letters")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTERS_FIELD_NUMBER: _ClassVar[int]
    name: str
    force: bool
    dead_letters: bool
    def __init__(self, name: _Optional[str] = ..., force: bool = ..., dead_letters: bool = ...) -> None: ...

class DeleteSinkResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PauseSinkRequest(_message.Message):
    __slots__ = ("name", "reason")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    name: str
    reason: str
    def __init__(self, name: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class PauseSinkResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ResumeSinkRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ResumeSinkResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

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
    __slots__ = ("partition", "earliest_offset", "next_offset", "records", "bytes", "pages", "dropped")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    EARLIEST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    PAGES_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    partition: int
    earliest_offset: int
    next_offset: int
    records: int
    bytes: int
    pages: int
    dropped: _containers.RepeatedCompositeFieldContainer[DropCount]
    def __init__(self, partition: _Optional[int] = ..., earliest_offset: _Optional[int] = ..., next_offset: _Optional[int] = ..., records: _Optional[int] = ..., bytes: _Optional[int] = ..., pages: _Optional[int] = ..., dropped: _Optional[_Iterable[_Union[DropCount, _Mapping]]] = ...) -> None: ...

class SubscriptionPartitionStats(_message.Message):
    __slots__ = ("partition", "start_offset", "watermark", "acked", "dead_lettered", "dropped", "skipped", "pending", "pending_bytes", "pending_age", "in_flight", "redelivered", "state", "retry_at", "reason", "mode", "mode_switches", "identity_ok", "pages_behind")
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
    def __init__(self, partition: _Optional[int] = ..., start_offset: _Optional[int] = ..., watermark: _Optional[int] = ..., acked: _Optional[int] = ..., dead_lettered: _Optional[int] = ..., dropped: _Optional[int] = ..., skipped: _Optional[int] = ..., pending: _Optional[int] = ..., pending_bytes: _Optional[int] = ..., pending_age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., in_flight: _Optional[int] = ..., redelivered: _Optional[int] = ..., state: _Optional[_Union[DeliveryState, str]] = ..., retry_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., reason: _Optional[str] = ..., mode: _Optional[_Union[ReaderMode, str]] = ..., mode_switches: _Optional[int] = ..., identity_ok: bool = ..., pages_behind: _Optional[int] = ...) -> None: ...

class SubscriptionStats(_message.Message):
    __slots__ = ("name", "partitions", "consumers")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    CONSUMERS_FIELD_NUMBER: _ClassVar[int]
    name: str
    partitions: _containers.RepeatedCompositeFieldContainer[SubscriptionPartitionStats]
    consumers: int
    def __init__(self, name: _Optional[str] = ..., partitions: _Optional[_Iterable[_Union[SubscriptionPartitionStats, _Mapping]]] = ..., consumers: _Optional[int] = ...) -> None: ...

class SinkStats(_message.Message):
    __slots__ = ("name", "incarnation", "partitions", "subscriptions", "at", "identity_ok")
    NAME_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTIONS_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_OK_FIELD_NUMBER: _ClassVar[int]
    name: str
    incarnation: str
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionStats]
    subscriptions: _containers.RepeatedCompositeFieldContainer[SubscriptionStats]
    at: _timestamp_pb2.Timestamp
    identity_ok: bool
    def __init__(self, name: _Optional[str] = ..., incarnation: _Optional[str] = ..., partitions: _Optional[_Iterable[_Union[PartitionStats, _Mapping]]] = ..., subscriptions: _Optional[_Iterable[_Union[SubscriptionStats, _Mapping]]] = ..., at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., identity_ok: bool = ...) -> None: ...
