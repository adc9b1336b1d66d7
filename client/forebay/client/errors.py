"""Errors of the client, with the recommended reaction to each.

    ForebayError
    ├── InvalidArgument       the request is wrong; correct it, the same request never succeeds
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
    │                         TooManySinks, TooManyStreams, TooManySubscriptions, RateLimited, ReaderTooSlow,
    │                         RequestTooSlow
    ├── OutOfRange            OffsetTrimmed, OffsetAhead
    ├── Superseded            WriterFenced, StaleOwner, ConsumerReplaced, SequenceGap, SequenceConflict,
    │                         EpochFenced, EpochConflict, EpochContentConflict, ProducerChanged, SchemaChanged
    ├── DataLoss              PageQuarantined, GapError
    ├── AccessDenied          Unauthenticated, PermissionDenied, HandshakeFailed
    ├── BrokerUnavailable     unreachable; BrokerDraining, SessionTimedOut, StoreFenced, ReadFailed
    ├── BrokerFault           the broker failed in an unclassified way
    │   └── ProtocolViolation the broker's answer violates the wire contract
    ├── ClientFault           the client library failed in an unclassified way
    ├── DeadlineExceeded      no answer within the time limit
    ├── ArrowNotInstalled     rows with a schema, but pyarrow is not installed
    ├── DeliveryTimeout, FlushTimeout, PublishAbandoned    a publisher did not store its records
    └── Closed                PublisherClosed, SubscriberClosed, ClientClosed, UsedAfterFork

The ``reason`` of an error selects its class, never its text. A reason that this version does not know gets the class
of its status code. Facts are short strings and never payloads; the text is not API.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final


class ForebayError(Exception):
    """Base of all errors of the client."""

    default_reason: ClassVar[str] = ""
    retryable: ClassVar[bool] = False
    """True if the same request may succeed later."""

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
        """Reason code of the broker or client; empty for an unclassified error."""
        self.facts = dict(facts or {})
        """Facts of the error, as reported by the broker or client."""
        self.retry_after_s = retry_after_s
        """Delay in seconds that the broker requests before a retry, if any."""

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the error, so that it can be sent between processes."""
        state = {"reason": self.reason, "facts": self.facts, "retry_after_s": self.retry_after_s}
        return (_rebuild, (type(self), str(self), state))

    def fact(self, name: str) -> int:
        """Return a numeric fact, or -1 if it is absent."""
        text = self.facts.get(name, "")
        return int(text) if text.lstrip("-").isdigit() else -1


def _rebuild(kind: type[ForebayError], message: str, state: dict[str, object]) -> ForebayError:
    error = kind.__new__(kind, message)
    error.args = (message,)
    error.__dict__.update(state)
    return error


class InvalidArgument(ForebayError):
    """The request is wrong. Correct it; do not retry it."""

    default_reason = "INVALID_REQUEST"


class InvalidName(InvalidArgument):
    """The name of a sink has an invalid form."""

    default_reason = "INVALID_SINK_NAME"


class InvalidSetting(InvalidArgument):
    """A setting is unknown or out of bounds, or would lower the number of partitions."""

    default_reason = "INVALID_SETTING"


class InvalidPartition(InvalidArgument):
    """The sink has no such partition."""

    default_reason = "INVALID_PARTITION"


class InvalidPage(InvalidArgument):
    """A page or its records are inconsistent or exceed a limit."""

    default_reason = "INVALID_PAGE"


class InvalidRange(InvalidArgument):
    """A range of offsets is empty, inverted or out of bounds, or there are too many ranges."""

    default_reason = "INVALID_RANGE"


class InvalidOpen(InvalidArgument):
    """The broker rejected the opening message of a stream."""

    default_reason = "INVALID_OPEN"


class InvalidCredit(InvalidArgument):
    """A credit is out of bounds."""

    default_reason = "INVALID_CREDIT"


class InvalidNack(InvalidArgument):
    """A field of a nack is out of bounds."""

    default_reason = "INVALID_NACK"


