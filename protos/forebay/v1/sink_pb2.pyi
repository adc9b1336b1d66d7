import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Overflow(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OVERFLOW_UNSPECIFIED: _ClassVar[Overflow]
    OVERFLOW_DROP_OLDEST: _ClassVar[Overflow]
    OVERFLOW_REJECT: _ClassVar[Overflow]

class Ordering(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ORDERING_UNSPECIFIED: _ClassVar[Ordering]
    ORDERING_STRICT: _ClassVar[Ordering]
    ORDERING_RELAXED: _ClassVar[Ordering]

class BufferMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BUFFER_MODE_UNSPECIFIED: _ClassVar[BufferMode]
    BUFFER_MODE_DISK: _ClassVar[BufferMode]
    BUFFER_MODE_SPILL: _ClassVar[BufferMode]
    BUFFER_MODE_MEMORY: _ClassVar[BufferMode]
OVERFLOW_UNSPECIFIED: Overflow
OVERFLOW_DROP_OLDEST: Overflow
OVERFLOW_REJECT: Overflow
ORDERING_UNSPECIFIED: Ordering
ORDERING_STRICT: Ordering
ORDERING_RELAXED: Ordering
BUFFER_MODE_UNSPECIFIED: BufferMode
BUFFER_MODE_DISK: BufferMode
BUFFER_MODE_SPILL: BufferMode
BUFFER_MODE_MEMORY: BufferMode

class SinkSettings(_message.Message):
    __slots__ = ("partitions", "buffer_page_size", "max_disk_cache", "max_total_bytes", "overflow", "in_flight_bytes_max", "resend_interval", "retry_backoff_min", "retry_backoff_max", "retry_backoff_factor", "ack_deadline", "writer_ttl", "staging_ttl", "realtime", "tail_bytes_max", "max_age", "clean_cache_at_stop", "memory_overload_protection", "retain_acked_time", "retain_acked_bytes", "ordering", "resend_priority", "relaxed_failures_max", "max_attempts", "dlq", "dlq_ratio_max", "dlq_consecutive_max", "buffer_mode", "fsync", "volatile", "memory_cache_threshold")
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    BUFFER_PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    MAX_DISK_CACHE_FIELD_NUMBER: _ClassVar[int]
    MAX_TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    OVERFLOW_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    RESEND_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    RETRY_BACKOFF_MIN_FIELD_NUMBER: _ClassVar[int]
    RETRY_BACKOFF_MAX_FIELD_NUMBER: _ClassVar[int]
    RETRY_BACKOFF_FACTOR_FIELD_NUMBER: _ClassVar[int]
    ACK_DEADLINE_FIELD_NUMBER: _ClassVar[int]
    WRITER_TTL_FIELD_NUMBER: _ClassVar[int]
    STAGING_TTL_FIELD_NUMBER: _ClassVar[int]
    REALTIME_FIELD_NUMBER: _ClassVar[int]
    TAIL_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    MAX_AGE_FIELD_NUMBER: _ClassVar[int]
    CLEAN_CACHE_AT_STOP_FIELD_NUMBER: _ClassVar[int]
    MEMORY_OVERLOAD_PROTECTION_FIELD_NUMBER: _ClassVar[int]
    RETAIN_ACKED_TIME_FIELD_NUMBER: _ClassVar[int]
    RETAIN_ACKED_BYTES_FIELD_NUMBER: _ClassVar[int]
    ORDERING_FIELD_NUMBER: _ClassVar[int]
    RESEND_PRIORITY_FIELD_NUMBER: _ClassVar[int]
    RELAXED_FAILURES_MAX_FIELD_NUMBER: _ClassVar[int]
    MAX_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    DLQ_FIELD_NUMBER: _ClassVar[int]
    DLQ_RATIO_MAX_FIELD_NUMBER: _ClassVar[int]
    DLQ_CONSECUTIVE_MAX_FIELD_NUMBER: _ClassVar[int]
    BUFFER_MODE_FIELD_NUMBER: _ClassVar[int]
    FSYNC_FIELD_NUMBER: _ClassVar[int]
    VOLATILE_FIELD_NUMBER: _ClassVar[int]
    MEMORY_CACHE_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    partitions: int
    buffer_page_size: int
    max_disk_cache: int
    max_total_bytes: int
    overflow: Overflow
    in_flight_bytes_max: int
    resend_interval: _duration_pb2.Duration
    retry_backoff_min: _duration_pb2.Duration
    retry_backoff_max: _duration_pb2.Duration
    retry_backoff_factor: float
    ack_deadline: _duration_pb2.Duration
    writer_ttl: _duration_pb2.Duration
    staging_ttl: _duration_pb2.Duration
    realtime: bool
    tail_bytes_max: int
    max_age: _duration_pb2.Duration
    clean_cache_at_stop: bool
    memory_overload_protection: bool
    retain_acked_time: _duration_pb2.Duration
    retain_acked_bytes: int
    ordering: Ordering
    resend_priority: int
    relaxed_failures_max: int
    max_attempts: int
    dlq: bool
    dlq_ratio_max: float
    dlq_consecutive_max: int
    buffer_mode: BufferMode
    fsync: bool
    volatile: bool
    memory_cache_threshold: int
    def __init__(self, partitions: _Optional[int] = ..., buffer_page_size: _Optional[int] = ..., max_disk_cache: _Optional[int] = ..., max_total_bytes: _Optional[int] = ..., overflow: _Optional[_Union[Overflow, str]] = ..., in_flight_bytes_max: _Optional[int] = ..., resend_interval: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., retry_backoff_min: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., retry_backoff_max: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., retry_backoff_factor: _Optional[float] = ..., ack_deadline: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., writer_ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., staging_ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., realtime: bool = ..., tail_bytes_max: _Optional[int] = ..., max_age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., clean_cache_at_stop: bool = ..., memory_overload_protection: bool = ..., retain_acked_time: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., retain_acked_bytes: _Optional[int] = ..., ordering: _Optional[_Union[Ordering, str]] = ..., resend_priority: _Optional[int] = ..., relaxed_failures_max: _Optional[int] = ..., max_attempts: _Optional[int] = ..., dlq: bool = ..., dlq_ratio_max: _Optional[float] = ..., dlq_consecutive_max: _Optional[int] = ..., buffer_mode: _Optional[_Union[BufferMode, str]] = ..., fsync: bool = ..., volatile: bool = ..., memory_cache_threshold: _Optional[int] = ...) -> None: ...

class Sink(_message.Message):
    __slots__ = ("name", "incarnation", "settings", "created_at")
    NAME_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    name: str
    incarnation: str
    settings: SinkSettings
    created_at: _timestamp_pb2.Timestamp
    def __init__(self, name: _Optional[str] = ..., incarnation: _Optional[str] = ..., settings: _Optional[_Union[SinkSettings, _Mapping]] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...
