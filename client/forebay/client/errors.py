"""Everything that can go wrong for a user of the client, and what to do next.

    ForebayError
    ├── InvalidArgument       the request is wrong; mend it, the same one will never succeed
    │   ├── InvalidName, InvalidSetting, InvalidPartition, InvalidPage, InvalidRange, InvalidOpen,
    │   ├── InvalidCredit, InvalidNack, InvalidPull, InvalidInterval, InvalidPageToken
    │   ├── InvalidSubscriptionName, InvalidPosition, InvalidFilter, InvalidEpoch, InvalidSchema, InvalidLease,
    │   ├── CredentialsUnusable
    │   └── RecordTooLarge, RequestTooLarge, NumberOutOfRange, PageCorrupt
    ├── NotFound              SinkNotFound, SubscriptionNotFound, EpochNotFound, SchemaNotFound
    ├── AlreadyExists         SinkExists, SubscriptionExists, AlreadyCommitted
    ├── FailedPrecondition    SinkNotEmpty, SinkReplaced, SubscriptionReplaced, DefaultSubscription, StagedIncomplete,
    │                         StagingUnsupported, SubscriptionInUse, OrderingStrict
    ├── ResourceExhausted     SinkFull, DiskFull, BrokerFull, MemoryOverloaded, TooManyWaiting,
    │                         TooManySinks, TooManyStreams, TooManySubscriptions, RateLimited, ReaderTooSlow
    ├── OutOfRange            OffsetTrimmed, OffsetAhead
    ├── Superseded            WriterFenced, StaleOwner, ConsumerReplaced, SequenceGap, SequenceConflict,
    │                         EpochFenced, EpochConflict, EpochContentConflict, ProducerChanged, SchemaChanged
    ├── DataLoss              PageQuarantined, GapError
    ├── AccessDenied          Unauthenticated, PermissionDenied, HandshakeFailed
    ├── BrokerUnavailable     unreachable; BrokerDraining, SessionTimedOut, StoreFenced, ReadFailed
    ├── BrokerFault           the broker failed in a way it has no name for
    │   └── ProtocolViolation the broker said something that the contract does not allow
    ├── ClientFault           the client library failed in a way it has no name for
    ├── DeadlineExceeded      the answer did not come in time
    ├── ArrowNotInstalled     rows with a schema, and no pyarrow to read them with
    ├── DeliveryTimeout, FlushTimeout, PublishAbandoned    a publisher gave up
    └── Closed                PublisherClosed, SubscriberClosed, ClientClosed, UsedAfterFork

The broker names an error by ``reason``; the class is found by it, never by text. A reason that this version does not
know gets the class of its status code. Facts are short strings and never payloads; the text is not API.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final


class ForebayError(Exception):
    """Base of all errors of the client."""

    default_reason: ClassVar[str] = ""
    retryable: ClassVar[bool] = False
    """The same request may succeed later."""

    def __init__(
        self,
        message: str,
        *,
        reason: str = "",
        facts: Mapping[str, str] | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.reason = reason or self.default_reason
        """What happened, as the broker names it; empty for what has no name."""
        self.facts = dict(facts or {})
        """What the broker said about it."""
        self.retry_after_s = retry_after_s
        """Seconds after which the broker asks to try again, if it does."""

    def __reduce__(self) -> tuple[object, ...]:
        """Errors travel between processes."""
        state = {"reason": self.reason, "facts": self.facts, "retry_after_s": self.retry_after_s}
        return (_rebuild, (type(self), str(self), state))

    def fact(self, name: str) -> int:
        """Return a numeric fact, or -1 where the broker did not give it."""
        text = self.facts.get(name, "")
        return int(text) if text.lstrip("-").isdigit() else -1


def _rebuild(kind: type[ForebayError], message: str, state: dict[str, object]) -> ForebayError:
    error = kind.__new__(kind, message)
    error.args = (message,)
    error.__dict__.update(state)
    return error


class InvalidArgument(ForebayError):
    """The request is wrong. Mend it; do not retry it."""

    default_reason = "INVALID_REQUEST"


class InvalidName(InvalidArgument):
    """A sink's name does not have the form that names have."""

    default_reason = "INVALID_SINK_NAME"


class InvalidSetting(InvalidArgument):
    """A setting is unknown or has a wrong value, or there would be fewer partitions than there are."""

    default_reason = "INVALID_SETTING"


