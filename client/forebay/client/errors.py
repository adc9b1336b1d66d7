"""Errors of the client: a class for each reaction of a caller, and a reason for each cause.

    ForebayError
    ├── InvalidArgument       the request is wrong; correct it, the same request never succeeds
    │   └── RecordTooLarge, InvalidPage, PageCorrupt, CredentialsUnusable
    ├── NotFound              SinkNotFound, SubscriptionNotFound, SchemaNotFound
    ├── AlreadyExists         AlreadyCommitted
    ├── FailedPrecondition    NotOwner, SinkReplaced, SubscriptionReplaced, PositionDamaged
    ├── ResourceExhausted     SinkFull
    ├── OutOfRange            OffsetTrimmed, PositionUnusable
    ├── Superseded            WriterFenced, EpochConflict, EpochContentConflict, SchemaChanged, PositionConflict,
    │                         PositionFenced
    ├── GapError              a replay reached a gap
    ├── AccessDenied          a token, a right or a certificate is missing
    ├── BrokerUnavailable     unreachable; BrokerDraining
    ├── BrokerFault           the broker failed in an unclassified way
    │   └── ProtocolViolation the broker's answer violates the wire contract
    ├── ClientFault           the client library failed in an unclassified way
    ├── DeadlineExceeded      no answer within the time limit
    ├── ArrowNotInstalled     rows with a schema, but pyarrow is not installed
    ├── PositionStoreError    a store of saved positions refused; PositionStoreUnavailable
    ├── DeliveryTimeout, FlushTimeout, BufferFull    a publisher did not store its records in time
    └── Closed                the object is closed

``reason`` is one of the table ``forebay.errors.reasons``, which has the advice for it and says whether a retry helps.
It selects the class, otherwise the status does; the text never does, and is not API. Facts are short strings and never
payloads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from forebay.errors.reasons import Reason, reason_of
from forebay.errors.status import Status

__all__ = [
    "AccessDenied",
    "AlreadyCommitted",
    "AlreadyExists",
    "ArrowNotInstalled",
    "BrokerDraining",
    "BrokerFault",
    "BrokerUnavailable",
    "BufferFull",
    "ClientFault",
    "Closed",
    "CredentialsUnusable",
    "DeadlineExceeded",
    "DeliveryTimeout",
    "EpochConflict",
    "EpochContentConflict",
    "FailedPrecondition",
    "FlushTimeout",
    "ForebayError",
    "GapError",
    "InvalidArgument",
    "InvalidPage",
    "NotFound",
    "NotOwner",
    "OffsetTrimmed",
    "OutOfRange",
    "PageCorrupt",
    "PositionConflict",
    "PositionDamaged",
    "PositionFenced",
    "PositionStoreError",
    "PositionStoreUnavailable",
    "PositionUnusable",
    "ProtocolViolation",
    "RecordTooLarge",
    "ResourceExhausted",
    "SchemaChanged",
    "SchemaNotFound",
    "SinkFull",
    "SinkNotFound",
    "SinkReplaced",
    "SubscriptionNotFound",
    "SubscriptionReplaced",
    "Superseded",
    "WriterFenced",
]


class ForebayError(Exception):
    """Base of all errors of the client."""

    statuses: ClassVar[Sequence[Status]] = (Status.DATA_LOSS,)
    """Statuses of the errors of this class whose reason has no class of its own."""

    reasons: ClassVar[Sequence[Reason]] = ()
    """Reasons of this class, if its status does not select it. A single one is the default."""

    passes: ClassVar[bool] = False
    """True if the same request may succeed later, for a reason that this version does not know."""

    def __init__(
        self,
        message: str,
        *,
        reason: Reason | str = "",
        facts: Mapping[str, str] | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        given = reason.name if isinstance(reason, Reason) else reason
        self.reason = given or (self.reasons[0].name if len(self.reasons) == 1 else "")
        """Reason of the broker or client; empty for an unclassified error."""
        self.facts = dict(facts or {})
        """Facts of the error, as reported by the broker or client."""
        self.retry_after_s = retry_after_s
        """Delay in seconds that the broker requests before a retry, if any."""
        known = reason_of(self.reason)
        self.retryable = self.passes if known is None else known.is_retryable
        """True if the same request may succeed later."""

    @property
    def advice(self) -> str:
        """Meaning and recommended reaction; empty for an unclassified error."""
        known = reason_of(self.reason)
        return "" if known is None else known.advice

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the error, so that it can be sent between processes."""
        return (_rebuild, (type(self), str(self), vars(self)))

    def fact(self, name: str) -> int:
        """Return a numeric fact, or -1 if it is absent."""
        text = self.facts.get(name, "")
        return int(text) if text.lstrip("-").isdigit() else -1


def _rebuild(kind: type[ForebayError], message: str, state: dict[str, object]) -> ForebayError:
    error = kind.__new__(kind, message)
    error.args = (message,)
    error.__dict__.update(state)
    return error


