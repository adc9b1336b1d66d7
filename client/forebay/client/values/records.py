"""What users hold: records, receipts, gaps and the small vocabularies around them.

Values never change after they were made, and none of them knows gRPC or protobuf.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from forebay.page.columns import Headers

if TYPE_CHECKING:
    from forebay.client.admin.schemas import Schema

HeadersLike = Mapping[str, bytes | str] | Sequence[tuple[str, bytes | str]]
"""Headers as a caller may give them; text becomes UTF-8."""

Header = tuple[str, bytes]
"""Name and value."""


class Durability(StrEnum):
    """How safe records are."""

    UNSPECIFIED = "UNSPECIFIED"
    MEMORY = "MEMORY"
    """In the broker's memory."""
    PROCESS = "PROCESS"
    """Survives a kill of the broker."""
    DISK = "DISK"
    """Survives a power loss."""


class Encoding(StrEnum):
    """How the body of a page is encoded."""

    UNSPECIFIED = "UNSPECIFIED"
    RECORDS = "RECORDS"
    """A serialised ``RecordPage``."""
    ARROW = "ARROW"
    """A serialised ``ArrowPage``: rows with a schema."""


class DropReason(StrEnum):
    """Why records left a buffer without being settled."""

    UNSPECIFIED = "UNSPECIFIED"
    OVERFLOW = "OVERFLOW"
    CORRUPT = "CORRUPT"
    EXPIRED = "EXPIRED"
    """Older than the sink's ``max_age``."""
    CLEANED_AT_STOP = "CLEANED_AT_STOP"
    """The broker was stopped and the sink has ``clean_cache_at_stop``."""
    PURGED = "PURGED"
    REJECTED_BY_TARGET = "REJECTED_BY_TARGET"
    MEMORY_PRESSURE = "MEMORY_PRESSURE"
    WIPED_AT_START = "WIPED_AT_START"
    """The sink is volatile."""
    LOST_IN_CRASH = "LOST_IN_CRASH"
    """Only memory held them, or they were not synced, when the broker or its machine crashed."""
    UNREADABLE = "UNREADABLE"
    """They are stored, and cannot be decoded: found by a replay, never by the broker."""


class SettleOutcome(StrEnum):
    """What became of an answered range."""

    UNSPECIFIED = "UNSPECIFIED"
    OK = "OK"
    """Done, and survives a kill of the broker."""
    ALREADY_SETTLED = "ALREADY_SETTLED"
    STALE = "STALE"
    """The records come, or came, again: this answer does not count."""
    UNKNOWN = "UNKNOWN"
    """Was never delivered to this consumer."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record to publish."""

    value: bytes
    """The payload; may be empty."""

    key: bytes | None = None
    """Records with equal keys go to one partition, in order. ``None`` is not the same as empty."""

    headers: HeadersLike = ()
    """Up to 64 names with values."""

    event_time: datetime | int | None = None
    """When the thing happened: an aware ``datetime``, or microseconds since 1970 UTC."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """Where records went, and how safe they are."""

    sink: str
    partition: int

    first_offset: int | None
    """Offset of the first record. ``None`` for what is staged, and for a duplicate so old that it is not known."""

    last_offset: int | None
    """Offset of the last record; ``None`` together with ``first_offset``."""

    durability: Durability
    """What was reached by the time of the answer."""

    duplicate: bool
    """The page had been stored before, nothing was appended now: an answer was lost and the page sent again."""

    staged: bool = False
    """The page was staged: it has no offsets before its epoch is committed."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets that hold no records any more."""

    partition: int
    first_offset: int
    last_offset: int
    reason: DropReason
    at: datetime
    """When the (last) drop happened."""

    first_at: datetime | None = None
    """When the first drop happened: before ``at`` only where several drops have become one gap."""

    counts: Mapping[DropReason, int] = field(default_factory=dict)
    """Records dropped by reason; of several drops that became one gap all, also where it is cut. Fewer than offsets
    where settled records stood between two drops."""

    subscription: str = ""
    """Whose gap it is, when only one subscription dropped the records and others may still read them."""

    detail: str = ""
    """What the target said of the (last) record that it rejected."""

    at_most: bool = False
    """It is not known how many of the offsets were records: the machine crashed."""

    def __len__(self) -> int:
        """Return how many offsets are missing."""
        return self.last_offset - self.first_offset + 1