class InvalidPartition(InvalidArgument):
    """The sink has no such partition."""

    default_reason = "INVALID_PARTITION"


class InvalidPage(InvalidArgument):
    """A page or its records contradict themselves or are over a bound."""

    default_reason = "INVALID_PAGE"


class InvalidRange(InvalidArgument):
    """A range of offsets is empty, upside down, outside of what it is about, or one of too many."""

    default_reason = "INVALID_RANGE"


class InvalidOpen(InvalidArgument):
    """The broker did not accept how a stream was opened."""

    default_reason = "INVALID_OPEN"


class InvalidCredit(InvalidArgument):
    """A credit is out of bounds."""

    default_reason = "INVALID_CREDIT"


class InvalidNack(InvalidArgument):
    """A nack asks for something that is out of bounds."""

    default_reason = "INVALID_NACK"


class InvalidPull(InvalidArgument):
    """A pull asks for something that is out of bounds."""

    default_reason = "INVALID_PULL"


class InvalidInterval(InvalidArgument):
    """An interval is out of bounds."""

    default_reason = "INVALID_INTERVAL"


class InvalidPageToken(InvalidArgument):
    """A list was asked to go on from a token that it never gave."""

    default_reason = "INVALID_PAGE_TOKEN"


class InvalidSubscriptionName(InvalidArgument):
    """A subscription's name does not have the form that ids have."""

    default_reason = "INVALID_SUBSCRIPTION_NAME"


class InvalidPosition(InvalidArgument):
    """A place in a sink is not named, or named twice over."""

    default_reason = "INVALID_POSITION"


class InvalidFilter(InvalidArgument):
    """A filter of dead letters selects what cannot be."""

    default_reason = "INVALID_FILTER"


class InvalidEpoch(InvalidArgument):
    """A stage or a commit names what cannot be: a bad name or number, an epoch twice, or sinks of several brokers."""

    default_reason = "INVALID_EPOCH"


class InvalidSchema(InvalidArgument):
    """A schema is empty, too large, or one of too many."""

    default_reason = "INVALID_SCHEMA"


class CredentialsUnusable(InvalidArgument):
    """A certificate, key or token cannot be read, or must not be sent this way. The text says which, and what to do."""

    default_reason = "CREDENTIALS_UNUSABLE"


class InvalidLease(InvalidArgument):
    """A holder's name, its time or the size of its set is out of bounds."""

    default_reason = "INVALID_LEASE"


class RecordTooLarge(InvalidArgument):
    """One record is over a bound that no waiting will change. Split it, or raise the bound."""

    default_reason = "RECORD_TOO_LARGE"


class RequestTooLarge(InvalidArgument):
    """A request has more bytes, or holds more of something, than its call takes. Divide it."""

    default_reason = "REQUEST_TOO_LARGE"


class NumberOutOfRange(InvalidArgument):
    """An offset, number, time or duration is beyond what can be stored. Give one within its range."""

    default_reason = "NUMBER_OUT_OF_RANGE"


class PageCorrupt(InvalidArgument):
    """A page does not match its checksum: it was damaged on the way. Encode and send it again."""

    default_reason = "PAGE_CORRUPT"


class NotFound(ForebayError):
    """There is no such thing."""


class SinkNotFound(NotFound):
    """There is no such sink. Create it first."""

    default_reason = "SINK_NOT_FOUND"


class SubscriptionNotFound(NotFound):
    """The sink has no such subscription."""

    default_reason = "SUBSCRIPTION_NOT_FOUND"


class EpochNotFound(NotFound):
    """The epoch was never committed, or its records are gone and a later one was committed."""

    default_reason = "EPOCH_NOT_FOUND"


class SchemaNotFound(NotFound):
    """The sink has no such version of its schema, or lost it when its store was damaged."""

    default_reason = "SCHEMA_NOT_FOUND"

    @property
    def latest(self) -> int:
        """The highest version that was given, 0 for none."""
        return self.fact("latest")


class AlreadyExists(ForebayError):
    """It exists, and is not the same."""


class SinkExists(AlreadyExists):
    """The sink exists. Pass ``exist_ok=True``, use its settings, or update it."""

    default_reason = "SINK_EXISTS"


class SubscriptionExists(AlreadyExists):
    """The subscription exists, perhaps with another start. Use it, seek it, or take another name."""

    default_reason = "SUBSCRIPTION_EXISTS"


class AlreadyCommitted(AlreadyExists):
    """Pages are staged for an epoch that is committed. There is nothing to do."""

    default_reason = "ALREADY_COMMITTED"