# -- the request is wrong


class InvalidArgument(ForebayError):
    """The request is wrong. Correct it; do not retry it."""

    statuses = (Status.INVALID_ARGUMENT,)
    reasons = (Reason.INVALID_REQUEST,)


class RecordTooLarge(InvalidArgument):
    """One record exceeds a limit. Waiting does not help: split the record, or raise the limit."""

    reasons = (Reason.RECORD_TOO_LARGE,)


class InvalidPage(InvalidArgument):
    """A page or its records are inconsistent, exceed a limit, or cannot be decoded."""

    reasons = (Reason.INVALID_PAGE,)


class PageCorrupt(InvalidArgument):
    """A page does not match its checksum: it was damaged in transit. Encode it and send it again."""

    reasons = (Reason.PAGE_CORRUPT,)


class CredentialsUnusable(InvalidArgument):
    """A certificate, key or token cannot be read, or must not be sent on this connection.

    The text names it and says what to do.
    """

    reasons = (Reason.CREDENTIALS_UNUSABLE,)


# -- the object does not exist, exists already, or is in another state


class NotFound(ForebayError):
    """The named object does not exist."""

    statuses = (Status.NOT_FOUND,)


class SinkNotFound(NotFound):
    """The sink does not exist. Create it first."""

    reasons = (Reason.SINK_NOT_FOUND,)


class SubscriptionNotFound(NotFound):
    """The sink has no such subscription."""

    reasons = (Reason.SUBSCRIPTION_NOT_FOUND,)


class SchemaNotFound(NotFound):
    """The sink has no such version of its schema, or lost it when its store was damaged."""

    reasons = (Reason.SCHEMA_NOT_FOUND,)

    @property
    def latest(self) -> int:
        """Highest registered version; 0 if there is none."""
        return self.fact("latest")


class AlreadyExists(ForebayError):
    """The object exists already and differs. Use it, change it, or choose another name."""

    statuses = (Status.ALREADY_EXISTS,)


class AlreadyCommitted(AlreadyExists):
    """The epoch of the staged pages is committed already. No action is needed."""

    reasons = (Reason.ALREADY_COMMITTED,)


class FailedPrecondition(ForebayError):
    """The current state does not allow the request."""

    statuses = (Status.FAILED_PRECONDITION,)


class _Replaced(FailedPrecondition):
    @property
    def named(self) -> str:
        """Incarnation that the request referred to."""
        return self.facts.get("named", "")

    @property
    def current(self) -> str:
        """Incarnation of the object that has the name now."""
        return self.facts.get("current", "")


class NotOwner(FailedPrecondition):
    """The broker owns another shard than that of the sink.

    ``facts`` has the ``shard`` of the sink and the ``endpoint`` of its owner.

    A client of `forebay://…` follows it, and raises it only where brokers contradict each other.
    """

    reasons = (Reason.NOT_OWNER,)


class SinkReplaced(_Replaced):
    """The sink was deleted and recreated. Get it and start over.

    The request referred to the former sink: its offsets, tokens, leased sets and schema versions are invalid now.
    Nothing was changed.
    """

    reasons = (Reason.SINK_REPLACED,)


class SubscriptionReplaced(_Replaced):
    """The subscription was deleted and recreated. Get it and start over.

    The request referred to the former subscription. Nothing was settled or moved.
    """

    reasons = (Reason.SUBSCRIPTION_REPLACED,)


class PositionDamaged(FailedPrecondition):
    """A stored position cannot be read. Delete it to begin at the start point of the consumer."""

    reasons = (Reason.POSITION_DAMAGED,)


# -- no room, or the position does not exist


class ResourceExhausted(ForebayError):
    """A resource is exhausted. If it is ``retryable``, retry after ``retry_after_s``; otherwise free some."""

    statuses = (Status.RESOURCE_EXHAUSTED,)
    passes = True


class SinkFull(ResourceExhausted):
    """A limit of the sink is reached and its policy is REJECT. Wait for deliveries, or raise the limit."""

    reasons = (Reason.SINK_FULL,)


class OutOfRange(ForebayError):
    """The position does not exist."""

    statuses = (Status.OUT_OF_RANGE,)

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

    reasons = (Reason.OFFSET_TRIMMED,)


class PositionUnusable(OutOfRange):
    """A saved position or a start offset does not fit the sink, and the policy ``on_misfit`` is ``error``."""

    reasons = (Reason.POSITION_UNUSABLE,)


class GapError(ForebayError):
    """A replay reached a gap. Continue at ``resume_offset``, or read with ``on_gap="yield"``."""

    reasons = (Reason.GAP,)

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


# -- a newer owner has taken over


class Superseded(ForebayError):
    """A newer owner has taken over, or a sequence is broken. Stop, or start over."""

    statuses = (Status.ABORTED,)


class WriterFenced(Superseded):
    """The writer is fenced: a newer epoch of it was opened, or the broker expired it or its staged pages.

    Stop, or open a new publisher.
    """

    reasons = (Reason.WRITER_FENCED,)


