"""Public values of records: records, receipts, gaps, pages and their enumerations.

All values are immutable and independent of gRPC and protobuf.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from forebay.client.values.schemas import Schema
from forebay.page.header_pairs import Headers

HeadersLike = Mapping[str, bytes | str] | Sequence[tuple[str, bytes | str]]
"""Headers as accepted from a caller; text is encoded as UTF-8."""

Header = tuple[str, bytes]
"""Name and value."""


class Durability(StrEnum):
    """Durability level of stored records."""

    UNSPECIFIED = "UNSPECIFIED"
    MEMORY = "MEMORY"
    """Only in the broker's memory."""
    PROCESS = "PROCESS"
    """Survives a kill of the broker."""
    DISK = "DISK"
    """Survives a power loss."""
    REPLICATED = "REPLICATED"
    """In the journal of a shard: survives the loss of the broker's machine."""


class Encoding(StrEnum):
    """Encoding of the body of a page."""

    UNSPECIFIED = "UNSPECIFIED"
    RECORDS = "RECORDS"
    """A serialised ``RecordPage``."""
    ARROW = "ARROW"
    """A serialised ``ArrowPage``: rows with a schema."""


class DropReason(StrEnum):
    """Reason for which records were dropped before they were settled."""

    UNSPECIFIED = "UNSPECIFIED"
    OVERFLOW = "OVERFLOW"
    CORRUPT = "CORRUPT"
    EXPIRED = "EXPIRED"
    """Older than the ``max_age`` of the sink."""
    CLEANED_AT_STOP = "CLEANED_AT_STOP"
    """Dropped at a clean stop of the broker, because the sink has ``clean_cache_at_stop``."""
    PURGED = "PURGED"
    REJECTED_BY_TARGET = "REJECTED_BY_TARGET"
    MEMORY_PRESSURE = "MEMORY_PRESSURE"
    WIPED_AT_START = "WIPED_AT_START"
    """Wiped at the start of the broker, because the sink is volatile."""
    LOST_IN_CRASH = "LOST_IN_CRASH"
    """Only in memory, or not yet synced, when the broker or its machine crashed."""
    RESTORED = "RESTORED"
    """May have been assigned after the backup that the broker was restored from."""
    UNREADABLE = "UNREADABLE"
    """Stored, but not decodable; reported by a replay, never by the broker."""
    TRIMMED = "TRIMMED"
    """Settled and removed before a consumer with saved positions read it; reported by the consumer."""


class SettleOutcome(StrEnum):
    """Result of an ack or nack for one range."""

    UNSPECIFIED = "UNSPECIFIED"
    OK = "OK"
    """Settled; the result survives a kill of the broker."""
    ALREADY_SETTLED = "ALREADY_SETTLED"
    STALE = "STALE"
    """The answer is outdated: the records were or will be redelivered. It has no effect."""
    UNKNOWN = "UNKNOWN"
    """The range was never delivered to this consumer."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record to publish."""

    value: bytes
    """Payload; may be empty."""

    key: bytes | None = None
    """Partitioning key: records with equal keys go to one partition, in order.

    ``None`` (no key) differs from an empty key.
    """

    headers: HeadersLike = ()
    """Up to 64 pairs of name and value."""

    event_time: datetime | int | None = None
    """Time of the event: an aware ``datetime``, or microseconds since 1970 UTC."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """Acknowledgement of a publish: position and durability of the records."""

    sink: str
    partition: int

    first_offset: int | None
    """Offset of the first record.

    ``None`` for staged records, and for a duplicate so old that its offsets are no longer known.
    """

    last_offset: int | None
    """Offset of the last record; ``None`` if ``first_offset`` is ``None``."""

    durability: Durability
    """Durability level reached by the time of the answer."""

    duplicate: bool
    """The page had been stored by an earlier attempt whose answer was lost; nothing was appended now."""

    staged: bool = False
    """The page is staged: it gets offsets when its epoch is committed."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Range of offsets whose records were dropped."""

    partition: int
    first_offset: int
    last_offset: int
    reason: DropReason
    at: datetime
    """Time of the last drop."""

    first_at: datetime | None = None
    """Time of the first drop; earlier than ``at`` only if several drops were merged into one gap."""

    counts: Mapping[DropReason, int] = field(default_factory=dict)
    """Number of dropped records by reason.

    A gap merged from several drops has the counts of all of them, even where the gap is cut. The sum is lower than the
    number of offsets, perhaps 0, if records of it were settled.
    """

    subscription: str = ""
    """Subscription of the gap, if only that subscription dropped the records; empty for a gap of the sink."""

    detail: str = ""
    """Error text of the target for the last record that it rejected."""

    at_most: bool = False
    """The number of lost records is an upper bound, because the machine crashed."""

    def __len__(self) -> int:
        """Return the number of missing offsets."""
        return self.last_offset - self.first_offset + 1