class FailedPrecondition(ForebayError):
    """The state of things does not allow it now."""


class SinkNotEmpty(FailedPrecondition):
    """Unsettled records are left. Wait until they are delivered, or delete with ``force=True``."""

    default_reason = "SINK_NOT_EMPTY"


class SubscriptionReplaced(FailedPrecondition):
    """The subscription was deleted and made anew since. Ask for it and start over.

    What was remembered is of the former one. Nothing was settled or moved.
    """

    default_reason = "SUBSCRIPTION_REPLACED"

    @property
    def named(self) -> str:
        """The incarnation that the request was about."""
        return self.facts.get("named", "")

    @property
    def current(self) -> str:
        """The incarnation of the subscription that has the name now."""
        return self.facts.get("current", "")


class SinkReplaced(FailedPrecondition):
    """The sink was deleted and made anew since. Ask for it and start over: what was remembered of it means nothing now.

    Offsets mean other records, tokens and sets are gone, versions of a schema are other ones. Nothing was done.
    """

    default_reason = "SINK_REPLACED"

    @property
    def named(self) -> str:
        """The incarnation that the request was about."""
        return self.facts.get("named", "")

    @property
    def current(self) -> str:
        """The incarnation of the sink that has the name now."""
        return self.facts.get("current", "")


class DefaultSubscription(FailedPrecondition):
    """`default` cannot be deleted: it lives as long as its sink. Seek it to the latest instead."""

    default_reason = "DEFAULT_SUBSCRIPTION"


class StagedIncomplete(FailedPrecondition):
    """Pages that a commit names are not staged, and nothing became visible. Stage the epoch again, and commit that."""

    default_reason = "STAGED_INCOMPLETE"


class StagingUnsupported(FailedPrecondition):
    """The sink keeps nothing on a disk, or holds dead letters. Publish without a stage, or use another sink."""

    default_reason = "STAGING_UNSUPPORTED"


class SubscriptionInUse(FailedPrecondition):
    """A consumer owns a partition of the subscription, or a holder has a set of it. End it, or use another one."""

    default_reason = "SUBSCRIPTION_IN_USE"


class OrderingStrict(FailedPrecondition):
    """The sink is in STRICT order, where what failed is not set aside. Set its ``ordering`` to ``RELAXED``."""

    default_reason = "ORDERING_STRICT"


class ResourceExhausted(ForebayError):
    """No room now. Try again after ``retry_after_s``."""

    retryable = True


class SinkFull(ResourceExhausted):
    """A limit of the sink is reached and its policy is to reject. Wait for deliveries, or raise the limit."""

    default_reason = "SINK_FULL"


class DiskFull(ResourceExhausted):
    """The broker's disk is full up to its reserve. Free some; appends come back by themselves."""

    default_reason = "DISK_FULL"


class BrokerFull(ResourceExhausted):
    """All sinks together hold as much as the broker may. A publisher waits and tries again by itself."""

    default_reason = "BROKER_FULL"


class MemoryOverloaded(ResourceExhausted):
    """The broker's memory is over its high watermark. A publisher waits and tries again by itself."""

    default_reason = "MEMORY_OVERLOADED"


class TooManyWaiting(ResourceExhausted):
    """The broker has as much waiting for its sync as it holds. Try again in a moment."""

    default_reason = "TOO_MANY_WAITING"


class TooManySinks(ResourceExhausted):
    """The broker has as many sinks or partitions as it may. Delete one, or raise its bound."""

    default_reason = "TOO_MANY_SINKS"
    retryable = False


class TooManyStreams(ResourceExhausted):
    """The broker serves as many streams as it may. Close one, or try again later."""

    default_reason = "TOO_MANY_STREAMS"


class ReaderTooSlow(ResourceExhausted):
    """The broker ended a stream whose reader took nothing, since others needed the memory. It is opened again."""

    default_reason = "READER_TOO_SLOW"


class TooManySubscriptions(ResourceExhausted):
    """The sink has as many subscriptions as it may. Delete one."""

    default_reason = "TOO_MANY_SUBSCRIPTIONS"
    retryable = False


class RateLimited(ResourceExhausted):
    """The caller's principal is over its rate limit. Try again after ``retry_after_s``."""

    default_reason = "RATE_LIMITED"


