"""Errors of the broker, by the reaction of the caller.

    BrokerError
    ├── Invalid            the request is wrong; the same request never succeeds
    │   ├── InvalidName, InvalidSetting, InvalidPage, PageCorrupt, RecordTooLarge, InvalidPartition, InvalidRange,
    │   ├── InvalidOpen, InvalidCredit, InvalidNack, InvalidPull, InvalidInterval, InvalidPageToken,
    │   ├── InvalidSubscriptionName, InvalidPosition, InvalidFilter, InvalidEpoch, InvalidSchema, InvalidLease
    │   └── InvalidRequest, RequestTooLarge
    ├── NotFound           SinkNotFound, SubscriptionNotFound, EpochNotFound, SchemaNotFound
    ├── Conflict           SinkExists, SinkNotEmpty, SubscriptionExists, DefaultSubscription, AlreadyCommitted,
    │                      StagedIncomplete, StagingUnsupported, SubscriptionInUse, OrderingStrict, SinkReplaced,
    │                      SubscriptionReplaced
    ├── Exhausted          no room now; retry after `retry_after_s`
    │   └── SinkFull, DiskFull, BrokerFull, MemoryOverloaded, TooManyWaiting, TooManySinks, TooManyStreams,
    │       TooManySubscriptions, RateLimited
    ├── OutOfRange         OffsetTrimmed, OffsetAhead
    ├── TokenRefused       the caller is not authenticated
    ├── PermissionDenied   the caller is authenticated and does not have the right
    ├── Superseded         a newer caller has taken over, or the numbering is broken
    │   └── WriterFenced, SequenceGap, SequenceConflict, ConsumerReplaced, EpochFenced, EpochConflict,
    │       EpochContentConflict, ProducerChanged, SchemaChanged
    └── Unavailable        Draining, StoreFenced: the broker stops or must be restarted; retry later
                           ReadFailed: the disk did not answer a read; nothing is lost; retry

The `reason` is API; the text is not. Facts are attributes and travel as `ErrorInfo.metadata`.
"""

from __future__ import annotations

from typing import ClassVar, Final

SHOWN_MAX: Final = 140
"""Characters of a caller's input that an error repeats: errors travel in headers, which are bounded."""


def _shown(given: object) -> str:
    return str(given)[:SHOWN_MAX]


class BrokerError(Exception):
    """Base of all errors. ``facts`` are short strings, never payloads."""

    reason: ClassVar[str]
    retry_after_s: float | None = None

    def __init__(self, message: str, **facts: object) -> None:
        super().__init__(message)
        self.facts = {name: str(value) for name, value in facts.items()}


class Invalid(BrokerError):
    """The request is wrong. Correct it; do not retry it."""

    reason = "INVALID_REQUEST"

    def __init__(self, message: str, *, field: str = "", **facts: object) -> None:
        super().__init__(message, **({"field": field} if field else {}), **facts)
        self.field = field


class InvalidRequest(Invalid):
    """The request is not a message of its type. Encode it with the schema of this version."""

    reason = "INVALID_REQUEST"


class NumberOutOfRange(Invalid):
    """A number, time or duration of the request is out of range. Send one within its range."""

    reason = "NUMBER_OUT_OF_RANGE"

    def __init__(self, field: str, found: int, low: int, high: int) -> None:
        """Set the dotted path ``field``, the value ``found``, and the allowed range."""
        super().__init__(
            f"{field} is {found}: {low} to {high} are allowed", field=field, found=found, low=low, high=high
        )


class RequestTooLarge(Invalid):
    """The request exceeds a bound of its call. Divide it."""

    reason = "REQUEST_TOO_LARGE"

    def __init__(self, what: str, found: int, bound: int, *, field: str = "") -> None:
        """Set the counted thing ``what``, and the dotted path ``field`` at which the bound was exceeded."""
        super().__init__(
            f"the request has {found} {what}{f', counted up to {field}' if field else ''};"
            f" at most {bound} are allowed: divide it",
            field=field,
            found=found,
            bound=bound,
        )


class InvalidName(Invalid):
    """The name does not have the required form."""

    reason = "INVALID_SINK_NAME"