class EpochConflict(Superseded):
    """The same run committed the epoch with other tokens, or only some epochs of this commit before."""

    reasons = (Reason.EPOCH_CONFLICT,)


class EpochContentConflict(Superseded):
    """The epoch was committed with other records.

    Repeat it with the same records, or keep the committed ones with ``EpochCheck.NONE``.
    """

    reasons = (Reason.EPOCH_CONTENT_CONFLICT,)

    @property
    def stored_records(self) -> int:
        """Number of committed records."""
        return self.fact("stored_records")

    @property
    def sent_records(self) -> int:
        """Number of records of the repeat."""
        return self.fact("sent_records")


class SchemaChanged(Superseded):
    """Another client registered a version concurrently. Get the latest version and compare again."""

    reasons = (Reason.SCHEMA_CHANGED,)


class PositionConflict(Superseded):
    """Another consumer wrote the position concurrently. Read it, then decide."""

    reasons = (Reason.POSITION_CONFLICT,)


class PositionFenced(Superseded):
    """Another consumer with the same name took the partition over. Stop this one."""

    reasons = (Reason.POSITION_FENCED,)


# -- the broker refuses, fails or does not answer


class AccessDenied(ForebayError):
    """Credentials are missing or wrong, or do not permit the request. A retry does not help."""

    statuses = (Status.UNAUTHENTICATED, Status.PERMISSION_DENIED)
    reasons = (Reason.TOKEN_REFUSED, Reason.PERMISSION_DENIED, Reason.HANDSHAKE_FAILED)


class BrokerUnavailable(ForebayError):
    """The broker cannot be reached or is stopping. Check the endpoint; retry after ``retry_after_s``."""

    statuses = (Status.UNAVAILABLE, Status.CANCELLED)  # cancelled by the broker or a proxy, never by this client
    reasons = (Reason.UNREACHABLE,)
    passes = True


class BrokerDraining(BrokerUnavailable):
    """The broker is stopping. Retry at its successor. Nothing of the request was executed."""

    reasons = (Reason.DRAINING,)


class BrokerFault(ForebayError):
    """Unclassified failure of the broker, or of a proxy in front of it. See the broker's log."""

    statuses: ClassVar[Sequence[Status]] = (Status.UNKNOWN, Status.INTERNAL)
    passes = True


class ProtocolViolation(BrokerFault):
    """The broker's answer violates the wire contract: client and broker versions are incompatible."""

    statuses = (Status.UNIMPLEMENTED,)
    reasons = (Reason.PROTOCOL_VIOLATION,)
    passes = False


class DeadlineExceeded(ForebayError):
    """No answer within the time limit; the outcome of the request is unknown."""

    statuses = (Status.DEADLINE_EXCEEDED,)
    reasons = (Reason.DEADLINE_EXCEEDED,)
    passes = True


# -- errors of the client itself


class ClientFault(ForebayError):
    """Unclassified failure of the client library: a defect.

    Open a new publisher or subscriber, and report the defect.
    """

    reasons = (Reason.CLIENT_FAULT,)


class ArrowNotInstalled(ForebayError):
    """The sink holds rows with a schema, and pyarrow is not installed. Install the extra ``arrow``."""

    reasons = (Reason.ARROW_NOT_INSTALLED,)


class PositionStoreError(ForebayError):
    """A store of saved positions refused the credentials or the request. Correct its settings."""

    reasons: ClassVar[Sequence[Reason]] = (Reason.POSITION_STORE_REFUSED,)


class PositionStoreUnavailable(PositionStoreError):
    """A store of saved positions did not answer in time. A write may have taken effect."""

    reasons = (Reason.POSITION_STORE_UNAVAILABLE,)


class DeliveryTimeout(ForebayError):
    """Records were not durable within ``delivery_timeout_s``.

    If they are sent again, they may be stored twice.
    """

    reasons = (Reason.DELIVERY_TIMEOUT,)

    @property
    def refusal(self) -> str:
        """Reason of the broker's last rejection, such as ``SINK_FULL``; empty if there was none."""
        return self.facts.get("refusal", "")


class FlushTimeout(ForebayError):
    """``flush`` timed out. The records are still being sent; flush again, or close."""

    reasons = (Reason.FLUSH_TIMEOUT,)


class BufferFull(ForebayError):
    """The buffer is full, and ``send`` was not to wait. Send again later, or drop the record."""

    reasons = (Reason.BUFFER_FULL,)


class Closed(ForebayError):
    """The object is closed, or belongs to another process or event loop. Open a new one."""

    reasons = (
        Reason.CLIENT_CLOSED,
        Reason.PUBLISHER_CLOSED,
        Reason.PUBLISH_ABANDONED,
        Reason.SUBSCRIBER_CLOSED,
        Reason.USED_AFTER_FORK,
        Reason.FOREIGN_LOOP,
    )