class OutOfRange(ForebayError):
    """The position does not exist."""

    @property
    def requested(self) -> int:
        """The offset that was asked for."""
        return self.fact("requested")

    @property
    def earliest(self) -> int:
        """The lowest offset that is stored."""
        return self.fact("earliest")

    @property
    def next_offset(self) -> int:
        """The offset that the next record will get."""
        return self.fact("next")


class OffsetTrimmed(OutOfRange):
    """The position is gone. Start again at ``earliest``, or accept the loss."""

    default_reason = "OFFSET_TRIMMED"


class OffsetAhead(OutOfRange):
    """The position is beyond ``next_offset``. Nothing is there yet."""

    default_reason = "OFFSET_AHEAD"


class Superseded(ForebayError):
    """Somebody newer has taken over, or the numbering is broken."""


class WriterFenced(Superseded):
    """A newer epoch of this writer was opened, or the broker has forgotten it, or what it staged was thrown away.

    Stop, or open a new publisher.
    """

    default_reason = "WRITER_FENCED"


class StaleOwner(Superseded):
    """The partition belongs to another consumer now. The records come again, there or here."""

    default_reason = "STALE_OWNER"


class ConsumerReplaced(Superseded):
    """Another subscriber opened with the same ``consumer_id``. Give each one its own."""

    default_reason = "CONSUMER_REPLACED"


class SequenceGap(Superseded):
    """An earlier page of this writer is missing. The publisher handles it; a user does not see it."""

    default_reason = "SEQUENCE_GAP"


class SequenceConflict(Superseded):
    """A number was used for other data: two publishers share a ``writer_id``. Give each one its own."""

    default_reason = "SEQUENCE_CONFLICT"


class EpochFenced(Superseded):
    """The epoch is below the last one, or a newer run of the producer has begun. Stop: what is written is written."""

    default_reason = "EPOCH_FENCED"


class EpochConflict(Superseded):
    """The same run committed the epoch with other tokens, or others of these commits without this one."""

    default_reason = "EPOCH_CONFLICT"


class EpochContentConflict(Superseded):
    """The epoch was committed with other records. Repeat it with the same ones, or decide by ``EpochCheck.NONE``."""

    default_reason = "EPOCH_CONTENT_CONFLICT"

    @property
    def stored_records(self) -> int:
        """Number of records that were committed."""
        return self.fact("stored_records")

    @property
    def sent_records(self) -> int:
        """Number of records of the repeat."""
        return self.fact("sent_records")


class ProducerChanged(Superseded):
    """Another producer has the write name. Take it over with ``takeover=True``, or write under another name."""

    default_reason = "PRODUCER_CHANGED"


class SchemaChanged(Superseded):
    """Somebody else has registered a version meanwhile. Look at the latest one and compare again."""

    default_reason = "SCHEMA_CHANGED"


class DataLoss(ForebayError):
    """Records that were stored are not there any more."""


class PageQuarantined(DataLoss):
    """A stored page fails its checksum; the broker keeps its bytes aside."""

    default_reason = "PAGE_QUARANTINED"


class GapError(DataLoss):
    """A replay met offsets without records. Go on at ``resume_offset``, or read with ``on_gap="yield"``."""

    default_reason = "GAP"

    @property
    def partition(self) -> int:
        """The partition."""
        return self.fact("partition")

    @property
    def first_offset(self) -> int:
        """The first missing offset."""
        return self.fact("first_offset")

    @property
    def last_offset(self) -> int:
        """The last missing offset."""
        return self.fact("last_offset")

    @property
    def resume_offset(self) -> int:
        """The first offset behind the gap."""
        return self.last_offset + 1


class AccessDenied(ForebayError):
    """No or wrong credentials, or not allowed."""


class Unauthenticated(AccessDenied):
    """The broker wants a token, and there was none, or one that it does not know. Set one that it knows."""

    default_reason = "TOKEN_REFUSED"


class PermissionDenied(AccessDenied):
    """The caller is known and may not do this. Ask who runs the broker, or what stands before it."""

    default_reason = "PERMISSION_DENIED"


class HandshakeFailed(AccessDenied):
    """The two ends cannot agree on a connection: only one of them speaks TLS, or a certificate is not trusted.

    Trying again does not help; the text says what to set.
    """

    default_reason = "HANDSHAKE_FAILED"


class BrokerUnavailable(ForebayError):
    """The broker cannot be reached or is going away. Check the endpoint; come back after ``retry_after_s``."""

    default_reason = "UNREACHABLE"
    retryable = True


