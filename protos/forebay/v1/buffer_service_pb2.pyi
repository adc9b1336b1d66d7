import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.rpc import status_pb2 as _status_pb2
from forebay.v1 import record_pb2 as _record_pb2
from forebay.v1 import sink_pb2 as _sink_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SettleOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SETTLE_OUTCOME_UNSPECIFIED: _ClassVar[SettleOutcome]
    SETTLE_OUTCOME_OK: _ClassVar[SettleOutcome]
    SETTLE_OUTCOME_ALREADY_SETTLED: _ClassVar[SettleOutcome]
    SETTLE_OUTCOME_STALE: _ClassVar[SettleOutcome]
    SETTLE_OUTCOME_UNKNOWN: _ClassVar[SettleOutcome]
SETTLE_OUTCOME_UNSPECIFIED: SettleOutcome
SETTLE_OUTCOME_OK: SettleOutcome
SETTLE_OUTCOME_ALREADY_SETTLED: SettleOutcome
SETTLE_OUTCOME_STALE: SettleOutcome
SETTLE_OUTCOME_UNKNOWN: SettleOutcome

class PublishOpen(_message.Message):
    __slots__ = ("sink", "writer_id", "writer_epoch", "stage", "answers_together", "incarnation")
    SINK_FIELD_NUMBER: _ClassVar[int]
    WRITER_ID_FIELD_NUMBER: _ClassVar[int]
    WRITER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_TOGETHER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    sink: str
    writer_id: str
    writer_epoch: int
    stage: PublishStage
    answers_together: bool
    incarnation: str
    def __init__(self, sink: _Optional[str] = ..., writer_id: _Optional[str] = ..., writer_epoch: _Optional[int] = ..., stage: _Optional[_Union[PublishStage, _Mapping]] = ..., answers_together: bool = ..., incarnation: _Optional[str] = ...) -> None: ...

class PublishStage(_message.Message):
    __slots__ = ("producer", "write_name", "epoch", "token", "run", "ticket", "takeover", "application")
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    WRITE_NAME_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    TICKET_FIELD_NUMBER: _ClassVar[int]
    TAKEOVER_FIELD_NUMBER: _ClassVar[int]
    APPLICATION_FIELD_NUMBER: _ClassVar[int]
    producer: str
    write_name: str
    epoch: int
    token: str
    run: str
    ticket: int
    takeover: bool
    application: str
    def __init__(self, producer: _Optional[str] = ..., write_name: _Optional[str] = ..., epoch: _Optional[int] = ..., token: _Optional[str] = ..., run: _Optional[str] = ..., ticket: _Optional[int] = ..., takeover: bool = ..., application: _Optional[str] = ...) -> None: ...

class PublishPage(_message.Message):
    __slots__ = ("partition", "sequence", "encoding", "record_count", "crc32", "body", "traceparent")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    RECORD_COUNT_FIELD_NUMBER: _ClassVar[int]
    CRC32_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    partition: int
    sequence: int
    encoding: _record_pb2.Encoding
    record_count: int
    crc32: int
    body: bytes
    traceparent: str
    def __init__(self, partition: _Optional[int] = ..., sequence: _Optional[int] = ..., encoding: _Optional[_Union[_record_pb2.Encoding, str]] = ..., record_count: _Optional[int] = ..., crc32: _Optional[int] = ..., body: _Optional[bytes] = ..., traceparent: _Optional[str] = ...) -> None: ...

