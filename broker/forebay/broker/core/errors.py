"""Errors of the broker: a refusal with its reason and facts.

The table of reasons, ``forebay.errors.reasons``, has the status, text and retry delay of each error. Most errors are
raised as ``BrokerError`` with their reason. One has a class of its own if a part of the broker catches it, if its text
or facts need a decision, or if many parts raise it.
"""

from __future__ import annotations

from typing import Final

from forebay.broker.core.shards import ShardHint
from forebay.errors.reasons import Reason
from forebay.state.numbers import plural

SHOWN_MAX: Final = 140
"""Characters of a caller's input that an error repeats: errors travel in headers, which are bounded."""


def shown(given: object) -> str:
    """Return a caller's input as far as an error repeats it."""
    return str(given)[:SHOWN_MAX]


def quoted(text: str) -> str:
    """Return a caller's text in quotes, as far as an error repeats it."""
    return repr(text[:SHOWN_MAX])


class BrokerError(Exception):
    """Refusal of a request. ``facts`` are short strings, never payloads."""

    def __init__(self, reason: Reason, problem: str = "", /, **facts: object) -> None:
        """Set the reason, the problem that its text has a place for, and the facts of its row."""
        super().__init__(reason.text.format(problem, **facts))
        self.reason = reason
        self.facts = {name: str(value) for name, value in facts.items()}
        self.retry_after_s = reason.retry_after_s


# -- the request is wrong


class InvalidRequest(BrokerError):
    """The request is not a message of its type."""

    def __init__(self, problem: str) -> None:
        super().__init__(Reason.INVALID_REQUEST, problem)


class RequestTooLarge(BrokerError):
    """The request exceeds a bound of its call."""

    def __init__(self, what: str, found: int, bound: int, *, field: str = "") -> None:
        """Set the counted thing ``what``, and the dotted path ``field`` at which the bound was exceeded."""
        counted = f"{what}, counted up to {field}" if field else what
        place = {"field": field} if field else {}
        super().__init__(Reason.REQUEST_TOO_LARGE, counted, found=found, bound=bound, **place)


class InvalidSetting(BrokerError):
    """A setting has an invalid value."""

    def __init__(self, name: str, value: object, allowed: str) -> None:
        super().__init__(Reason.INVALID_SETTING, field=name, value=shown(value), allowed=allowed)
        self.field = name


class InvalidPage(BrokerError):
    """The page is inconsistent, or cannot be decoded."""

    def __init__(self, problem: str, **facts: object) -> None:
        super().__init__(Reason.INVALID_PAGE, problem, **facts)


class RowsNotDecodable(BrokerError):
    """Rows cannot be decoded, because the broker is installed without pyarrow."""

    def __init__(self) -> None:
        super().__init__(Reason.ROWS_NOT_DECODABLE)


class InvalidValue(BrokerError):
    """A field of the request has a value that is not allowed."""

    def __init__(self, reason: Reason, field: str, value: object, allowed: str) -> None:
        super().__init__(reason, f"{field} = {shown(value)}: must be {allowed}", field=field)


class RecordTooLarge(BrokerError):
    """A record exceeds a bound that does not change with time."""

    def __init__(self, size: int, bound: int, what: str) -> None:
        super().__init__(Reason.RECORD_TOO_LARGE, what, size=size, bound=bound)


class InvalidPartition(BrokerError):
    """The partition does not exist."""

    def __init__(self, partition: int, partitions: int) -> None:
        last = str(partitions - 1)
        super().__init__(Reason.INVALID_PARTITION, last, field="partition", partition=partition, partitions=partitions)


# -- the object or position does not exist


class SinkNotFound(BrokerError):
    """The sink does not exist, or not any more."""

    def __init__(self, sink: str) -> None:
        super().__init__(Reason.SINK_NOT_FOUND, sink=shown(sink))


class NotOwner(BrokerError):
    """The sink is not in the shard of this broker; it would be in another one."""

    def __init__(self, sink: str, here: str, home: ShardHint) -> None:
        super().__init__(Reason.NOT_OWNER, sink=shown(sink), here=here, shard=home.shard, endpoint=home.endpoint)


class SubscriptionNotFound(BrokerError):
    """The subscription does not exist, or not any more."""

    def __init__(self, sink: str, subscription: str, but: str = "") -> None:
        """Set ``but``: a description of the subscription that exists instead."""
        but = f" {but}" if but else ""
        super().__init__(Reason.SUBSCRIPTION_NOT_FOUND, but, sink=sink, subscription=shown(subscription))


class SchemaNotFound(BrokerError):
    """The sink has no such version of its schema, or the version was damaged and is lost."""

    def __init__(self, sink: str, version: int, latest: int, *, damaged: bool = False) -> None:
        known = f"the latest is {latest}" if latest else "it has none"
        problem = "was damaged and is lost" if damaged else f"does not exist; {known}"
        super().__init__(Reason.SCHEMA_NOT_FOUND, problem, sink=sink, version=version, latest=latest)


class EpochNotFound(BrokerError):
    """The epoch was never committed, or none of its pages is left."""

    def __init__(self, producer: str, epoch: int | None, last: int | None) -> None:
        requested = "committed epoch" if epoch is None else f"committed epoch {epoch}"
        known = "" if last is None else f"; the last one is {last}"
        super().__init__(Reason.EPOCH_NOT_FOUND, f"{requested}{known}", producer=producer)


class OffsetTrimmed(BrokerError):
    """The position was trimmed."""

    def __init__(self, requested: int, earliest: int, next_offset: int) -> None:
        super().__init__(Reason.OFFSET_TRIMMED, requested=requested, earliest=earliest, next=next_offset)


