import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Durability(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DURABILITY_UNSPECIFIED: _ClassVar[Durability]
    DURABILITY_MEMORY: _ClassVar[Durability]
    DURABILITY_PROCESS: _ClassVar[Durability]
    DURABILITY_DISK: _ClassVar[Durability]
    DURABILITY_REPLICATED: _ClassVar[Durability]

class Encoding(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ENCODING_UNSPECIFIED: _ClassVar[Encoding]
    ENCODING_RECORDS: _ClassVar[Encoding]
    ENCODING_ARROW: _ClassVar[Encoding]

class DropReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DROP_REASON_UNSPECIFIED: _ClassVar[DropReason]
    DROP_REASON_OVERFLOW: _ClassVar[DropReason]
    DROP_REASON_CORRUPT: _ClassVar[DropReason]
    DROP_REASON_EXPIRED: _ClassVar[DropReason]
    DROP_REASON_CLEANED_AT_STOP: _ClassVar[DropReason]
    DROP_REASON_PURGED: _ClassVar[DropReason]
    DROP_REASON_REJECTED_BY_TARGET: _ClassVar[DropReason]
    DROP_REASON_MEMORY_PRESSURE: _ClassVar[DropReason]
    DROP_REASON_WIPED_AT_START: _ClassVar[DropReason]
    DROP_REASON_LOST_IN_CRASH: _ClassVar[DropReason]
    DROP_REASON_RESTORED: _ClassVar[DropReason]
DURABILITY_UNSPECIFIED: Durability
DURABILITY_MEMORY: Durability
DURABILITY_PROCESS: Durability
DURABILITY_DISK: Durability
DURABILITY_REPLICATED: Durability
ENCODING_UNSPECIFIED: Encoding
ENCODING_RECORDS: Encoding
ENCODING_ARROW: Encoding
DROP_REASON_UNSPECIFIED: DropReason
DROP_REASON_OVERFLOW: DropReason
DROP_REASON_CORRUPT: DropReason
DROP_REASON_EXPIRED: DropReason
DROP_REASON_CLEANED_AT_STOP: DropReason
DROP_REASON_PURGED: DropReason
DROP_REASON_REJECTED_BY_TARGET: DropReason
DROP_REASON_MEMORY_PRESSURE: DropReason
DROP_REASON_WIPED_AT_START: DropReason
DROP_REASON_LOST_IN_CRASH: DropReason
DROP_REASON_RESTORED: DropReason

class Header(_message.Message):
    __slots__ = ("key", "value", "text")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: bytes
    text: str
    def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ..., text: _Optional[str] = ...) -> None: ...

class Record(_message.Message):
    __slots__ = ("value", "key", "headers", "event_time", "text", "key_text")
    VALUE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIME_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    KEY_TEXT_FIELD_NUMBER: _ClassVar[int]
    value: bytes
    key: bytes
    headers: _containers.RepeatedCompositeFieldContainer[Header]
    event_time: _timestamp_pb2.Timestamp
    text: str
    key_text: str
    def __init__(self, value: _Optional[bytes] = ..., key: _Optional[bytes] = ..., headers: _Optional[_Iterable[_Union[Header, _Mapping]]] = ..., event_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., text: _Optional[str] = ..., key_text: _Optional[str] = ...) -> None: ...

class Headers(_message.Message):
    __slots__ = ("entries",)
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[Header]
    def __init__(self, entries: _Optional[_Iterable[_Union[Header, _Mapping]]] = ...) -> None: ...

class RecordRun(_message.Message):
    __slots__ = ("value_lengths", "values", "key_lengths", "keys", "event_times_us", "headers")
    VALUE_LENGTHS_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    KEY_LENGTHS_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIMES_US_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    value_lengths: _containers.RepeatedScalarFieldContainer[int]
    values: bytes
    key_lengths: _containers.RepeatedScalarFieldContainer[int]
    keys: bytes
    event_times_us: _containers.RepeatedScalarFieldContainer[int]
    headers: _containers.RepeatedCompositeFieldContainer[Headers]
    def __init__(self, value_lengths: _Optional[_Iterable[int]] = ..., values: _Optional[bytes] = ..., key_lengths: _Optional[_Iterable[int]] = ..., keys: _Optional[bytes] = ..., event_times_us: _Optional[_Iterable[int]] = ..., headers: _Optional[_Iterable[_Union[Headers, _Mapping]]] = ...) -> None: ...

class RecordPage(_message.Message):
    __slots__ = ("runs",)
    RUNS_FIELD_NUMBER: _ClassVar[int]
    runs: _containers.RepeatedCompositeFieldContainer[RecordRun]
    def __init__(self, runs: _Optional[_Iterable[_Union[RecordRun, _Mapping]]] = ...) -> None: ...

class ArrowPage(_message.Message):
    __slots__ = ("schema_version", "rows", "messages", "dictionary_columns", "dictionary_messages")
    SCHEMA_VERSION_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    DICTIONARY_COLUMNS_FIELD_NUMBER: _ClassVar[int]
    DICTIONARY_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    schema_version: int
    rows: int
    messages: bytes
    dictionary_columns: _containers.RepeatedCompositeFieldContainer[DictionaryColumn]
    dictionary_messages: bytes
    def __init__(self, schema_version: _Optional[int] = ..., rows: _Optional[int] = ..., messages: _Optional[bytes] = ..., dictionary_columns: _Optional[_Iterable[_Union[DictionaryColumn, _Mapping]]] = ..., dictionary_messages: _Optional[bytes] = ...) -> None: ...

class DictionaryColumn(_message.Message):
    __slots__ = ("column", "index_bytes")
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    INDEX_BYTES_FIELD_NUMBER: _ClassVar[int]
    column: int
    index_bytes: int
    def __init__(self, column: _Optional[int] = ..., index_bytes: _Optional[int] = ...) -> None: ...

class OffsetRange(_message.Message):
    __slots__ = ("first_offset", "last_offset")
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    first_offset: int
    last_offset: int
    def __init__(self, first_offset: _Optional[int] = ..., last_offset: _Optional[int] = ...) -> None: ...

class PagePart(_message.Message):
    __slots__ = ("first_offset", "accepted_at", "traceparent")
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_AT_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    first_offset: int
    accepted_at: _timestamp_pb2.Timestamp
    traceparent: str
    def __init__(self, first_offset: _Optional[int] = ..., accepted_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., traceparent: _Optional[str] = ...) -> None: ...

class StoredPage(_message.Message):
    __slots__ = ("base_offset", "record_count", "encoding", "crc32", "body", "parts")
    BASE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    RECORD_COUNT_FIELD_NUMBER: _ClassVar[int]
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    CRC32_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    base_offset: int
    record_count: int
    encoding: Encoding
    crc32: int
    body: bytes
    parts: _containers.RepeatedCompositeFieldContainer[PagePart]
    def __init__(self, base_offset: _Optional[int] = ..., record_count: _Optional[int] = ..., encoding: _Optional[_Union[Encoding, str]] = ..., crc32: _Optional[int] = ..., body: _Optional[bytes] = ..., parts: _Optional[_Iterable[_Union[PagePart, _Mapping]]] = ...) -> None: ...

class Receipt(_message.Message):
    __slots__ = ("sink", "partition", "first_offset", "last_offset", "durability", "duplicate", "staged")
    SINK_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    DURABILITY_FIELD_NUMBER: _ClassVar[int]
    DUPLICATE_FIELD_NUMBER: _ClassVar[int]
    STAGED_FIELD_NUMBER: _ClassVar[int]
    sink: str
    partition: int
    first_offset: int
    last_offset: int
    durability: Durability
    duplicate: bool
    staged: bool
    def __init__(self, sink: _Optional[str] = ..., partition: _Optional[int] = ..., first_offset: _Optional[int] = ..., last_offset: _Optional[int] = ..., durability: _Optional[_Union[Durability, str]] = ..., duplicate: bool = ..., staged: bool = ...) -> None: ...

class GapCount(_message.Message):
    __slots__ = ("reason", "records")
    REASON_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    reason: DropReason
    records: int
    def __init__(self, reason: _Optional[_Union[DropReason, str]] = ..., records: _Optional[int] = ...) -> None: ...

class Gap(_message.Message):
    __slots__ = ("partition", "first_offset", "last_offset", "reason", "at", "first_at", "counts", "subscription", "detail", "at_most")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    FIRST_AT_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    AT_MOST_FIELD_NUMBER: _ClassVar[int]
    partition: int
    first_offset: int
    last_offset: int
    reason: DropReason
    at: _timestamp_pb2.Timestamp
    first_at: _timestamp_pb2.Timestamp
    counts: _containers.RepeatedCompositeFieldContainer[GapCount]
    subscription: str
    detail: str
    at_most: bool
    def __init__(self, partition: _Optional[int] = ..., first_offset: _Optional[int] = ..., last_offset: _Optional[int] = ..., reason: _Optional[_Union[DropReason, str]] = ..., at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., first_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., counts: _Optional[_Iterable[_Union[GapCount, _Mapping]]] = ..., subscription: _Optional[str] = ..., detail: _Optional[str] = ..., at_most: bool = ...) -> None: ...
