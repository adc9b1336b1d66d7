import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from forebay.v1 import record_pb2 as _record_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PartitionOffsets(_message.Message):
    __slots__ = ("offsets",)
    class OffsetsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    offsets: _containers.ScalarMap[int, int]
    def __init__(self, offsets: _Optional[_Mapping[int, int]] = ...) -> None: ...

class Position(_message.Message):
    __slots__ = ("earliest", "latest", "offset", "offsets", "time")
    EARLIEST_FIELD_NUMBER: _ClassVar[int]
    LATEST_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    earliest: bool
    latest: bool
    offset: int
    offsets: PartitionOffsets
    time: _timestamp_pb2.Timestamp
    def __init__(self, earliest: bool = ..., latest: bool = ..., offset: _Optional[int] = ..., offsets: _Optional[_Union[PartitionOffsets, _Mapping]] = ..., time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class Subscription(_message.Message):
    __slots__ = ("sink", "name", "created_at", "start", "incarnation")
    SINK_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    sink: str
    name: str
    created_at: _timestamp_pb2.Timestamp
    start: Position
    incarnation: str
    def __init__(self, sink: _Optional[str] = ..., name: _Optional[str] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., start: _Optional[_Union[Position, _Mapping]] = ..., incarnation: _Optional[str] = ...) -> None: ...

class SubscriptionPlace(_message.Message):
    __slots__ = ("partition", "start_offset", "trimmed")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    TRIMMED_FIELD_NUMBER: _ClassVar[int]
    partition: int
    start_offset: int
    trimmed: _record_pb2.OffsetRange
    def __init__(self, partition: _Optional[int] = ..., start_offset: _Optional[int] = ..., trimmed: _Optional[_Union[_record_pb2.OffsetRange, _Mapping]] = ...) -> None: ...

class CreateSubscriptionRequest(_message.Message):
    __slots__ = ("sink", "name", "start", "or_earliest", "incarnation", "request_id")
    SINK_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    OR_EARLIEST_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    sink: str
    name: str
    start: Position
    or_earliest: bool
    incarnation: str
    request_id: str
    def __init__(self, sink: _Optional[str] = ..., name: _Optional[str] = ..., start: _Optional[_Union[Position, _Mapping]] = ..., or_earliest: bool = ..., incarnation: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class CreateSubscriptionResponse(_message.Message):
    __slots__ = ("subscription", "created", "places")
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    PLACES_FIELD_NUMBER: _ClassVar[int]
    subscription: Subscription
    created: bool
    places: _containers.RepeatedCompositeFieldContainer[SubscriptionPlace]
    def __init__(self, subscription: _Optional[_Union[Subscription, _Mapping]] = ..., created: bool = ..., places: _Optional[_Iterable[_Union[SubscriptionPlace, _Mapping]]] = ...) -> None: ...

class ListSubscriptionsRequest(_message.Message):
    __slots__ = ("sink",)
    SINK_FIELD_NUMBER: _ClassVar[int]
    sink: str
    def __init__(self, sink: _Optional[str] = ...) -> None: ...

class ListSubscriptionsResponse(_message.Message):
    __slots__ = ("subscriptions",)
    SUBSCRIPTIONS_FIELD_NUMBER: _ClassVar[int]
    subscriptions: _containers.RepeatedCompositeFieldContainer[Subscription]
    def __init__(self, subscriptions: _Optional[_Iterable[_Union[Subscription, _Mapping]]] = ...) -> None: ...

class DeleteSubscriptionRequest(_message.Message):
    __slots__ = ("sink", "name", "incarnation", "created_at", "subscription_incarnation")
    SINK_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_INCARNATION_FIELD_NUMBER: _ClassVar[int]
    sink: str
    name: str
    incarnation: str
    created_at: _timestamp_pb2.Timestamp
    subscription_incarnation: str
    def __init__(self, sink: _Optional[str] = ..., name: _Optional[str] = ..., incarnation: _Optional[str] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., subscription_incarnation: _Optional[str] = ...) -> None: ...

class DeleteSubscriptionResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SeekSubscriptionRequest(_message.Message):
    __slots__ = ("sink", "name", "to", "partition", "or_earliest", "incarnation", "subscription_incarnation")
    SINK_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OR_EARLIEST_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_INCARNATION_FIELD_NUMBER: _ClassVar[int]
    sink: str
    name: str
    to: Position
    partition: int
    or_earliest: bool
    incarnation: str
    subscription_incarnation: str
    def __init__(self, sink: _Optional[str] = ..., name: _Optional[str] = ..., to: _Optional[_Union[Position, _Mapping]] = ..., partition: _Optional[int] = ..., or_earliest: bool = ..., incarnation: _Optional[str] = ..., subscription_incarnation: _Optional[str] = ...) -> None: ...

class SeekSubscriptionResponse(_message.Message):
    __slots__ = ("places",)
    PLACES_FIELD_NUMBER: _ClassVar[int]
    places: _containers.RepeatedCompositeFieldContainer[SubscriptionPlace]
    def __init__(self, places: _Optional[_Iterable[_Union[SubscriptionPlace, _Mapping]]] = ...) -> None: ...

class SettleSubscriptionRequest(_message.Message):
    __slots__ = ("sink", "name", "offsets", "incarnation", "subscription_incarnation")
    class OffsetsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    SINK_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_INCARNATION_FIELD_NUMBER: _ClassVar[int]
    sink: str
    name: str
    offsets: _containers.ScalarMap[int, int]
    incarnation: str
    subscription_incarnation: str
    def __init__(self, sink: _Optional[str] = ..., name: _Optional[str] = ..., offsets: _Optional[_Mapping[int, int]] = ..., incarnation: _Optional[str] = ..., subscription_incarnation: _Optional[str] = ...) -> None: ...

class SettledPartition(_message.Message):
    __slots__ = ("partition", "acked", "watermark")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ACKED_FIELD_NUMBER: _ClassVar[int]
    WATERMARK_FIELD_NUMBER: _ClassVar[int]
    partition: int
    acked: int
    watermark: int
    def __init__(self, partition: _Optional[int] = ..., acked: _Optional[int] = ..., watermark: _Optional[int] = ...) -> None: ...

class SettleSubscriptionResponse(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[SettledPartition]
    def __init__(self, partitions: _Optional[_Iterable[_Union[SettledPartition, _Mapping]]] = ...) -> None: ...
