import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EpochCheck(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EPOCH_CHECK_UNSPECIFIED: _ClassVar[EpochCheck]
    EPOCH_CHECK_CONTENT: _ClassVar[EpochCheck]
    EPOCH_CHECK_NONE: _ClassVar[EpochCheck]
EPOCH_CHECK_UNSPECIFIED: EpochCheck
EPOCH_CHECK_CONTENT: EpochCheck
EPOCH_CHECK_NONE: EpochCheck

class TakeTicketRequest(_message.Message):
    __slots__ = ("sink", "incarnation")
    SINK_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    sink: str
    incarnation: str
    def __init__(self, sink: _Optional[str] = ..., incarnation: _Optional[str] = ...) -> None: ...

class TakeTicketResponse(_message.Message):
    __slots__ = ("ticket",)
    TICKET_FIELD_NUMBER: _ClassVar[int]
    ticket: int
    def __init__(self, ticket: _Optional[int] = ...) -> None: ...

class StagedPart(_message.Message):
    __slots__ = ("partition", "pages", "records")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    PAGES_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    partition: int
    pages: int
    records: int
    def __init__(self, partition: _Optional[int] = ..., pages: _Optional[int] = ..., records: _Optional[int] = ...) -> None: ...

class StagedSummary(_message.Message):
    __slots__ = ("pages", "records", "digest")
    PAGES_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    pages: int
    records: int
    digest: bytes
    def __init__(self, pages: _Optional[int] = ..., records: _Optional[int] = ..., digest: _Optional[bytes] = ...) -> None: ...

class StagedToken(_message.Message):
    __slots__ = ("token", "parts", "summary")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    token: str
    parts: _containers.RepeatedCompositeFieldContainer[StagedPart]
    summary: StagedSummary
    def __init__(self, token: _Optional[str] = ..., parts: _Optional[_Iterable[_Union[StagedPart, _Mapping]]] = ..., summary: _Optional[_Union[StagedSummary, _Mapping]] = ...) -> None: ...

class EpochContent(_message.Message):
    __slots__ = ("records", "digest")
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    records: int
    digest: str
    def __init__(self, records: _Optional[int] = ..., digest: _Optional[str] = ...) -> None: ...

class EpochCommit(_message.Message):
    __slots__ = ("sink", "producer", "write_name", "epoch", "run", "ticket", "takeover", "tokens", "incarnation", "content", "check")
    SINK_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    WRITE_NAME_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    TICKET_FIELD_NUMBER: _ClassVar[int]
    TAKEOVER_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    CHECK_FIELD_NUMBER: _ClassVar[int]
    sink: str
    producer: str
    write_name: str
    epoch: int
    run: str
    ticket: int
    takeover: bool
    tokens: _containers.RepeatedCompositeFieldContainer[StagedToken]
    incarnation: str
    content: EpochContent
    check: EpochCheck
    def __init__(self, sink: _Optional[str] = ..., producer: _Optional[str] = ..., write_name: _Optional[str] = ..., epoch: _Optional[int] = ..., run: _Optional[str] = ..., ticket: _Optional[int] = ..., takeover: bool = ..., tokens: _Optional[_Iterable[_Union[StagedToken, _Mapping]]] = ..., incarnation: _Optional[str] = ..., content: _Optional[_Union[EpochContent, _Mapping]] = ..., check: _Optional[_Union[EpochCheck, str]] = ...) -> None: ...

class CommitEpochRequest(_message.Message):
    __slots__ = ("commits",)
    COMMITS_FIELD_NUMBER: _ClassVar[int]
    commits: _containers.RepeatedCompositeFieldContainer[EpochCommit]
    def __init__(self, commits: _Optional[_Iterable[_Union[EpochCommit, _Mapping]]] = ...) -> None: ...

class EpochPart(_message.Message):
    __slots__ = ("partition", "first_offset", "records", "pages")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    FIRST_OFFSET_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    PAGES_FIELD_NUMBER: _ClassVar[int]
    partition: int
    first_offset: int
    records: int
    pages: int
    def __init__(self, partition: _Optional[int] = ..., first_offset: _Optional[int] = ..., records: _Optional[int] = ..., pages: _Optional[int] = ...) -> None: ...

class Epoch(_message.Message):
    __slots__ = ("sink", "producer", "epoch", "run", "committed_at", "parts", "tokens", "digest")
    SINK_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_AT_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    sink: str
    producer: str
    epoch: int
    run: str
    committed_at: _timestamp_pb2.Timestamp
    parts: _containers.RepeatedCompositeFieldContainer[EpochPart]
    tokens: int
    digest: str
    def __init__(self, sink: _Optional[str] = ..., producer: _Optional[str] = ..., epoch: _Optional[int] = ..., run: _Optional[str] = ..., committed_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., parts: _Optional[_Iterable[_Union[EpochPart, _Mapping]]] = ..., tokens: _Optional[int] = ..., digest: _Optional[str] = ...) -> None: ...

class CommitEpochResponse(_message.Message):
    __slots__ = ("epochs", "already_committed")
    EPOCHS_FIELD_NUMBER: _ClassVar[int]
    ALREADY_COMMITTED_FIELD_NUMBER: _ClassVar[int]
    epochs: _containers.RepeatedCompositeFieldContainer[Epoch]
    already_committed: bool
    def __init__(self, epochs: _Optional[_Iterable[_Union[Epoch, _Mapping]]] = ..., already_committed: bool = ...) -> None: ...

class AbortEpochRequest(_message.Message):
    __slots__ = ("sink", "producer", "epoch", "tokens", "incarnation")
    SINK_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    sink: str
    producer: str
    epoch: int
    tokens: _containers.RepeatedScalarFieldContainer[str]
    incarnation: str
    def __init__(self, sink: _Optional[str] = ..., producer: _Optional[str] = ..., epoch: _Optional[int] = ..., tokens: _Optional[_Iterable[str]] = ..., incarnation: _Optional[str] = ...) -> None: ...

class AbortEpochResponse(_message.Message):
    __slots__ = ("aborted",)
    ABORTED_FIELD_NUMBER: _ClassVar[int]
    aborted: int
    def __init__(self, aborted: _Optional[int] = ...) -> None: ...

class GetEpochRequest(_message.Message):
    __slots__ = ("sink", "producer", "epoch", "incarnation")
    SINK_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    sink: str
    producer: str
    epoch: int
    incarnation: str
    def __init__(self, sink: _Optional[str] = ..., producer: _Optional[str] = ..., epoch: _Optional[int] = ..., incarnation: _Optional[str] = ...) -> None: ...

class GetEpochResponse(_message.Message):
    __slots__ = ("epoch",)
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    epoch: Epoch
    def __init__(self, epoch: _Optional[_Union[Epoch, _Mapping]] = ...) -> None: ...

class ListEpochsRequest(_message.Message):
    __slots__ = ("sink", "page_size", "page_token")
    SINK_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    sink: str
    page_size: int
    page_token: str
    def __init__(self, sink: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class Producer(_message.Message):
    __slots__ = ("producer", "write_name", "last_epoch", "committed_at", "run", "ticket", "staged_tokens", "staged_records", "staged_bytes", "staged_at", "application")
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    WRITE_NAME_FIELD_NUMBER: _ClassVar[int]
    LAST_EPOCH_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_AT_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    TICKET_FIELD_NUMBER: _ClassVar[int]
    STAGED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    STAGED_RECORDS_FIELD_NUMBER: _ClassVar[int]
    STAGED_BYTES_FIELD_NUMBER: _ClassVar[int]
    STAGED_AT_FIELD_NUMBER: _ClassVar[int]
    APPLICATION_FIELD_NUMBER: _ClassVar[int]
    producer: str
    write_name: str
    last_epoch: int
    committed_at: _timestamp_pb2.Timestamp
    run: str
    ticket: int
    staged_tokens: int
    staged_records: int
    staged_bytes: int
    staged_at: _timestamp_pb2.Timestamp
    application: str
    def __init__(self, producer: _Optional[str] = ..., write_name: _Optional[str] = ..., last_epoch: _Optional[int] = ..., committed_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., run: _Optional[str] = ..., ticket: _Optional[int] = ..., staged_tokens: _Optional[int] = ..., staged_records: _Optional[int] = ..., staged_bytes: _Optional[int] = ..., staged_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., application: _Optional[str] = ...) -> None: ...

class ListEpochsResponse(_message.Message):
    __slots__ = ("producers", "next_page_token")
    PRODUCERS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    producers: _containers.RepeatedCompositeFieldContainer[Producer]
    next_page_token: str
    def __init__(self, producers: _Optional[_Iterable[_Union[Producer, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...
