import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from forebay.v1 import sink_service_pb2 as _sink_service_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class BrokerState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BROKER_STATE_UNSPECIFIED: _ClassVar[BrokerState]
    BROKER_STATE_SERVING: _ClassVar[BrokerState]
    BROKER_STATE_DRAINING: _ClassVar[BrokerState]
    BROKER_STATE_FENCED: _ClassVar[BrokerState]
BROKER_STATE_UNSPECIFIED: BrokerState
BROKER_STATE_SERVING: BrokerState
BROKER_STATE_DRAINING: BrokerState
BROKER_STATE_FENCED: BrokerState

class GetBrokerInfoRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetBrokerInfoResponse(_message.Message):
    __slots__ = ("version", "store_id", "format", "start_count", "started_at", "state", "state_reason", "sinks", "sinks_max", "record_bytes_max", "page_bytes_max", "tail_bytes", "tail_bytes_max", "waiting_bytes", "data_dir", "groups", "quarantined_pages", "quarantined_bytes", "mended", "unreadable", "read_failures", "background_failures", "quarantine_evicted_pages", "warnings", "realtime", "realtime_chosen", "realtime_failure", "restored_from", "restored_backup_at", "restored_at", "now", "disk_free_bytes", "disk_reserve_bytes", "memory_used_bytes", "memory_limit_bytes", "memory_high_watermark", "backup_target", "newest_backup", "newest_backup_at", "journal", "owner_epoch", "journal_position", "journal_bytes", "journal_outage", "journal_outage_cause", "journal_durability")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STORE_ID_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    START_COUNT_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STATE_REASON_FIELD_NUMBER: _ClassVar[int]
    SINKS_FIELD_NUMBER: _ClassVar[int]
    SINKS_MAX_FIELD_NUMBER: _ClassVar[int]
    RECORD_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    PAGE_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    TAIL_BYTES_FIELD_NUMBER: _ClassVar[int]
    TAIL_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    WAITING_BYTES_FIELD_NUMBER: _ClassVar[int]
    DATA_DIR_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    QUARANTINED_PAGES_FIELD_NUMBER: _ClassVar[int]
    QUARANTINED_BYTES_FIELD_NUMBER: _ClassVar[int]
    MENDED_FIELD_NUMBER: _ClassVar[int]
    UNREADABLE_FIELD_NUMBER: _ClassVar[int]
    READ_FAILURES_FIELD_NUMBER: _ClassVar[int]
    BACKGROUND_FAILURES_FIELD_NUMBER: _ClassVar[int]
    QUARANTINE_EVICTED_PAGES_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    REALTIME_FIELD_NUMBER: _ClassVar[int]
    REALTIME_CHOSEN_FIELD_NUMBER: _ClassVar[int]
    REALTIME_FAILURE_FIELD_NUMBER: _ClassVar[int]
    RESTORED_FROM_FIELD_NUMBER: _ClassVar[int]
    RESTORED_BACKUP_AT_FIELD_NUMBER: _ClassVar[int]
    RESTORED_AT_FIELD_NUMBER: _ClassVar[int]
    NOW_FIELD_NUMBER: _ClassVar[int]
    DISK_FREE_BYTES_FIELD_NUMBER: _ClassVar[int]
    DISK_RESERVE_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_USED_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_LIMIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    BACKUP_TARGET_FIELD_NUMBER: _ClassVar[int]
    NEWEST_BACKUP_FIELD_NUMBER: _ClassVar[int]
    NEWEST_BACKUP_AT_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_FIELD_NUMBER: _ClassVar[int]
    OWNER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_POSITION_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_OUTAGE_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_OUTAGE_CAUSE_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_DURABILITY_FIELD_NUMBER: _ClassVar[int]
    version: str
    store_id: str
    format: int
    start_count: int
    started_at: _timestamp_pb2.Timestamp
    state: BrokerState
    state_reason: str
    sinks: int
    sinks_max: int
    record_bytes_max: int
    page_bytes_max: int
    tail_bytes: int
    tail_bytes_max: int
    waiting_bytes: int
    data_dir: str
    groups: int
    quarantined_pages: int
    quarantined_bytes: int
    mended: _containers.RepeatedScalarFieldContainer[str]
    unreadable: _containers.RepeatedScalarFieldContainer[str]
    read_failures: int
    background_failures: _containers.RepeatedScalarFieldContainer[str]
    quarantine_evicted_pages: int
    warnings: _containers.RepeatedScalarFieldContainer[str]
    realtime: bool
    realtime_chosen: bool
    realtime_failure: str
    restored_from: str
    restored_backup_at: _timestamp_pb2.Timestamp
    restored_at: _timestamp_pb2.Timestamp
    now: _timestamp_pb2.Timestamp
    disk_free_bytes: int
    disk_reserve_bytes: int
    memory_used_bytes: int
    memory_limit_bytes: int
    memory_high_watermark: float
    backup_target: str
    newest_backup: str
    newest_backup_at: _timestamp_pb2.Timestamp
    journal: str
    owner_epoch: int
    journal_position: int
    journal_bytes: int
    journal_outage: str
    journal_outage_cause: str
    journal_durability: str
    def __init__(self, version: _Optional[str] = ..., store_id: _Optional[str] = ..., format: _Optional[int] = ..., start_count: _Optional[int] = ..., started_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., state: _Optional[_Union[BrokerState, str]] = ..., state_reason: _Optional[str] = ..., sinks: _Optional[int] = ..., sinks_max: _Optional[int] = ..., record_bytes_max: _Optional[int] = ..., page_bytes_max: _Optional[int] = ..., tail_bytes: _Optional[int] = ..., tail_bytes_max: _Optional[int] = ..., waiting_bytes: _Optional[int] = ..., data_dir: _Optional[str] = ..., groups: _Optional[int] = ..., quarantined_pages: _Optional[int] = ..., quarantined_bytes: _Optional[int] = ..., mended: _Optional[_Iterable[str]] = ..., unreadable: _Optional[_Iterable[str]] = ..., read_failures: _Optional[int] = ..., background_failures: _Optional[_Iterable[str]] = ..., quarantine_evicted_pages: _Optional[int] = ..., warnings: _Optional[_Iterable[str]] = ..., realtime: bool = ..., realtime_chosen: bool = ..., realtime_failure: _Optional[str] = ..., restored_from: _Optional[str] = ..., restored_backup_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., restored_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., now: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., disk_free_bytes: _Optional[int] = ..., disk_reserve_bytes: _Optional[int] = ..., memory_used_bytes: _Optional[int] = ..., memory_limit_bytes: _Optional[int] = ..., memory_high_watermark: _Optional[float] = ..., backup_target: _Optional[str] = ..., newest_backup: _Optional[str] = ..., newest_backup_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., journal: _Optional[str] = ..., owner_epoch: _Optional[int] = ..., journal_position: _Optional[int] = ..., journal_bytes: _Optional[int] = ..., journal_outage: _Optional[str] = ..., journal_outage_cause: _Optional[str] = ..., journal_durability: _Optional[str] = ...) -> None: ...