class InvalidSetting(Invalid):
    """A setting has an invalid value."""

    reason = "INVALID_SETTING"

    def __init__(self, name: str, value: object, allowed: str) -> None:
        shown = _shown(value)
        super().__init__(f"{name} = {shown}: must be {allowed}", field=name, value=shown, allowed=allowed)


class InvalidPage(Invalid):
    """The page is inconsistent."""

    reason = "INVALID_PAGE"


class PageCorrupt(Invalid):
    """The page does not match its checksum: it was damaged in transit. Encode it again."""

    reason = "PAGE_CORRUPT"

    def __init__(self, stated: int, found: int) -> None:
        super().__init__(
            f"the page's CRC-32 is {found:08x}, stated is {stated:08x}",
            stated=f"{stated:08x}",
            found=f"{found:08x}",
        )


class RecordTooLarge(Invalid):
    """A record exceeds a bound that does not change with time."""

    reason = "RECORD_TOO_LARGE"

    def __init__(self, size: int, bound: int, what: str) -> None:
        super().__init__(f"{what} of {size} bytes is over the bound of {bound} bytes", size=size, bound=bound)


class InvalidPartition(Invalid):
    """The partition does not exist."""

    reason = "INVALID_PARTITION"

    def __init__(self, partition: int, partitions: int) -> None:
        super().__init__(
            f"partition {partition} does not exist; the sink has 0 to {partitions - 1}",
            field="partition",
            partition=partition,
            partitions=partitions,
        )


class InvalidRange(Invalid):
    """A range of offsets is empty or reversed, or there are too many."""

    reason = "INVALID_RANGE"


class InvalidOpen(Invalid):
    """The stream did not begin with a valid `open`."""

    reason = "INVALID_OPEN"


class InvalidCredit(Invalid):
    """A credit is out of bounds."""

    reason = "INVALID_CREDIT"


class InvalidNack(Invalid):
    """The nack has a value that is out of bounds."""

    reason = "INVALID_NACK"


class InvalidPull(Invalid):
    """The pull has a value that is out of bounds."""

    reason = "INVALID_PULL"


class InvalidInterval(Invalid):
    """An interval is out of bounds."""

    reason = "INVALID_INTERVAL"


class InvalidPageToken(Invalid):
    """The page token of a list request was not issued by the broker."""

    reason = "INVALID_PAGE_TOKEN"


class InvalidSubscriptionName(Invalid):
    """The name of the subscription does not have the required form."""

    reason = "INVALID_SUBSCRIPTION_NAME"

    def __init__(self, name: str) -> None:
        super().__init__(f"{_shown(name)!r} is not a subscription's name: use 1 to 64 of [A-Za-z0-9._-]", field="name")


class InvalidPosition(Invalid):
    """The position is missing or ambiguous."""

    reason = "INVALID_POSITION"


class InvalidFilter(Invalid):
    """The filter selects records that cannot exist."""

    reason = "INVALID_FILTER"


class InvalidSchema(Invalid):
    """The schema is empty, too large, or exceeds the number of schemas."""

    reason = "INVALID_SCHEMA"


class SinkNotFound(BrokerError):
    """The sink does not exist. Create it first."""

    reason = "SINK_NOT_FOUND"

    def __init__(self, sink: str) -> None:
        super().__init__(f"there is no sink {_shown(sink)!r}", sink=_shown(sink))


class SinkReplaced(BrokerError):
    """The sink was deleted and recreated since the caller read it. Read it again and start over."""

    reason = "SINK_REPLACED"

    def __init__(self, sink: str, named: str, current: str) -> None:
        shown = _shown(named)
        super().__init__(
            f"sink {sink!r} was deleted and recreated: the request names incarnation {shown!r}, the current one is "
            f"{current!r}. Nothing was done. Offsets, positions, tokens and schema versions of the former sink are "
            "invalid: read the sink again and start over",
            sink=sink,
            named=shown,
            current=current,
        )


class SubscriptionReplaced(BrokerError):
    """The subscription was deleted and recreated since the caller read it. Start over."""

    reason = "SUBSCRIPTION_REPLACED"

    def __init__(self, sink: str, subscription: str, named: str, current: str) -> None:
        shown = _shown(named)
        super().__init__(
            f"subscription {subscription!r} of sink {sink!r} was deleted and recreated: the request names "
            f"incarnation {shown!r}, the current one is {current!r}. Nothing was done. Positions, deliveries and "
            "leased sets of the former one are invalid: read the subscription again and start over",
            sink=sink,
            subscription=subscription,
            named=shown,
            current=current,
        )