class InvalidPull(InvalidArgument):
    """A field of a pull is out of bounds."""

    default_reason = "INVALID_PULL"


class InvalidInterval(InvalidArgument):
    """An interval is out of bounds."""

    default_reason = "INVALID_INTERVAL"


class InvalidPageToken(InvalidArgument):
    """A page token of a list call is unknown to the broker."""

    default_reason = "INVALID_PAGE_TOKEN"


class InvalidSubscriptionName(InvalidArgument):
    """The name of a subscription has an invalid form."""

    default_reason = "INVALID_SUBSCRIPTION_NAME"


class InvalidPosition(InvalidArgument):
    """A position in a sink is missing or ambiguous."""

    default_reason = "INVALID_POSITION"


class InvalidFilter(InvalidArgument):
    """A filter of dead letters is contradictory or invalid."""

    default_reason = "INVALID_FILTER"


class InvalidEpoch(InvalidArgument):
    """A stage or commit is invalid: a bad name or number, a repeated epoch, or sinks of several brokers."""

    default_reason = "INVALID_EPOCH"


class InvalidSchema(InvalidArgument):
    """A schema is empty or too large, or the sink has too many schemas."""

    default_reason = "INVALID_SCHEMA"


class CredentialsUnusable(InvalidArgument):
    """A certificate, key or token cannot be read, or must not be sent on this connection.

    The text names it and says what to do.
    """

    default_reason = "CREDENTIALS_UNUSABLE"


class InvalidLease(InvalidArgument):
    """The holder, the duration or the size of a lease is out of bounds."""

    default_reason = "INVALID_LEASE"


class RecordTooLarge(InvalidArgument):
    """One record exceeds a limit. Waiting does not help: split the record, or raise the limit."""

    default_reason = "RECORD_TOO_LARGE"


class RequestTooLarge(InvalidArgument):
    """A request has more bytes or items than its call accepts. Divide it."""

    default_reason = "REQUEST_TOO_LARGE"


class NumberOutOfRange(InvalidArgument):
    """An offset, number, time or duration is out of the range that can be stored."""

    default_reason = "NUMBER_OUT_OF_RANGE"


class PageCorrupt(InvalidArgument):
    """A page does not match its checksum: it was damaged in transit. Encode it and send it again."""

    default_reason = "PAGE_CORRUPT"


class NotFound(ForebayError):
    """The named object does not exist."""


class SinkNotFound(NotFound):
    """The sink does not exist. Create it first."""

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
        """Highest registered version; 0 if there is none."""
        return self.fact("latest")


class AlreadyExists(ForebayError):
    """The object exists already and differs."""


class SinkExists(AlreadyExists):
    """The sink exists already. Pass ``exist_ok=True``, use its settings, or update it."""

    default_reason = "SINK_EXISTS"


class SubscriptionExists(AlreadyExists):
    """The subscription exists already, possibly with another start. Use it, seek it, or rename yours."""

    default_reason = "SUBSCRIPTION_EXISTS"


class AlreadyCommitted(AlreadyExists):
    """The epoch of the staged pages is committed already. No action is needed."""

    default_reason = "ALREADY_COMMITTED"


class FailedPrecondition(ForebayError):
    """The current state does not allow the request."""


class SinkNotEmpty(FailedPrecondition):
    """The sink has unsettled records. Wait until they are delivered, or delete it with ``force=True``."""

    default_reason = "SINK_NOT_EMPTY"


class SubscriptionReplaced(FailedPrecondition):
    """The subscription was deleted and created again. Get it and start over.

    The request referred to the former subscription. Nothing was settled or moved.
    """

    default_reason = "SUBSCRIPTION_REPLACED"

    @property
    def named(self) -> str:
        """Incarnation that the request referred to."""
        return self.facts.get("named", "")

    @property
    def current(self) -> str:
        """Incarnation of the subscription that has the name now."""
        return self.facts.get("current", "")