class SetRealtimeRequest(_message.Message):
    __slots__ = ("sink", "enabled", "incarnation")
    SINK_FIELD_NUMBER: _ClassVar[int]
    ENABLED_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    sink: str
    enabled: bool
    incarnation: str
    def __init__(self, sink: _Optional[str] = ..., enabled: bool = ..., incarnation: _Optional[str] = ...) -> None: ...

class SetRealtimeResponse(_message.Message):
    __slots__ = ("enabled", "broker_enabled")
    ENABLED_FIELD_NUMBER: _ClassVar[int]
    BROKER_ENABLED_FIELD_NUMBER: _ClassVar[int]
    enabled: bool
    broker_enabled: bool
    def __init__(self, enabled: bool = ..., broker_enabled: bool = ...) -> None: ...

class ListConnectionsRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class Connection(_message.Message):
    __slots__ = ("peer", "opened_at", "used_at", "open_calls", "received_bytes", "sent_bytes", "unread_bytes", "streams")
    PEER_FIELD_NUMBER: _ClassVar[int]
    OPENED_AT_FIELD_NUMBER: _ClassVar[int]
    USED_AT_FIELD_NUMBER: _ClassVar[int]
    OPEN_CALLS_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_BYTES_FIELD_NUMBER: _ClassVar[int]
    SENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    UNREAD_BYTES_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    peer: str
    opened_at: _timestamp_pb2.Timestamp
    used_at: _timestamp_pb2.Timestamp
    open_calls: int
    received_bytes: int
    sent_bytes: int
    unread_bytes: int
    streams: _containers.RepeatedCompositeFieldContainer[ConnectedStream]
    def __init__(self, peer: _Optional[str] = ..., opened_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., used_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., open_calls: _Optional[int] = ..., received_bytes: _Optional[int] = ..., sent_bytes: _Optional[int] = ..., unread_bytes: _Optional[int] = ..., streams: _Optional[_Iterable[_Union[ConnectedStream, _Mapping]]] = ...) -> None: ...