class SubscriptionNotFound(BrokerError):
    """The subscription does not exist."""

    reason = "SUBSCRIPTION_NOT_FOUND"

    def __init__(self, sink: str, subscription: str, but: str = "") -> None:
        """Set ``but``: a description of the subscription that exists instead."""
        shown = _shown(subscription)
        super().__init__(
            f"sink {sink!r} has no subscription {shown!r}{f' {but}' if but else ''}", sink=sink, subscription=shown
        )


class SchemaNotFound(BrokerError):
    """The sink has no such version of its schema, or the version was damaged and is lost."""

    reason = "SCHEMA_NOT_FOUND"

    def __init__(self, sink: str, version: int, latest: int, *, damaged: bool = False) -> None:
        known = f"the latest is {latest}" if latest else "it has none"
        what = "was damaged and is lost" if damaged else f"does not exist; {known}"
        super().__init__(
            f"version {version} of the schema of sink {sink!r} {what}", sink=sink, version=version, latest=latest
        )


class SinkExists(BrokerError):
    """The sink exists with other settings. Use them, or update the sink."""

    reason = "SINK_EXISTS"

    def __init__(self, sink: str, differs: str) -> None:
        super().__init__(f"sink {sink!r} exists with other settings: {differs}", sink=sink, differs=differs)


class SubscriptionExists(BrokerError):
    """The subscription exists with another start. Use it, seek it, or choose another name."""

    reason = "SUBSCRIPTION_EXISTS"

    def __init__(self, sink: str, subscription: str) -> None:
        super().__init__(
            f"sink {sink!r} has a subscription {subscription!r} that was created with another start",
            sink=sink,
            subscription=subscription,
        )


class DefaultSubscription(BrokerError):
    """The subscription `default` cannot be deleted: it lives as long as its sink. Seek it to the latest."""

    reason = "DEFAULT_SUBSCRIPTION"

    def __init__(self, sink: str) -> None:
        super().__init__(f"the default subscription of sink {sink!r} cannot be deleted", sink=sink)


class SubscriptionInUse(BrokerError):
    """A consumer owns a partition of the subscription, or a holder has a leased set of it.

    End the consumer or release the set, or use another subscription.
    """

    reason = "SUBSCRIPTION_IN_USE"

    def __init__(self, sink: str, subscription: str, partition: int, consumer: str = "", *, holder: str = "") -> None:
        who = f"holder {holder!r} has a leased set of" if holder else f"consumer {consumer!r} owns"
        super().__init__(
            f"{who} partition {partition} of subscription {subscription!r} of sink {sink!r}",
            sink=sink,
            subscription=subscription,
            partition=partition,
            **({"holder": holder} if holder else {"consumer_id": consumer}),
        )


class SinkNotEmpty(BrokerError):
    """Unsettled records are left. Wait until they are delivered, or force the deletion."""

    reason = "SINK_NOT_EMPTY"

    def __init__(self, sink: str, pending: int) -> None:
        super().__init__(f"sink {sink!r} still holds {pending} unsettled records", sink=sink, pending=pending)


class Exhausted(BrokerError):
    """No room now. Retry after ``retry_after_s``."""

    reason = "EXHAUSTED"
    retry_after_s: float | None = 0.25


class SinkFull(Exhausted):
    """A limit of the sink is reached, and its overflow policy is to reject."""

    reason = "SINK_FULL"

    def __init__(self, sink: str, limit: str, bound: int, used: int, staged: int = 0) -> None:
        of_them = f", {staged} of it staged for epochs that are not committed" if staged else ""
        super().__init__(
            f"sink {sink!r} is full: {limit} is {bound}, {used} used{of_them}",
            sink=sink,
            limit=limit,
            bound=bound,
            used=used,
            **({"staged": staged} if staged else {}),
        )


class DiskFull(Exhausted):
    """The disk has no room above the reserve. Free some; appends then resume by themselves."""

    reason = "DISK_FULL"
    retry_after_s = 1.0

    def __init__(self, free: int, reserve: int) -> None:
        super().__init__(f"{free} bytes are free on the disk, the reserve is {reserve}", free=free, reserve=reserve)