@dataclass(frozen=True, slots=True)
class SettleResult:
    """What became of one range of an ack or nack."""

    partition: int
    first_offset: int
    last_offset: int
    outcome: SettleOutcome


@dataclass(frozen=True, slots=True)
class PagePart:
    """What one publish brought to a stored page."""

    first_offset: int
    accepted_at: datetime
    traceparent: str
    """W3C trace context of the publisher, or empty."""


@dataclass(frozen=True, slots=True)
class StoredPage:
    """A page as it is stored, its checksum compared, and the part of it that is wanted."""

    partition: int
    base_offset: int
    """Offset of the first record in the body."""

    record_count: int
    """Records in the body."""

    encoding: Encoding
    body: bytes
    parts: tuple[PagePart, ...]
    """By rising offset, at least one."""

    first_offset: int
    """First wanted offset, at or above ``base_offset``."""

    last_offset: int
    """Last wanted offset."""

    schema_of: Callable[[int], Schema] | None = field(default=None, compare=False, repr=False)
    """Finds a version of the schema of the sink that the page is in; asks the broker once for each."""

    def __len__(self) -> int:
        """Return how many records are wanted."""
        return self.last_offset - self.first_offset + 1


@dataclass(frozen=True, slots=True)
class ReplayedRecord:
    """A record read again; nothing changed by reading it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes
    headers: Headers
    event_time: datetime | None
    accepted_at: datetime
    """When the broker accepted it; never goes back within a partition."""


@dataclass(frozen=True, slots=True)
class DeliveredRecord:
    """A record to process and to settle."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes
    headers: Headers
    event_time: datetime | None
    accepted_at: datetime
    attempt: int
    """Tries that failed before this one."""

    resend: bool
    """It was delivered before."""

    owner_epoch: int
    """Goes back with the answer."""

    revision: int
    """Goes back with the answer."""

    incarnation: str = ""
    """Of the sink: goes back with the answer, which counts for no other one of that name."""

    unreadable: str = ""
    """Why it cannot be decoded; its value is empty then. See ``Delivery.with_unreadable``."""


@dataclass(frozen=True, slots=True)
class PeekedRecord:
    """A record as text, for people."""

    offset: int
    accepted_at: datetime
    key: str
    value: str
    """JSON or text where it is UTF-8, else base64; cut at 4,096 characters."""

    format: str
    """``json``, ``text`` or ``base64``; ``unreadable`` for a row that cannot be decoded, whose value says why."""

    value_bytes: int
    """Length of the whole value; of a row whose JSON was not made as a whole, at most so many."""

    headers: Mapping[str, str]
    event_time: datetime | None
    truncated: bool = False
    """Something is left out: characters of the value, of the key or of a header, or headers."""

    headers_omitted: int = 0
    """Headers that are left out."""


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """What a broker says about itself."""

    version: str
    store_id: str
    format: int
    """Number of the on-disk format."""

    start_count: int
    started_at: datetime
    state: str
    """``SERVING``, ``DRAINING`` or ``FENCED``."""

    state_reason: str
    sinks: int
    sinks_max: int
    record_bytes_max: int
    page_bytes_max: int
    tail_bytes: int
    tail_bytes_max: int
    waiting_bytes: int
    data_dir: str
    """Empty for a broker that keeps everything in memory."""

    groups: int
    """Groups committed by this process."""
    quarantined_pages: int = 0
    """Damaged pages whose bytes are kept aside; see ``forebay quarantine``."""
    quarantined_bytes: int = 0
    """Bytes of them."""
    mended: tuple[str, ...] = ()
    """What was damaged when the broker started, and what was done about it."""
    unreadable: tuple[str, ...] = ()
    """Partitions whose reads fail now, and why; they go on by themselves when the disk answers."""
    read_failures: int = 0
    """Reads that failed since the broker started, those that worked when tried again included."""
    background_failures: tuple[str, ...] = ()
    """Background tasks of the broker that failed and were restarted, and why."""
    quarantine_evicted_pages: int = 0
    """Quarantined pages whose bytes were given up because there were too many."""
    warnings: tuple[str, ...] = ()
    """Files of certificates, keys and tokens that need attention, and why."""