class SinkReplaced(FailedPrecondition):
    """The sink was deleted and created again. Get it and start over.

    The request referred to the former sink: its offsets, tokens, leased sets and schema versions are invalid now.
    Nothing was changed.
    """

    default_reason = "SINK_REPLACED"

    @property
    def named(self) -> str:
        """Incarnation that the request referred to."""
        return self.facts.get("named", "")

    @property
    def current(self) -> str:
        """Incarnation of the sink that has the name now."""
        return self.facts.get("current", "")


class DefaultSubscription(FailedPrecondition):
    """``default`` cannot be deleted; it lives as long as its sink. Seek it to ``latest`` instead."""

    default_reason = "DEFAULT_SUBSCRIPTION"


class StagedIncomplete(FailedPrecondition):
    """Pages named by a commit are not staged; nothing became visible. Stage and commit the epoch again."""

    default_reason = "STAGED_INCOMPLETE"


class StagingUnsupported(FailedPrecondition):
    """The sink stores nothing on disk, or holds dead letters. Publish unstaged, or use another sink."""

    default_reason = "STAGING_UNSUPPORTED"


class SubscriptionInUse(FailedPrecondition):
    """A consumer owns a partition of the subscription, or a holder has a lease on it.

    Stop the consumer or release the lease, or use another subscription.
    """

    default_reason = "SUBSCRIPTION_IN_USE"


class OrderingStrict(FailedPrecondition):
    """The sink is in STRICT order, which has no retry queue. Set its ``ordering`` to ``RELAXED``."""

    default_reason = "ORDERING_STRICT"


class ResourceExhausted(ForebayError):
    """A resource is exhausted now. Retry after ``retry_after_s``."""

    retryable = True


class SinkFull(ResourceExhausted):
    """A limit of the sink is reached and its policy is REJECT. Wait for deliveries, or raise the limit."""

    default_reason = "SINK_FULL"


class DiskFull(ResourceExhausted):
    """The broker's disk is full up to its reserve. Free space; appends then resume without a restart."""

    default_reason = "DISK_FULL"


class BrokerFull(ResourceExhausted):
    """All sinks together have reached the broker's limit. A publisher retries automatically."""

    default_reason = "BROKER_FULL"


class MemoryOverloaded(ResourceExhausted):
    """The broker's memory is above its high watermark. A publisher retries automatically."""

    default_reason = "MEMORY_OVERLOADED"


class TooManyWaiting(ResourceExhausted):
    """The broker has reached its limit of bytes that await a sync. Retry shortly."""

    default_reason = "TOO_MANY_WAITING"


class TooManySinks(ResourceExhausted):
    """The broker has reached its limit of sinks or partitions. Delete a sink, or raise the limit."""

    default_reason = "TOO_MANY_SINKS"
    retryable = False


class TooManyStreams(ResourceExhausted):
    """The broker has reached its limit of streams. Close one, or retry later."""

    default_reason = "TOO_MANY_STREAMS"


class ReaderTooSlow(ResourceExhausted):
    """The broker closed a stream whose reader was too slow, to free memory for others.

    The client opens it again.
    """

    default_reason = "READER_TOO_SLOW"


class TooManySubscriptions(ResourceExhausted):
    """The sink has reached its limit of subscriptions. Delete one."""

    default_reason = "TOO_MANY_SUBSCRIPTIONS"
    retryable = False


class RequestTooSlow(ResourceExhausted):
    """The broker ended a request that was not complete, to free memory for others. Send it again."""

    default_reason = "REQUEST_TOO_SLOW"


class RateLimited(ResourceExhausted):
    """The principal of the caller exceeds its rate limit. Retry after ``retry_after_s``."""

    default_reason = "RATE_LIMITED"


class OutOfRange(ForebayError):
    """The position does not exist."""

    @property
    def requested(self) -> int:
        """Requested offset."""
        return self.fact("requested")

    @property
    def earliest(self) -> int:
        """Lowest stored offset."""
        return self.fact("earliest")

    @property
    def next_offset(self) -> int:
        """Offset of the next record."""
        return self.fact("next")


class OffsetTrimmed(OutOfRange):
    """The requested position is trimmed. Restart at ``earliest``, or accept the gap."""

    default_reason = "OFFSET_TRIMMED"