class TooManyWaiting(Exhausted):
    """The bytes that wait for their sync exceed the bound of the broker."""

    reason = "TOO_MANY_WAITING"
    retry_after_s = 0.05

    def __init__(self, waiting: int, bound: int) -> None:
        super().__init__(f"{waiting} bytes wait for their sync; the bound is {bound}", waiting=waiting, bound=bound)


class BrokerFull(Exhausted):
    """The sinks together reach the bound of the broker. Let one be delivered, or raise the bound."""

    reason = "BROKER_FULL"
    retry_after_s = 1.0

    def __init__(self, used: int, bound: int) -> None:
        super().__init__(f"the sinks hold {used} bytes; max_broker_bytes is {bound}", used=used, bound=bound)


class MemoryOverloaded(Exhausted):
    """Memory is over its high watermark, so fewer bytes may wait. Appends resume by themselves."""

    reason = "MEMORY_OVERLOADED"
    retry_after_s = 0.25

    def __init__(self, waiting: int, bound: int) -> None:
        super().__init__(
            f"memory is over its high watermark: {waiting} bytes wait for their sync, the bound is {bound}",
            waiting=waiting,
            bound=bound,
        )


class TooManySinks(Exhausted):
    """The broker has the maximum number of sinks or partitions. Delete one, or raise the bound."""

    reason = "TOO_MANY_SINKS"
    retry_after_s = None

    def __init__(self, what: str, bound: int) -> None:
        super().__init__(f"the broker holds at most {bound} {what}", what=what, bound=bound)


class TooManyStreams(Exhausted):
    """The broker has the maximum number of streams, or a subscription that of pulling consumers."""

    reason = "TOO_MANY_STREAMS"
    retry_after_s = 1.0

    def __init__(self, bound: int, what: str = "streams") -> None:
        super().__init__(f"the broker serves at most {bound} {what}", bound=bound)


class ReaderTooSlow(Exhausted):
    """The peer of a stream received nothing for a while, and other streams need its memory. Reopen it."""

    reason = "READER_TOO_SLOW"
    retry_after_s = 5.0

    def __init__(self, held: int) -> None:
        super().__init__(
            f"the stream was ended: its reader left {held} bytes unread, and other streams need the memory",
            held=held,
        )


class TooManySubscriptions(Exhausted):
    """The sink has the maximum number of subscriptions. Delete one."""

    reason = "TOO_MANY_SUBSCRIPTIONS"
    retry_after_s = None

    def __init__(self, sink: str, bound: int) -> None:
        super().__init__(f"sink {sink!r} has {bound} subscriptions, which is the maximum", sink=sink, bound=bound)


class OffsetTrimmed(BrokerError):
    """The position was trimmed. Restart at ``earliest``, or accept the loss."""

    reason = "OFFSET_TRIMMED"

    def __init__(self, requested: int, earliest: int, next_offset: int) -> None:
        super().__init__(
            f"offset {requested} was trimmed; the earliest available offset is {earliest}",
            requested=requested,
            earliest=earliest,
            next=next_offset,
        )


class OffsetAhead(BrokerError):
    """The position is beyond the end. No record has that offset yet."""

    reason = "OFFSET_AHEAD"

    def __init__(self, requested: int, earliest: int, next_offset: int) -> None:
        super().__init__(
            f"offset {requested} is beyond the end; the next offset is {next_offset}",
            requested=requested,
            earliest=earliest,
            next=next_offset,
        )


class TokenRefused(BrokerError):
    """The call has no token, or an unknown one. Send a valid token."""

    reason = "TOKEN_REFUSED"

    def __init__(self, token: str) -> None:
        """Set ``token`` to `missing` or `unknown`, never to the token itself."""
        said = "has no token" if token == "missing" else "has an unknown token"
        super().__init__(f"the call {said}; this broker requires `authorization: Bearer TOKEN`", token=token)


