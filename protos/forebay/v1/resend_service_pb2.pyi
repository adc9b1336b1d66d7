import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from forebay.v1 import buffer_service_pb2 as _buffer_service_pb2
from forebay.v1 import record_pb2 as _record_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ResendRanges(_message.Message):
    __slots__ = ("partition", "account", "ranges", "attempts")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    partition: int
    account: int
    ranges: _containers.RepeatedCompositeFieldContainer[_record_pb2.OffsetRange]
    attempts: _containers.RepeatedCompositeFieldContainer[_buffer_service_pb2.Attempt]
    def __init__(self, partition: _Optional[int] = ..., account: _Optional[int] = ..., ranges: _Optional[_Iterable[_Union[_record_pb2.OffsetRange, _Mapping]]] = ..., attempts: _Optional[_Iterable[_Union[_buffer_service_pb2.Attempt, _Mapping]]] = ...) -> None: ...

class LeaseResendsRequest(_message.Message):
    __slots__ = ("sink", "subscription", "holder", "duration", "max_records", "max_bytes", "before_due", "ranges", "incarnation", "subscription_incarnation")
    SINK_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    MAX_RECORDS_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    BEFORE_DUE_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_INCARNATION_FIELD_NUMBER: _ClassVar[int]
    sink: str
    subscription: str
    holder: str
    duration: _duration_pb2.Duration
    max_records: int
    max_bytes: int
    before_due: bool
    ranges: _containers.RepeatedCompositeFieldContainer[ResendRanges]
    incarnation: str
    subscription_incarnation: str
    def __init__(self, sink: _Optional[str] = ..., subscription: _Optional[str] = ..., holder: _Optional[str] = ..., duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., max_records: _Optional[int] = ..., max_bytes: _Optional[int] = ..., before_due: bool = ..., ranges: _Optional[_Iterable[_Union[ResendRanges, _Mapping]]] = ..., incarnation: _Optional[str] = ..., subscription_incarnation: _Optional[str] = ...) -> None: ...

class LeaseResendsResponse(_message.Message):
    __slots__ = ("partitions", "incarnation", "duration", "subscription_incarnation")
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_INCARNATION_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[ResendRanges]
    incarnation: str
    duration: _duration_pb2.Duration
    subscription_incarnation: str
    def __init__(self, partitions: _Optional[_Iterable[_Union[ResendRanges, _Mapping]]] = ..., incarnation: _Optional[str] = ..., duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., subscription_incarnation: _Optional[str] = ...) -> None: ...

class SettleResendsRequest(_message.Message):
    __slots__ = ("sink", "subscription", "holder", "partitions", "incarnation", "subscription_incarnation")
    SINK_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_INCARNATION_FIELD_NUMBER: _ClassVar[int]
    sink: str
    subscription: str
    holder: str
    partitions: _containers.RepeatedCompositeFieldContainer[ResendRanges]
    incarnation: str
    subscription_incarnation: str
    def __init__(self, sink: _Optional[str] = ..., subscription: _Optional[str] = ..., holder: _Optional[str] = ..., partitions: _Optional[_Iterable[_Union[ResendRanges, _Mapping]]] = ..., incarnation: _Optional[str] = ..., subscription_incarnation: _Optional[str] = ...) -> None: ...

class SettleResendsResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[_buffer_service_pb2.SettleResult]
    def __init__(self, results: _Optional[_Iterable[_Union[_buffer_service_pb2.SettleResult, _Mapping]]] = ...) -> None: ...

class ReleaseResendsRequest(_message.Message):
    __slots__ = ("sink", "subscription", "holder", "incarnation", "subscription_incarnation")
    SINK_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_INCARNATION_FIELD_NUMBER: _ClassVar[int]
    sink: str
    subscription: str
    holder: str
    incarnation: str
    subscription_incarnation: str
    def __init__(self, sink: _Optional[str] = ..., subscription: _Optional[str] = ..., holder: _Optional[str] = ..., incarnation: _Optional[str] = ..., subscription_incarnation: _Optional[str] = ...) -> None: ...

class ReleaseResendsResponse(_message.Message):
    __slots__ = ("records",)
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    records: int
    def __init__(self, records: _Optional[int] = ...) -> None: ...
