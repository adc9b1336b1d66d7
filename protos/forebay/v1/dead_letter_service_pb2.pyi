import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from forebay.v1 import record_pb2 as _record_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DeadLetterReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DEAD_LETTER_REASON_UNSPECIFIED: _ClassVar[DeadLetterReason]
    DEAD_LETTER_REASON_REJECTED: _ClassVar[DeadLetterReason]
    DEAD_LETTER_REASON_MAX_ATTEMPTS: _ClassVar[DeadLetterReason]
DEAD_LETTER_REASON_UNSPECIFIED: DeadLetterReason
DEAD_LETTER_REASON_REJECTED: DeadLetterReason
DEAD_LETTER_REASON_MAX_ATTEMPTS: DeadLetterReason

class DeadLetterFilter(_message.Message):
    __slots__ = ("reason", "error_contains", "subscription", "partition", "origin_offsets", "from_time", "until_time", "error")
    REASON_FIELD_NUMBER: _ClassVar[int]
    ERROR_CONTAINS_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    FROM_TIME_FIELD_NUMBER: _ClassVar[int]
    UNTIL_TIME_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    reason: DeadLetterReason
    error_contains: str
    subscription: str
    partition: int
    origin_offsets: _record_pb2.OffsetRange
    from_time: _timestamp_pb2.Timestamp
    until_time: _timestamp_pb2.Timestamp
    error: str
    def __init__(self, reason: _Optional[_Union[DeadLetterReason, str]] = ..., error_contains: _Optional[str] = ..., subscription: _Optional[str] = ..., partition: _Optional[int] = ..., origin_offsets: _Optional[_Union[_record_pb2.OffsetRange, _Mapping]] = ..., from_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., until_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., error: _Optional[str] = ...) -> None: ...

class DeadLetter(_message.Message):
    __slots__ = ("partition", "offset", "reason", "error", "attempts", "subscription", "origin_incarnation", "origin_partition", "origin_offset", "time", "traceparent", "record", "uncut")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_INCARNATION_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_PARTITION_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_OFFSET_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    RECORD_FIELD_NUMBER: _ClassVar[int]
    UNCUT_FIELD_NUMBER: _ClassVar[int]
    partition: int
    offset: int
    reason: DeadLetterReason
    error: str
    attempts: int
    subscription: str
    origin_incarnation: str
    origin_partition: int
    origin_offset: int
    time: _timestamp_pb2.Timestamp
    traceparent: str
    record: _record_pb2.Record
    uncut: str
    def __init__(self, partition: _Optional[int] = ..., offset: _Optional[int] = ..., reason: _Optional[_Union[DeadLetterReason, str]] = ..., error: _Optional[str] = ..., attempts: _Optional[int] = ..., subscription: _Optional[str] = ..., origin_incarnation: _Optional[str] = ..., origin_partition: _Optional[int] = ..., origin_offset: _Optional[int] = ..., time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., traceparent: _Optional[str] = ..., record: _Optional[_Union[_record_pb2.Record, _Mapping]] = ..., uncut: _Optional[str] = ...) -> None: ...

class ListDeadLettersRequest(_message.Message):
    __slots__ = ("sink", "filter", "page_size", "page_token")
    SINK_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    sink: str
    filter: DeadLetterFilter
    page_size: int
    page_token: str
    def __init__(self, sink: _Optional[str] = ..., filter: _Optional[_Union[DeadLetterFilter, _Mapping]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListDeadLettersResponse(_message.Message):
    __slots__ = ("dead_letters", "next_page_token")
    DEAD_LETTERS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    dead_letters: _containers.RepeatedCompositeFieldContainer[DeadLetter]
    next_page_token: str
    def __init__(self, dead_letters: _Optional[_Iterable[_Union[DeadLetter, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class RedriveDeadLettersRequest(_message.Message):
    __slots__ = ("sink", "filter", "max_records", "page_token", "incarnation", "end_offsets")
    class EndOffsetsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    SINK_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    MAX_RECORDS_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    END_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    sink: str
    filter: DeadLetterFilter
    max_records: int
    page_token: str
    incarnation: str
    end_offsets: _containers.ScalarMap[int, int]
    def __init__(self, sink: _Optional[str] = ..., filter: _Optional[_Union[DeadLetterFilter, _Mapping]] = ..., max_records: _Optional[int] = ..., page_token: _Optional[str] = ..., incarnation: _Optional[str] = ..., end_offsets: _Optional[_Mapping[int, int]] = ...) -> None: ...

class RedriveDeadLettersResponse(_message.Message):
    __slots__ = ("redriven", "next_page_token")
    REDRIVEN_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    redriven: int
    next_page_token: str
    def __init__(self, redriven: _Optional[int] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class PurgeDeadLettersRequest(_message.Message):
    __slots__ = ("sink", "filter", "max_records", "page_token", "incarnation", "end_offsets")
    class EndOffsetsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    SINK_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    MAX_RECORDS_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    END_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    sink: str
    filter: DeadLetterFilter
    max_records: int
    page_token: str
    incarnation: str
    end_offsets: _containers.ScalarMap[int, int]
    def __init__(self, sink: _Optional[str] = ..., filter: _Optional[_Union[DeadLetterFilter, _Mapping]] = ..., max_records: _Optional[int] = ..., page_token: _Optional[str] = ..., incarnation: _Optional[str] = ..., end_offsets: _Optional[_Mapping[int, int]] = ...) -> None: ...

class PurgeDeadLettersResponse(_message.Message):
    __slots__ = ("purged", "next_page_token")
    PURGED_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    purged: int
    next_page_token: str
    def __init__(self, purged: _Optional[int] = ..., next_page_token: _Optional[str] = ...) -> None: ...