class PermissionDenied(BrokerError):
    """The principal does not have the right. Grant it in the broker's file of credentials."""

    reason = "PERMISSION_DENIED"

    def __init__(self, principal: str, right: str, sink: str = "") -> None:
        what = f"to sink {_shown(sink)!r}" if sink else "to any sink"
        super().__init__(
            f"principal {principal!r} does not have the right '{right}' {what}",
            principal=principal,
            right=right,
            **({"sink": _shown(sink)} if sink else {}),
        )


class RateLimited(Exhausted):
    """The principal exceeds its rate limit. Retry after ``retry_after_s``."""

    reason = "RATE_LIMITED"

    def __init__(self, principal: str, limit: str, bound: int, delay_s: float) -> None:
        super().__init__(
            f"principal {principal!r} exceeds its limit: {limit} is {bound}",
            principal=principal,
            limit=limit,
            bound=bound,
        )
        self.retry_after_s = delay_s


class WriterFenced(BrokerError):
    """A newer epoch of this writer exists. Stop, or open a new epoch."""

    reason = "WRITER_FENCED"

    def __init__(self, writer_id: str, epoch: int, current: int | None) -> None:
        now = "is no longer known" if current is None else f"is now at epoch {current}"
        super().__init__(f"writer {writer_id!r} {now}; {epoch} is fenced", writer_id=writer_id, epoch=epoch)


class SequenceGap(BrokerError):
    """An earlier page of this writer is missing. Resend from ``expected``, or take a new epoch."""

    reason = "SEQUENCE_GAP"

    def __init__(self, partition: int, sequence: int, expected: int) -> None:
        super().__init__(
            f"partition {partition} expects sequence {expected}, not {sequence}",
            partition=partition,
            sequence=sequence,
            expected=expected,
        )


class SequenceConflict(BrokerError):
    """The sequence was used for other data. The publisher is faulty; take a new epoch."""

    reason = "SEQUENCE_CONFLICT"

    def __init__(self, partition: int, sequence: int) -> None:
        super().__init__(
            f"sequence {sequence} of partition {partition} was used for other data",
            partition=partition,
            sequence=sequence,
        )


class SchemaChanged(BrokerError):
    """Another caller registered a version meanwhile. Read the latest one and compare again."""

    reason = "SCHEMA_CHANGED"

    def __init__(self, sink: str, compared: int, latest: int) -> None:
        super().__init__(
            f"the latest version of the schema of sink {sink!r} is {latest}, compared was {compared}",
            sink=sink,
            compared=compared,
            latest=latest,
        )


class InvalidLease(Invalid):
    """The holder's name, the duration or the size of its set is out of bounds."""

    reason = "INVALID_LEASE"


class OrderingStrict(BrokerError):
    """In STRICT order failed records hold back the rest and cannot be leased. Set the order RELAXED."""

    reason = "ORDERING_STRICT"

    def __init__(self, sink: str) -> None:
        super().__init__(
            f"sink {sink!r} has STRICT ordering, which has no retry queue to lease from; set its ordering to RELAXED",
            sink=sink,
        )


class SessionTimedOut(BrokerError):
    """The consumer did not answer a ping. Reconnect.

    Its deliveries went to other consumers, without a failed attempt.
    """

    reason = "SESSION_TIMED_OUT"
    retry_after_s = 0.1

    def __init__(self, consumer_id: str, timeout_s: float) -> None:
        super().__init__(
            f"consumer {consumer_id!r} has not answered a ping for {timeout_s:g} s: its process is stopped or hangs",
            consumer_id=consumer_id,
        )


class ConsumerReplaced(BrokerError):
    """Another stream was opened with the same consumer id."""

    reason = "CONSUMER_REPLACED"

    def __init__(self, consumer_id: str) -> None:
        super().__init__(f"another stream opened as consumer {consumer_id!r}", consumer_id=consumer_id)


class InvalidEpoch(Invalid):
    """The names of the epoch or of its writer are invalid."""

    reason = "INVALID_EPOCH"


class EpochNotFound(BrokerError):
    """The epoch was never committed, or none of its pages is left. Read the last one."""

    reason = "EPOCH_NOT_FOUND"

    def __init__(self, producer: str, epoch: int | None, last: int | None) -> None:
        asked = "no epoch" if epoch is None else f"no epoch {epoch}"
        known = "none was committed" if last is None else f"the last one is {last}"
        super().__init__(f"{asked} of producer {producer!r} is known; {known}", producer=producer)