class PublishClose(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PublishRequest(_message.Message):
    __slots__ = ("open", "page", "close")
    OPEN_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    CLOSE_FIELD_NUMBER: _ClassVar[int]
    open: PublishOpen
    page: PublishPage
    close: PublishClose
    def __init__(self, open: _Optional[_Union[PublishOpen, _Mapping]] = ..., page: _Optional[_Union[PublishPage, _Mapping]] = ..., close: _Optional[_Union[PublishClose, _Mapping]] = ...) -> None: ...

class PublishOpened(_message.Message):
    __slots__ = ("writer_epoch", "incarnation", "partitions", "next_sequences", "page_bytes_max", "record_bytes_max", "unanswered_max")
    class NextSequencesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    WRITER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    PAGE_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    RECORD_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    UNANSWERED_MAX_FIELD_NUMBER: _ClassVar[int]
    writer_epoch: int
    incarnation: str
    partitions: int
    next_sequences: _containers.ScalarMap[int, int]
    page_bytes_max: int
    record_bytes_max: int
    unanswered_max: int
    def __init__(self, writer_epoch: _Optional[int] = ..., incarnation: _Optional[str] = ..., partitions: _Optional[int] = ..., next_sequences: _Optional[_Mapping[int, int]] = ..., page_bytes_max: _Optional[int] = ..., record_bytes_max: _Optional[int] = ..., unanswered_max: _Optional[int] = ...) -> None: ...

class PublishAnswer(_message.Message):
    __slots__ = ("partition", "sequence", "receipt", "refusal")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    partition: int
    sequence: int
    receipt: _record_pb2.Receipt
    refusal: _status_pb2.Status
    def __init__(self, partition: _Optional[int] = ..., sequence: _Optional[int] = ..., receipt: _Optional[_Union[_record_pb2.Receipt, _Mapping]] = ..., refusal: _Optional[_Union[_status_pb2.Status, _Mapping]] = ...) -> None: ...

class PublishAnswers(_message.Message):
    __slots__ = ("answers",)
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    answers: _containers.RepeatedCompositeFieldContainer[PublishAnswer]
    def __init__(self, answers: _Optional[_Iterable[_Union[PublishAnswer, _Mapping]]] = ...) -> None: ...

class PublishResponse(_message.Message):
    __slots__ = ("opened", "answer", "answers")
    OPENED_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    opened: PublishOpened
    answer: PublishAnswer
    answers: PublishAnswers
    def __init__(self, opened: _Optional[_Union[PublishOpened, _Mapping]] = ..., answer: _Optional[_Union[PublishAnswer, _Mapping]] = ..., answers: _Optional[_Union[PublishAnswers, _Mapping]] = ...) -> None: ...

class PublishBatchRequest(_message.Message):
    __slots__ = ("sink", "records", "partition", "incarnation")
    SINK_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    sink: str
    records: _containers.RepeatedCompositeFieldContainer[_record_pb2.Record]
    partition: int
    incarnation: str
    def __init__(self, sink: _Optional[str] = ..., records: _Optional[_Iterable[_Union[_record_pb2.Record, _Mapping]]] = ..., partition: _Optional[int] = ..., incarnation: _Optional[str] = ...) -> None: ...

class PublishBatchResponse(_message.Message):
    __slots__ = ("receipts",)
    RECEIPTS_FIELD_NUMBER: _ClassVar[int]
    receipts: _containers.RepeatedCompositeFieldContainer[_record_pb2.Receipt]
    def __init__(self, receipts: _Optional[_Iterable[_Union[_record_pb2.Receipt, _Mapping]]] = ...) -> None: ...

class DeliverOpen(_message.Message):
    __slots__ = ("sink", "subscription", "consumer_id", "credit", "incarnation", "answers_pings", "subscription_incarnation", "program")
    SINK_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_ID_FIELD_NUMBER: _ClassVar[int]
    CREDIT_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_PINGS_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_INCARNATION_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    sink: str
    subscription: str
    consumer_id: str
    credit: Credit
    incarnation: str
    answers_pings: bool
    subscription_incarnation: str
    program: str
    def __init__(self, sink: _Optional[str] = ..., subscription: _Optional[str] = ..., consumer_id: _Optional[str] = ..., credit: _Optional[_Union[Credit, _Mapping]] = ..., incarnation: _Optional[str] = ..., answers_pings: bool = ..., subscription_incarnation: _Optional[str] = ..., program: _Optional[str] = ...) -> None: ...

class Credit(_message.Message):
    __slots__ = ("records", "bytes")
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    records: int
    bytes: int
    def __init__(self, records: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...

class AckRanges(_message.Message):
    __slots__ = ("partition", "owner_epoch", "revision", "ranges", "until")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OWNER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    partition: int
    owner_epoch: int
    revision: int
    ranges: _containers.RepeatedCompositeFieldContainer[_record_pb2.OffsetRange]
    until: bool
    def __init__(self, partition: _Optional[int] = ..., owner_epoch: _Optional[int] = ..., revision: _Optional[int] = ..., ranges: _Optional[_Iterable[_Union[_record_pb2.OffsetRange, _Mapping]]] = ..., until: bool = ...) -> None: ...

class NackRanges(_message.Message):
    __slots__ = ("partition", "owner_epoch", "revision", "ranges", "retry", "dead_letter", "drop")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OWNER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    RETRY_FIELD_NUMBER: _ClassVar[int]
    DEAD_LETTER_FIELD_NUMBER: _ClassVar[int]
    DROP_FIELD_NUMBER: _ClassVar[int]
    partition: int
    owner_epoch: int
    revision: int
    ranges: _containers.RepeatedCompositeFieldContainer[_record_pb2.OffsetRange]
    retry: NackRetry
    dead_letter: NackDeadLetter
    drop: NackDrop
    def __init__(self, partition: _Optional[int] = ..., owner_epoch: _Optional[int] = ..., revision: _Optional[int] = ..., ranges: _Optional[_Iterable[_Union[_record_pb2.OffsetRange, _Mapping]]] = ..., retry: _Optional[_Union[NackRetry, _Mapping]] = ..., dead_letter: _Optional[_Union[NackDeadLetter, _Mapping]] = ..., drop: _Optional[_Union[NackDrop, _Mapping]] = ...) -> None: ...

class NackRetry(_message.Message):
    __slots__ = ("delay", "reason")
    DELAY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    delay: _duration_pb2.Duration
    reason: str
    def __init__(self, delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., reason: _Optional[str] = ...) -> None: ...

class NackDeadLetter(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class NackDrop(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class Extend(_message.Message):
    __slots__ = ("partition", "owner_epoch", "ranges")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OWNER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    partition: int
    owner_epoch: int
    ranges: _containers.RepeatedCompositeFieldContainer[_record_pb2.OffsetRange]
    def __init__(self, partition: _Optional[int] = ..., owner_epoch: _Optional[int] = ..., ranges: _Optional[_Iterable[_Union[_record_pb2.OffsetRange, _Mapping]]] = ...) -> None: ...

class DeliverRequest(_message.Message):
    __slots__ = ("open", "credit", "ack", "nack", "extend", "close", "pong")
    OPEN_FIELD_NUMBER: _ClassVar[int]
    CREDIT_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    NACK_FIELD_NUMBER: _ClassVar[int]
    EXTEND_FIELD_NUMBER: _ClassVar[int]
    CLOSE_FIELD_NUMBER: _ClassVar[int]
    PONG_FIELD_NUMBER: _ClassVar[int]
    open: DeliverOpen
    credit: Credit
    ack: AckRanges
    nack: NackRanges
    extend: Extend
    close: DeliverClose
    pong: Pong
    def __init__(self, open: _Optional[_Union[DeliverOpen, _Mapping]] = ..., credit: _Optional[_Union[Credit, _Mapping]] = ..., ack: _Optional[_Union[AckRanges, _Mapping]] = ..., nack: _Optional[_Union[NackRanges, _Mapping]] = ..., extend: _Optional[_Union[Extend, _Mapping]] = ..., close: _Optional[_Union[DeliverClose, _Mapping]] = ..., pong: _Optional[_Union[Pong, _Mapping]] = ...) -> None: ...

class DeliverClose(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Ping(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Pong(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DeliverOpened(_message.Message):
    __slots__ = ("incarnation", "partitions", "ack_deadline", "ordering", "subscription_incarnation")
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    ACK_DEADLINE_FIELD_NUMBER: _ClassVar[int]
    ORDERING_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_INCARNATION_FIELD_NUMBER: _ClassVar[int]
    incarnation: str
    partitions: int
    ack_deadline: _duration_pb2.Duration
    ordering: _sink_pb2.Ordering
    subscription_incarnation: str
    def __init__(self, incarnation: _Optional[str] = ..., partitions: _Optional[int] = ..., ack_deadline: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., ordering: _Optional[_Union[_sink_pb2.Ordering, str]] = ..., subscription_incarnation: _Optional[str] = ...) -> None: ...

class Attempt(_message.Message):
    __slots__ = ("offset", "attempt")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    offset: int
    attempt: int
    def __init__(self, offset: _Optional[int] = ..., attempt: _Optional[int] = ...) -> None: ...

class Delivery(_message.Message):
    __slots__ = ("partition", "owner_epoch", "revision", "pages", "ranges", "attempts", "resend", "durability", "ordering")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OWNER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    PAGES_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    RESEND_FIELD_NUMBER: _ClassVar[int]
    DURABILITY_FIELD_NUMBER: _ClassVar[int]
    ORDERING_FIELD_NUMBER: _ClassVar[int]
    partition: int
    owner_epoch: int
    revision: int
    pages: _containers.RepeatedCompositeFieldContainer[_record_pb2.StoredPage]
    ranges: _containers.RepeatedCompositeFieldContainer[_record_pb2.OffsetRange]
    attempts: _containers.RepeatedCompositeFieldContainer[Attempt]
    resend: bool
    durability: _record_pb2.Durability
    ordering: _sink_pb2.Ordering
    def __init__(self, partition: _Optional[int] = ..., owner_epoch: _Optional[int] = ..., revision: _Optional[int] = ..., pages: _Optional[_Iterable[_Union[_record_pb2.StoredPage, _Mapping]]] = ..., ranges: _Optional[_Iterable[_Union[_record_pb2.OffsetRange, _Mapping]]] = ..., attempts: _Optional[_Iterable[_Union[Attempt, _Mapping]]] = ..., resend: bool = ..., durability: _Optional[_Union[_record_pb2.Durability, str]] = ..., ordering: _Optional[_Union[_sink_pb2.Ordering, str]] = ...) -> None: ...

class Revoked(_message.Message):
    __slots__ = ("partition", "from_offset", "revision")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    FROM_OFFSET_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    partition: int
    from_offset: int
    revision: int
    def __init__(self, partition: _Optional[int] = ..., from_offset: _Optional[int] = ..., revision: _Optional[int] = ...) -> None: ...

class SettleResult(_message.Message):
    __slots__ = ("partition", "range", "outcome")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    RANGE_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    partition: int
    range: _record_pb2.OffsetRange
    outcome: SettleOutcome
    def __init__(self, partition: _Optional[int] = ..., range: _Optional[_Union[_record_pb2.OffsetRange, _Mapping]] = ..., outcome: _Optional[_Union[SettleOutcome, str]] = ...) -> None: ...

class Results(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[SettleResult]
    def __init__(self, results: _Optional[_Iterable[_Union[SettleResult, _Mapping]]] = ...) -> None: ...

class AssignedPartition(_message.Message):
    __slots__ = ("partition", "owner_epoch", "revision")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OWNER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    partition: int
    owner_epoch: int
    revision: int
    def __init__(self, partition: _Optional[int] = ..., owner_epoch: _Optional[int] = ..., revision: _Optional[int] = ...) -> None: ...

class Assignment(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[AssignedPartition]
    def __init__(self, partitions: _Optional[_Iterable[_Union[AssignedPartition, _Mapping]]] = ...) -> None: ...

class DeliverResponse(_message.Message):
    __slots__ = ("opened", "delivery", "revoked", "gap", "results", "assignment", "ping")
    OPENED_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_FIELD_NUMBER: _ClassVar[int]
    REVOKED_FIELD_NUMBER: _ClassVar[int]
    GAP_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENT_FIELD_NUMBER: _ClassVar[int]
    PING_FIELD_NUMBER: _ClassVar[int]
    opened: DeliverOpened
    delivery: Delivery
    revoked: Revoked
    gap: _record_pb2.Gap
    results: Results
    assignment: Assignment
    ping: Ping
    def __init__(self, opened: _Optional[_Union[DeliverOpened, _Mapping]] = ..., delivery: _Optional[_Union[Delivery, _Mapping]] = ..., revoked: _Optional[_Union[Revoked, _Mapping]] = ..., gap: _Optional[_Union[_record_pb2.Gap, _Mapping]] = ..., results: _Optional[_Union[Results, _Mapping]] = ..., assignment: _Optional[_Union[Assignment, _Mapping]] = ..., ping: _Optional[_Union[Ping, _Mapping]] = ...) -> None: ...

class PullRequest(_message.Message):
    __slots__ = ("sink", "subscription", "consumer_id", "max_records", "wait", "incarnation", "subscription_incarnation")
    SINK_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_ID_FIELD_NUMBER: _ClassVar[int]
    MAX_RECORDS_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_INCARNATION_FIELD_NUMBER: _ClassVar[int]
    sink: str
    subscription: str
    consumer_id: str
    max_records: int
    wait: _duration_pb2.Duration
    incarnation: str
    subscription_incarnation: str
    def __init__(self, sink: _Optional[str] = ..., subscription: _Optional[str] = ..., consumer_id: _Optional[str] = ..., max_records: _Optional[int] = ..., wait: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., incarnation: _Optional[str] = ..., subscription_incarnation: _Optional[str] = ...) -> None: ...

class DeliveredRecord(_message.Message):
    __slots__ = ("partition", "offset", "record", "accepted_at", "attempt", "resend", "owner_epoch", "revision")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    RECORD_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_AT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    RESEND_FIELD_NUMBER: _ClassVar[int]
    OWNER_EPOCH_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    partition: int
    offset: int
    record: _record_pb2.Record
    accepted_at: _timestamp_pb2.Timestamp
    attempt: int
    resend: bool
    owner_epoch: int
    revision: int
    def __init__(self, partition: _Optional[int] = ..., offset: _Optional[int] = ..., record: _Optional[_Union[_record_pb2.Record, _Mapping]] = ..., accepted_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., attempt: _Optional[int] = ..., resend: bool = ..., owner_epoch: _Optional[int] = ..., revision: _Optional[int] = ...) -> None: ...

class PullResponse(_message.Message):
    __slots__ = ("records", "gaps", "incarnation", "subscription_incarnation")
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    GAPS_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_INCARNATION_FIELD_NUMBER: _ClassVar[int]
    records: _containers.RepeatedCompositeFieldContainer[DeliveredRecord]
    gaps: _containers.RepeatedCompositeFieldContainer[_record_pb2.Gap]
    incarnation: str
    subscription_incarnation: str
    def __init__(self, records: _Optional[_Iterable[_Union[DeliveredRecord, _Mapping]]] = ..., gaps: _Optional[_Iterable[_Union[_record_pb2.Gap, _Mapping]]] = ..., incarnation: _Optional[str] = ..., subscription_incarnation: _Optional[str] = ...) -> None: ...

class AckRequest(_message.Message):
    __slots__ = ("sink", "subscription", "acks", "incarnation", "subscription_incarnation")
    SINK_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    ACKS_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_INCARNATION_FIELD_NUMBER: _ClassVar[int]
    sink: str
    subscription: str
    acks: _containers.RepeatedCompositeFieldContainer[AckRanges]
    incarnation: str
    subscription_incarnation: str
    def __init__(self, sink: _Optional[str] = ..., subscription: _Optional[str] = ..., acks: _Optional[_Iterable[_Union[AckRanges, _Mapping]]] = ..., incarnation: _Optional[str] = ..., subscription_incarnation: _Optional[str] = ...) -> None: ...

class AckResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[SettleResult]
    def __init__(self, results: _Optional[_Iterable[_Union[SettleResult, _Mapping]]] = ...) -> None: ...

class NackRequest(_message.Message):
    __slots__ = ("sink", "subscription", "nacks", "incarnation", "subscription_incarnation")
    SINK_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    NACKS_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_INCARNATION_FIELD_NUMBER: _ClassVar[int]
    sink: str
    subscription: str
    nacks: _containers.RepeatedCompositeFieldContainer[NackRanges]
    incarnation: str
    subscription_incarnation: str
    def __init__(self, sink: _Optional[str] = ..., subscription: _Optional[str] = ..., nacks: _Optional[_Iterable[_Union[NackRanges, _Mapping]]] = ..., incarnation: _Optional[str] = ..., subscription_incarnation: _Optional[str] = ...) -> None: ...

class NackResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[SettleResult]
    def __init__(self, results: _Optional[_Iterable[_Union[SettleResult, _Mapping]]] = ...) -> None: ...

class ExtendDeadlineRequest(_message.Message):
    __slots__ = ("sink", "subscription", "extends", "incarnation", "subscription_incarnation")
    SINK_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
    EXTENDS_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_INCARNATION_FIELD_NUMBER: _ClassVar[int]
    sink: str
    subscription: str
    extends: _containers.RepeatedCompositeFieldContainer[Extend]
    incarnation: str
    subscription_incarnation: str
    def __init__(self, sink: _Optional[str] = ..., subscription: _Optional[str] = ..., extends: _Optional[_Iterable[_Union[Extend, _Mapping]]] = ..., incarnation: _Optional[str] = ..., subscription_incarnation: _Optional[str] = ...) -> None: ...

class ExtendDeadlineResponse(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, partitions: _Optional[_Iterable[int]] = ...) -> None: ...

class ReplayRequest(_message.Message):
    __slots__ = ("sink", "partition", "start_offset", "start_time", "end_offset", "follow", "incarnation", "reader_id")
    SINK_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    READER_ID_FIELD_NUMBER: _ClassVar[int]
    sink: str
    partition: int
    start_offset: int
    start_time: _timestamp_pb2.Timestamp
    end_offset: int
    follow: bool
    incarnation: str
    reader_id: str
    def __init__(self, sink: _Optional[str] = ..., partition: _Optional[int] = ..., start_offset: _Optional[int] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_offset: _Optional[int] = ..., follow: bool = ..., incarnation: _Optional[str] = ..., reader_id: _Optional[str] = ...) -> None: ...

class ReplayResponse(_message.Message):
    __slots__ = ("opened", "pages", "gap")
    OPENED_FIELD_NUMBER: _ClassVar[int]
    PAGES_FIELD_NUMBER: _ClassVar[int]
    GAP_FIELD_NUMBER: _ClassVar[int]
    opened: ReplayOpened
    pages: ReplayPages
    gap: _record_pb2.Gap
    def __init__(self, opened: _Optional[_Union[ReplayOpened, _Mapping]] = ..., pages: _Optional[_Union[ReplayPages, _Mapping]] = ..., gap: _Optional[_Union[_record_pb2.Gap, _Mapping]] = ...) -> None: ...

class ReplayOpened(_message.Message):
    __slots__ = ("start_offset", "end_offset", "incarnation")
    START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    start_offset: int
    end_offset: int
    incarnation: str
    def __init__(self, start_offset: _Optional[int] = ..., end_offset: _Optional[int] = ..., incarnation: _Optional[str] = ...) -> None: ...

class ReplayPages(_message.Message):
    __slots__ = ("pages",)
    PAGES_FIELD_NUMBER: _ClassVar[int]
    pages: _containers.RepeatedCompositeFieldContainer[_record_pb2.StoredPage]
    def __init__(self, pages: _Optional[_Iterable[_Union[_record_pb2.StoredPage, _Mapping]]] = ...) -> None: ...

class PeekRequest(_message.Message):
    __slots__ = ("sink", "partition", "offset", "max_records", "incarnation", "all_partitions")
    SINK_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    MAX_RECORDS_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    ALL_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    sink: str
    partition: int
    offset: int
    max_records: int
    incarnation: str
    all_partitions: bool
    def __init__(self, sink: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., max_records: _Optional[int] = ..., incarnation: _Optional[str] = ..., all_partitions: bool = ...) -> None: ...

class PeekedRecord(_message.Message):
    __slots__ = ("offset", "accepted_at", "key", "value", "format", "value_bytes", "headers", "event_time", "truncated", "headers_omitted", "partition")
    class HeadersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_AT_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    VALUE_BYTES_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIME_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    HEADERS_OMITTED_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    offset: int
    accepted_at: _timestamp_pb2.Timestamp
    key: str
    value: str
    format: str
    value_bytes: int
    headers: _containers.ScalarMap[str, str]
    event_time: _timestamp_pb2.Timestamp
    truncated: bool
    headers_omitted: int
    partition: int
    def __init__(self, offset: _Optional[int] = ..., accepted_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., key: _Optional[str] = ..., value: _Optional[str] = ..., format: _Optional[str] = ..., value_bytes: _Optional[int] = ..., headers: _Optional[_Mapping[str, str]] = ..., event_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., truncated: bool = ..., headers_omitted: _Optional[int] = ..., partition: _Optional[int] = ...) -> None: ...

class PeekResponse(_message.Message):
    __slots__ = ("records", "gaps")
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    GAPS_FIELD_NUMBER: _ClassVar[int]
    records: _containers.RepeatedCompositeFieldContainer[PeekedRecord]
    gaps: _containers.RepeatedCompositeFieldContainer[_record_pb2.Gap]
    def __init__(self, records: _Optional[_Iterable[_Union[PeekedRecord, _Mapping]]] = ..., gaps: _Optional[_Iterable[_Union[_record_pb2.Gap, _Mapping]]] = ...) -> None: ...