class OffsetAhead(BrokerError):
    """The position is beyond the end. No record has that offset yet."""

    def __init__(self, requested: int, earliest: int, next_offset: int) -> None:
        super().__init__(Reason.OFFSET_AHEAD, requested=requested, earliest=earliest, next=next_offset)


# -- no room


class SinkFull(BrokerError):
    """A limit of the sink is reached, and its overflow policy is to reject."""

    def __init__(self, sink: str, limit: str, bound: int, used: int, staged: int = 0) -> None:
        of_them = f", {staged} of it staged for epochs that are not committed" if staged else ""
        optional = {"staged": staged} if staged else {}
        super().__init__(Reason.SINK_FULL, of_them, sink=sink, limit=limit, bound=bound, used=used, **optional)


class StorageFull(BrokerError):
    """A device has no room for an append; see the classes derived from it."""


class DiskFull(StorageFull):
    """The disk has no room above the reserve. Appends resume by themselves when there is some."""

    def __init__(self, free: int, reserve: int) -> None:
        super().__init__(Reason.DISK_FULL, free=free, reserve=reserve)


class BrokerFull(BrokerError):
    """The sinks together reach the bound of the broker."""

    def __init__(self, used: int, bound: int) -> None:
        super().__init__(Reason.BROKER_FULL, used=used, bound=bound)


class MemoryOverloaded(BrokerError):
    """Memory is over its high watermark, so fewer bytes may wait. Appends resume by themselves."""

    def __init__(self, waiting: int, bound: int) -> None:
        super().__init__(Reason.MEMORY_OVERLOADED, waiting=waiting, bound=bound)


class CommitsBehind(BrokerError):
    """The bytes that wait to be durable exceed the bound of the broker; see the classes derived from it."""


class TooManyWaiting(CommitsBehind):
    """The bytes that wait for their sync exceed the bound of the broker."""

    def __init__(self, waiting: int, bound: int) -> None:
        super().__init__(Reason.TOO_MANY_WAITING, waiting=waiting, bound=bound)


class NoJournal(BrokerError):
    """The broker has no journal, so no other one can take over."""

    def __init__(self) -> None:
        super().__init__(Reason.NO_JOURNAL)


class JournalAway(CommitsBehind):
    """They do because the journal of the shard does not answer."""

    def __init__(self, waiting: int, bound: int) -> None:
        super().__init__(Reason.JOURNAL_AWAY, waiting=waiting, bound=bound)


class JournalFull(StorageFull):
    """The journal of the shard has no room, or none above its reserve. Appends resume by themselves."""

    def __init__(self, problem: str) -> None:
        super().__init__(Reason.JOURNAL_FULL, problem)


class TooManySinks(BrokerError):
    """The broker has the maximum number of sinks or partitions."""

    def __init__(self, what: str, bound: int) -> None:
        super().__init__(Reason.TOO_MANY_SINKS, what=what, bound=bound)


# -- access


class TokenRefused(BrokerError):
    """The call has no token, or an unknown one."""

    def __init__(self, token: str) -> None:
        """Set ``token`` to `missing` or `unknown`, never to the token itself."""
        problem = "has no token" if token == "missing" else "has an unknown token"
        super().__init__(Reason.TOKEN_REFUSED, problem, token=token)


class PermissionDenied(BrokerError):
    """The principal does not have the right."""

    def __init__(self, principal: str, right: str, sink: str = "") -> None:
        what = f"to sink {shown(sink)!r}" if sink else "to any sink"
        optional = {"sink": shown(sink)} if sink else {}
        super().__init__(Reason.PERMISSION_DENIED, what, principal=principal, right=right, **optional)


# -- a newer caller has taken over


class WriterFenced(BrokerError):
    """A newer epoch of this writer exists, or the writer was dropped. It ends the stream."""

    def __init__(self, writer_id: str, epoch: int, current: int | None) -> None:
        now = "is no longer known" if current is None else f"is now at epoch {current}"
        super().__init__(Reason.WRITER_FENCED, now, writer_id=writer_id, epoch=epoch)


class EpochContentConflict(BrokerError):
    """The epoch was committed with other records: its input changed, or it is another write."""

    def __init__(self, producer: str, epoch: int, *, stored: tuple[int, str], sent: tuple[int, str]) -> None:
        """Set ``stored`` and ``sent``, each a number of records and their digest."""
        records = f"{stored[0]} {plural(stored[0], 'record')}"
        what = f"{records}, and the repeat has {sent[0]}"
        if stored[0] == sent[0]:
            what = f"{records} of digest {stored[1]!r}, and the repeat has others, of {sent[1]!r}"
        super().__init__(
            Reason.EPOCH_CONTENT_CONFLICT,
            what,
            producer=producer,
            epoch=epoch,
            stored_records=stored[0],
            sent_records=sent[0],
            stored_digest=stored[1],
            sent_digest=sent[1],
        )


# -- the broker is not available now


class Draining(BrokerError):
    """The broker is stopping. It ends the stream."""

    def __init__(self) -> None:
        super().__init__(Reason.DRAINING)


class ReadFailed(BrokerError):
    """The disk did not answer a read, nor its retry. Nothing was dropped for it."""

    def __init__(self, cause: str) -> None:
        super().__init__(Reason.READ_FAILED, cause=shown(cause))


class StoreFenced(BrokerError):
    """A write or sync failed; the broker accepts nothing until it is restarted."""

    def __init__(self, cause: str) -> None:
        super().__init__(Reason.STORE_FENCED, cause=cause)