class AlreadyCommitted(BrokerError):
    """The epoch is committed: there is nothing to stage."""

    reason = "ALREADY_COMMITTED"

    def __init__(self, producer: str, epoch: int) -> None:
        super().__init__(f"epoch {epoch} of producer {producer!r} is committed", producer=producer, epoch=epoch)


class StagedIncomplete(BrokerError):
    """A stage of the commit is incomplete; nothing became visible. Write the epoch again."""

    reason = "STAGED_INCOMPLETE"

    def __init__(self, sink: str, token: str, why: str) -> None:
        super().__init__(f"token {token!r} in sink {sink!r} is not complete: {why}", sink=sink, token=token)


class StagingUnsupported(BrokerError):
    """The sink accepts no staged pages. Publish to it directly, or change its buffer mode."""

    reason = "STAGING_UNSUPPORTED"

    def __init__(self, sink: str, why: str) -> None:
        super().__init__(f"sink {sink!r} accepts no staged pages: {why}", sink=sink)


class EpochFenced(BrokerError):
    """A later epoch was committed, or a newer run of the producer has begun. Stop."""

    reason = "EPOCH_FENCED"

    def __init__(self, producer: str, epoch: int, why: str) -> None:
        super().__init__(f"epoch {epoch} of producer {producer!r} is fenced: {why}", producer=producer, epoch=epoch)


class EpochConflict(BrokerError):
    """The epoch, or a part of its commit, was committed with other content."""

    reason = "EPOCH_CONFLICT"

    def __init__(self, producer: str, epoch: int, why: str) -> None:
        super().__init__(f"epoch {epoch} of producer {producer!r}: {why}", producer=producer, epoch=epoch)


class EpochContentConflict(BrokerError):
    """The epoch was committed with other records: its input changed, or it is another write.

    The caller decides which one.
    """

    reason = "EPOCH_CONTENT_CONFLICT"

    def __init__(self, producer: str, epoch: int, *, stored: tuple[int, str], sent: tuple[int, str]) -> None:
        """Set ``stored`` and ``sent``, each a number of records and their digest."""
        what = f"{stored[0]} records, and the repeat has {sent[0]}"
        if stored[0] == sent[0]:
            what = f"{stored[0]} records of digest {stored[1]!r}, and the repeat has others, of {sent[1]!r}"
        super().__init__(
            f"epoch {epoch} of producer {producer!r} was committed with {what}; nothing was changed. Use a distinct "
            "write_name for each write; or repeat the epoch with the same records; or commit it with the check NONE, "
            "which keeps the committed records and discards those of the repeat",
            producer=producer,
            epoch=epoch,
            stored_records=stored[0],
            sent_records=sent[0],
            stored_digest=stored[1],
            sent_digest=sent[1],
        )


class ProducerChanged(BrokerError):
    """Another producer has the write name. Use its checkpoint, choose another name, or take it over."""

    reason = "PRODUCER_CHANGED"

    def __init__(self, sink: str, write_name: str, holder: str, producer: str) -> None:
        super().__init__(
            f"producer {holder!r} writes to sink {sink!r} as {write_name!r}; {producer!r} is another one. If its "
            "checkpoint was deleted, its records may be written twice: set takeover to accept that. If both are "
            "to write, give one of them a write name of its own",
            sink=sink,
            write_name=write_name,
            holder=holder,
            producer=producer,
        )


class Draining(BrokerError):
    """The broker is stopping. Retry against its successor."""

    reason = "DRAINING"
    retry_after_s = 1.0

    def __init__(self) -> None:
        super().__init__("the broker is stopping")


class ReadFailed(BrokerError):
    """The disk did not answer a read, nor its retry. Nothing was dropped for it; retry later."""

    reason = "READ_FAILED"
    retry_after_s = 1.0

    def __init__(self, cause: str) -> None:
        super().__init__(f"a read of the store failed and will be retried: {cause}", cause=_shown(cause))


class StoreFenced(BrokerError):
    """A write or sync failed; the broker accepts nothing until it is restarted."""

    reason = "STORE_FENCED"
    retry_after_s = 2.0

    def __init__(self, cause: str) -> None:
        super().__init__(f"the store is fenced after a failure: {cause}", cause=cause)