@dataclass(frozen=True, slots=True)
class SettleResult:
    """Result of an ack or nack for one range of offsets."""

    partition: int
    first_offset: int
    last_offset: int
    outcome: SettleOutcome


@dataclass(frozen=True, slots=True)
class PagePart:
    """Part of a stored page that came from one publish."""

    first_offset: int
    accepted_at: datetime
    traceparent: str
    """W3C trace context of the publisher, or empty."""


@dataclass(frozen=True, slots=True)
class StoredPage:
    """Stored page with a verified checksum, and the requested range within it."""

    partition: int
    base_offset: int
    """Offset of the first record in the body."""

    record_count: int
    """Number of records in the body."""

    encoding: Encoding
    body: bytes
    parts: tuple[PagePart, ...]
    """At least one part, by ascending offset."""

    first_offset: int
    """First requested offset, at or above ``base_offset``."""

    last_offset: int
    """Last requested offset."""

    schema_of: Callable[[int], Schema] | None = field(default=None, compare=False, repr=False)
    """Loader of schema versions of the page's sink; requests each version from the broker once."""

    def __len__(self) -> int:
        """Return the number of requested records."""
        return self.last_offset - self.first_offset + 1


class ReplayedRecord(NamedTuple):
    """Record returned by a replay; reading it changes no state."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes
    headers: Headers
    event_time: datetime | None
    accepted_at: datetime
    """Time at which the broker accepted the record; never decreases within a partition."""


class DeliveredRecord(NamedTuple):
    """Delivered record, to be processed and settled."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes
    headers: Headers
    event_time: datetime | None
    accepted_at: datetime
    attempt: int
    """Number of failed attempts before this delivery."""

    resend: bool
    """Redelivery: the record was delivered before."""

    owner_epoch: int
    """Owner epoch of the delivery; sent back with the ack or nack."""

    revision: int
    """Revision of the delivery; sent back with the ack or nack."""

    incarnation: str = ""
    """Incarnation of the sink; sent back with the ack or nack, which has no effect in another one."""

    unreadable: str = ""
    """Reason that the record cannot be decoded, or empty.

    If set, ``value`` is empty. See ``Delivery.with_unreadable``.
    """


@dataclass(frozen=True, slots=True)
class PeekedRecord:
    """Record rendered as text, for display."""

    offset: int
    accepted_at: datetime
    key: str
    value: str
    """JSON or text if the value is UTF-8, else base64; cut at 4,096 characters."""

    format: str
    """``json``, ``text``, ``base64``, or ``unreadable``.

    ``unreadable`` marks a row that cannot be decoded; its value is then the reason.
    """

    value_bytes: int
    """Length of the complete value; an upper bound for a row whose JSON was not rendered completely."""

    headers: Mapping[str, str]
    event_time: datetime | None
    truncated: bool = False
    """The value, the key or a header was cut, or headers were omitted."""

    headers_omitted: int = 0
    """Number of omitted headers."""

    partition: int = 0