class OffsetAhead(OutOfRange):
    """The requested position is above ``next_offset``, where no record exists yet."""

    default_reason = "OFFSET_AHEAD"


class Superseded(ForebayError):
    """A newer owner has taken over, or a sequence is broken."""


class WriterFenced(Superseded):
    """The writer is fenced: a newer epoch of it was opened, or the broker expired it or its staged pages.

    Stop, or open a new publisher.
    """

    default_reason = "WRITER_FENCED"


class StaleOwner(Superseded):
    """Another consumer owns the partition now. The records are redelivered by the broker."""

    default_reason = "STALE_OWNER"


class ConsumerReplaced(Superseded):
    """Another subscriber opened with the same ``consumer_id``. Use a unique id for each subscriber."""

    default_reason = "CONSUMER_REPLACED"


class SequenceGap(Superseded):
    """An earlier page of this writer is missing. The publisher recovers; users do not see this error."""

    default_reason = "SEQUENCE_GAP"


class SequenceConflict(Superseded):
    """A sequence number was used for other data: two publishers share a ``writer_id``.

    Use a unique id for each publisher.
    """

    default_reason = "SEQUENCE_CONFLICT"


class EpochFenced(Superseded):
    """The epoch is below the last one, or a newer run of the producer has started.

    Stop: committed records stay committed.
    """

    default_reason = "EPOCH_FENCED"


class EpochConflict(Superseded):
    """The same run committed the epoch with other tokens, or only some epochs of this commit before."""

    default_reason = "EPOCH_CONFLICT"


class EpochContentConflict(Superseded):
    """The epoch was committed with other records.

    Repeat it with the same records, or keep the committed ones with ``EpochCheck.NONE``.
    """

    default_reason = "EPOCH_CONTENT_CONFLICT"

    @property
    def stored_records(self) -> int:
        """Number of committed records."""
        return self.fact("stored_records")

    @property
    def sent_records(self) -> int:
        """Number of records of the repeat."""
        return self.fact("sent_records")


class ProducerChanged(Superseded):
    """Another producer has the write name.

    Take it over with ``takeover=True``, or use another write name.
    """

    default_reason = "PRODUCER_CHANGED"


class SchemaChanged(Superseded):
    """Another client registered a version meanwhile. Get the latest version and compare again."""

    default_reason = "SCHEMA_CHANGED"


class DataLoss(ForebayError):
    """Stored records are lost."""


class PageQuarantined(DataLoss):
    """A stored page fails its checksum; the broker keeps its bytes in quarantine."""

    default_reason = "PAGE_QUARANTINED"


class GapError(DataLoss):
    """A replay reached a gap. Continue at ``resume_offset``, or read with ``on_gap="yield"``."""

    default_reason = "GAP"

    @property
    def partition(self) -> int:
        """Partition of the gap."""
        return self.fact("partition")

    @property
    def first_offset(self) -> int:
        """First missing offset."""
        return self.fact("first_offset")

    @property
    def last_offset(self) -> int:
        """Last missing offset."""
        return self.fact("last_offset")

    @property
    def resume_offset(self) -> int:
        """First offset after the gap."""
        return self.last_offset + 1


class AccessDenied(ForebayError):
    """Credentials are missing or wrong, or do not permit the request."""


class Unauthenticated(AccessDenied):
    """The broker requires a token, and it is missing or unknown. Set a token that the broker knows."""

    default_reason = "TOKEN_REFUSED"


class PermissionDenied(AccessDenied):
    """The caller is authenticated and lacks the permission.

    Contact the operator of the broker, or of the proxy in front of it.
    """

    default_reason = "PERMISSION_DENIED"


class HandshakeFailed(AccessDenied):
    """TLS failed: only one side uses TLS, or a certificate is not trusted.

    A retry does not help; the text says what to set.
    """

    default_reason = "HANDSHAKE_FAILED"


class BrokerUnavailable(ForebayError):
    """The broker cannot be reached or is stopping. Check the endpoint; retry after ``retry_after_s``."""

    default_reason = "UNREACHABLE"
    retryable = True