class ConnectedStream(_message.Message):
    __slots__ = ("method", "sink", "subscription", "client_id", "principal", "opened_at", "records", "bytes", "records_per_s", "in_flight", "credit_records", "held_bytes", "partition", "position", "lag_records", "mode", "mode_time", "mode_switches", "program")
    METHOD_FIELD_NUMBER: _ClassVar[int]
    SINK_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    CLIENT_ID_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    OPENED_AT_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    RECORDS_PER_S_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    CREDIT_RECORDS_FIELD_NUMBER: _ClassVar[int]
    HELD_BYTES_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    LAG_RECORDS_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    MODE_TIME_FIELD_NUMBER: _ClassVar[int]
    MODE_SWITCHES_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    method: str
    sink: str
    subscription: str
    client_id: str
    principal: str
    opened_at: _timestamp_pb2.Timestamp
    records: int
    bytes: int
    records_per_s: float
    in_flight: int
    credit_records: int
    held_bytes: int
    partition: int
    position: int
    lag_records: int
    mode: _sink_service_pb2.ReaderMode
    mode_time: _duration_pb2.Duration
    mode_switches: int
    program: str
    def __init__(self, method: _Optional[str] = ..., sink: _Optional[str] = ..., subscription: _Optional[str] = ..., client_id: _Optional[str] = ..., principal: _Optional[str] = ..., opened_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., records: _Optional[int] = ..., bytes: _Optional[int] = ..., records_per_s: _Optional[float] = ..., in_flight: _Optional[int] = ..., credit_records: _Optional[int] = ..., held_bytes: _Optional[int] = ..., partition: _Optional[int] = ..., position: _Optional[int] = ..., lag_records: _Optional[int] = ..., mode: _Optional[_Union[_sink_service_pb2.ReaderMode, str]] = ..., mode_time: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., mode_switches: _Optional[int] = ..., program: _Optional[str] = ...) -> None: ...

class ListConnectionsResponse(_message.Message):
    __slots__ = ("connections", "next_page_token")
    CONNECTIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    connections: _containers.RepeatedCompositeFieldContainer[Connection]
    next_page_token: str
    def __init__(self, connections: _Optional[_Iterable[_Union[Connection, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class HandOverRequest(_message.Message):
    __slots__ = ("to",)
    TO_FIELD_NUMBER: _ClassVar[int]
    to: str
    def __init__(self, to: _Optional[str] = ...) -> None: ...

class HandOverResponse(_message.Message):
    __slots__ = ("owner_epoch", "already_owner")
    OWNER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    ALREADY_OWNER_FIELD_NUMBER: _ClassVar[int]
    owner_epoch: int
    already_owner: bool
    def __init__(self, owner_epoch: _Optional[int] = ..., already_owner: bool = ...) -> None: ...

class ListShardsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Shard(_message.Message):
    __slots__ = ("name", "endpoint", "owner_epoch", "journal")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    OWNER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_FIELD_NUMBER: _ClassVar[int]
    name: str
    endpoint: str
    owner_epoch: int
    journal: str
    def __init__(self, name: _Optional[str] = ..., endpoint: _Optional[str] = ..., owner_epoch: _Optional[int] = ..., journal: _Optional[str] = ...) -> None: ...

class ListShardsResponse(_message.Message):
    __slots__ = ("shard", "shards")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    shard: str
    shards: _containers.RepeatedCompositeFieldContainer[Shard]
    def __init__(self, shard: _Optional[str] = ..., shards: _Optional[_Iterable[_Union[Shard, _Mapping]]] = ...) -> None: ...