class BrokerDraining(BrokerUnavailable):
    """The broker is stopping. Come back to its successor. Nothing of the request was done."""

    default_reason = "DRAINING"


class SessionTimedOut(BrokerUnavailable):
    """This consumer has not answered the broker for a while. It connects again; what it had is redelivered."""

    default_reason = "SESSION_TIMED_OUT"


class StoreFenced(BrokerUnavailable):
    """The broker's disk failed. Nothing is accepted until it was restarted."""

    default_reason = "STORE_FENCED"


class ReadFailed(BrokerUnavailable):
    """The broker's disk did not answer a read. Nothing is lost by it; the same request may succeed later."""

    default_reason = "READ_FAILED"


class BrokerFault(ForebayError):
    """The broker, or something on the way to it, failed in a way that has no name. See the broker's log."""

    retryable = True


class ProtocolViolation(BrokerFault):
    """The broker said something that the contract does not allow: versions that do not go together."""

    default_reason = "PROTOCOL_VIOLATION"
    retryable = False


class ClientFault(ForebayError):
    """The client library failed in a way that has no name: a defect. Open a new publisher or subscriber; report it."""

    default_reason = "CLIENT_FAULT"


class DeadlineExceeded(ForebayError):
    """The answer did not come in time; whether the request was done is not known."""

    default_reason = "DEADLINE_EXCEEDED"
    retryable = True


class ArrowNotInstalled(ForebayError):
    """A sink holds rows with a schema, and pyarrow, which reads them, is not there: install the extra ``arrow``."""

    default_reason = "ARROW_NOT_INSTALLED"


class DeliveryTimeout(ForebayError):
    """Records were not durable within ``delivery_timeout_s``. Sent again, they may be stored twice."""

    default_reason = "DELIVERY_TIMEOUT"

    @property
    def refusal(self) -> str:
        """The reason with which the broker had refused them last, ``SINK_FULL`` for one; empty if it had not."""
        return self.facts.get("refusal", "")


class FlushTimeout(ForebayError):
    """``flush`` ran out of time. The records are still being sent; flush again, or close."""

    default_reason = "FLUSH_TIMEOUT"


class PublishAbandoned(ForebayError):
    """The publisher was closed before the records were durable. They may be stored or not."""

    default_reason = "PUBLISH_ABANDONED"


class Closed(ForebayError):
    """The object cannot be used any more. Open a new one."""


class PublisherClosed(Closed):
    """The publisher was closed."""

    default_reason = "PUBLISHER_CLOSED"


class SubscriberClosed(Closed):
    """The subscriber was closed."""

    default_reason = "SUBSCRIBER_CLOSED"


class ClientClosed(Closed):
    """The client was closed."""

    default_reason = "CLIENT_CLOSED"


class UsedAfterFork(Closed):
    """A publisher, subscriber or replay was opened before ``fork`` and used in the child. Open one in the child."""

    default_reason = "USED_AFTER_FORK"


def _walk(kind: type[ForebayError]) -> list[type[ForebayError]]:
    return [kind, *(below for child in kind.__subclasses__() for below in _walk(child))]


BY_REASON: Final[Mapping[str, type[ForebayError]]] = {
    kind.default_reason: kind for kind in _walk(ForebayError) if kind.default_reason
}
"""The class of each reason."""

BY_CODE: Final[Mapping[int, type[ForebayError]]] = {
    1: BrokerUnavailable,  # CANCELLED: by the broker or a proxy; our own cancellations are never shown
    2: BrokerFault,
    3: InvalidArgument,
    4: DeadlineExceeded,
    5: NotFound,
    6: AlreadyExists,
    7: PermissionDenied,
    8: ResourceExhausted,
    9: FailedPrecondition,
    10: Superseded,
    11: OutOfRange,
    12: ProtocolViolation,  # UNIMPLEMENTED
    13: BrokerFault,
    14: BrokerUnavailable,
    15: DataLoss,
    16: Unauthenticated,
}
"""The class of each gRPC status code, for reasons that this version does not know."""


def error_for(
    code: int,
    reason: str,
    message: str,
    *,
    facts: Mapping[str, str] | None = None,
    retry_after_s: float | None = None,
) -> ForebayError:
    """Return the error for a status: by its reason, else by its code."""
    kind = BY_REASON.get(reason) or BY_CODE.get(code, BrokerFault)
    return kind(message, reason=reason, facts=facts, retry_after_s=retry_after_s)