class BrokerDraining(BrokerUnavailable):
    """The broker is stopping. Retry at its successor. Nothing of the request was executed."""

    default_reason = "DRAINING"


class SessionTimedOut(BrokerUnavailable):
    """The broker closed the session, because the consumer did not respond in time.

    The subscriber reconnects; its records are redelivered.
    """

    default_reason = "SESSION_TIMED_OUT"


class StoreFenced(BrokerUnavailable):
    """The broker's disk failed. Requests are rejected until the broker is restarted."""

    default_reason = "STORE_FENCED"


class ReadFailed(BrokerUnavailable):
    """The broker's disk did not answer a read. Nothing is lost; the same request may succeed later."""

    default_reason = "READ_FAILED"


class BrokerFault(ForebayError):
    """Unclassified failure of the broker, or of a proxy in front of it. See the broker's log."""

    retryable = True


class ProtocolViolation(BrokerFault):
    """The broker's answer violates the wire contract: client and broker versions are incompatible."""

    default_reason = "PROTOCOL_VIOLATION"
    retryable = False


class ClientFault(ForebayError):
    """Unclassified failure of the client library: a defect.

    Open a new publisher or subscriber, and report the defect.
    """

    default_reason = "CLIENT_FAULT"


class DeadlineExceeded(ForebayError):
    """No answer within the time limit; the outcome of the request is unknown."""

    default_reason = "DEADLINE_EXCEEDED"
    retryable = True


class ArrowNotInstalled(ForebayError):
    """The sink holds rows with a schema, and pyarrow is not installed. Install the extra ``arrow``."""

    default_reason = "ARROW_NOT_INSTALLED"


class DeliveryTimeout(ForebayError):
    """Records were not durable within ``delivery_timeout_s``.

    If they are sent again, they may be stored twice.
    """

    default_reason = "DELIVERY_TIMEOUT"

    @property
    def refusal(self) -> str:
        """Reason of the broker's last rejection, such as ``SINK_FULL``; empty if there was none."""
        return self.facts.get("refusal", "")


class FlushTimeout(ForebayError):
    """``flush`` timed out. The records are still being sent; flush again, or close."""

    default_reason = "FLUSH_TIMEOUT"


class PublishAbandoned(ForebayError):
    """The publisher was closed before the records were durable; they may or may not be stored."""

    default_reason = "PUBLISH_ABANDONED"


class Closed(ForebayError):
    """The object is closed. Open a new one."""


class PublisherClosed(Closed):
    """The publisher is closed."""

    default_reason = "PUBLISHER_CLOSED"


class SubscriberClosed(Closed):
    """The subscriber is closed."""

    default_reason = "SUBSCRIBER_CLOSED"


class ClientClosed(Closed):
    """The client is closed."""

    default_reason = "CLIENT_CLOSED"


class UsedAfterFork(Closed):
    """A publisher, subscriber or replay that was opened before ``fork`` was used in the child.

    Open it in the child.
    """

    default_reason = "USED_AFTER_FORK"


def _walk(kind: type[ForebayError]) -> list[type[ForebayError]]:
    return [kind, *(below for child in kind.__subclasses__() for below in _walk(child))]


BY_REASON: Final[Mapping[str, type[ForebayError]]] = {
    kind.default_reason: kind for kind in _walk(ForebayError) if kind.default_reason
}
"""Class of each reason."""

BY_CODE: Final[Mapping[int, type[ForebayError]]] = {
    1: BrokerUnavailable,  # CANCELLED: by the broker or a proxy; cancellations by this client are not raised
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
"""Class of each gRPC status code, for reasons that this version does not know."""


def error_for(
    code: int,
    reason: str,
    message: str,
    *,
    facts: Mapping[str, str] | None = None,
    retry_after_s: float | None = None,
) -> ForebayError:
    """Return the error for a status: by its reason, otherwise by its code."""
    kind = BY_REASON.get(reason) or BY_CODE.get(code, BrokerFault)
    return kind(message, reason=reason, facts=facts, retry_after_s=retry_after_s)
