"""What a broker answers when it is asked about a record, and what a purge took: values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from forebay.client.values.records import Gap
from forebay.client.values.sinks import DeliveryState


class RecordPlace(StrEnum):
    """Where a record is."""

    UNSPECIFIED = "UNSPECIFIED"
    NOT_ASSIGNED = "NOT_ASSIGNED"
    """No record has got this offset yet."""

    AWAITING_COMMIT = "AWAITING_COMMIT"
    """It waits for the batch that makes it durable."""

    RECENT = "RECENT"
    """On disk, and among the recent pages in memory."""

    DISK = "DISK"
    DROPPED = "DROPPED"
    TRIMMED = "TRIMMED"
    """Every subscription had settled it, and its page was deleted."""

    MISSING = "MISSING"
    """It should be stored, and the index does not name its page: damage."""

    MEMORY = "MEMORY"
    """In memory only: a crash of the broker loses it."""


class RecordState(StrEnum):
    """What a subscription has done with a record."""

    UNSPECIFIED = "UNSPECIFIED"
    PENDING = "PENDING"
    IN_FLIGHT = "IN_FLIGHT"
    ACKED = "ACKED"
    DEAD_LETTERED = "DEAD_LETTERED"
    DROPPED = "DROPPED"
    SKIPPED = "SKIPPED"
    """Passed over by a seek."""

    SETTLED = "SETTLED"
    """In a way that is no longer known."""

    BEFORE_START = "BEFORE_START"
    """Below the offset at which the subscription's account begins."""

    LEASED = "LEASED"
    """A holder has it in a set; see ``Explanation.lease``."""


class WaitReason(StrEnum):
    """What the delivery of a record waits for."""

    UNSPECIFIED = "UNSPECIFIED"
    NOTHING = "NOTHING"
    RECORD = "RECORD"
    """Its offset has to be given to a record first."""

    COMMIT = "COMMIT"
    PAUSED = "PAUSED"
    PURGE = "PURGE"
    NO_CONSUMER = "NO_CONSUMER"
    PULL = "PULL"
    """The next call of ``pull`` by the consumer that owns the partition."""

    MOVING = "MOVING"
    """The partition goes over to another consumer."""

    BACKING_OFF = "BACKING_OFF"
    PROBING = "PROBING"
    RESEND_INTERVAL = "RESEND_INTERVAL"
    ACK_HOLES_FULL = "ACK_HOLES_FULL"
    """As many ranges are settled beyond the lowest records in flight as may be."""

    IN_FLIGHT_LIMIT = "IN_FLIGHT_LIMIT"
    NO_CREDIT = "NO_CREDIT"
    ANSWER = "ANSWER"
    """The consumer's answer."""

    BEHIND = "BEHIND"
    """The ``records_before``."""

    PARKED = "PARKED"
    """It failed, and has stepped aside for a time."""

    DEAD_LETTER = "DEAD_LETTER"
    """The batch that moves it to the dead-letter sink, or back from one."""

    DEAD_LETTERS_FULL = "DEAD_LETTERS_FULL"
    """Too many records are on their way to the dead-letter sink."""

    LEASE = "LEASE"
    READ_FAILED = "READ_FAILED"
    """Its holder, to settle it or give it back."""


@dataclass(frozen=True, slots=True)
class RecordFlight:
    """Who has a record, and since when."""

    consumer_id: str
    owner_epoch: int
    revision: int
    sent_at: datetime


@dataclass(frozen=True, slots=True)
class RecordLease:
    """Who holds a record in a set, and until when."""

    holder: str
    taken_at: datetime
    until: datetime
    """When the lease runs out, unless it is extended."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """All that is known of one record, for one subscription."""

    partition: int
    offset: int
    place: RecordPlace
    accepted_at: datetime | None
    """When the broker accepted it; only while it is stored."""

    page: tuple[int, int] | None
    """First and last offset of its page; only while it is stored."""

    page_bytes: int
    gap: Gap | None
    """The gap that it lies in, once it was dropped."""

    rejection: Gap | None
    """The subscription's own gap that it lies in: its consumers dropped the record, which others may still read."""

    subscription: str
    state: RecordState
    flight: RecordFlight | None
    """Who has it; only in flight."""

    attempts: int
    """Tries that failed."""

    delivered_before: bool
    """It may have been delivered before."""

    delivery_state: DeliveryState
    wait: WaitReason
    """What its delivery waits for; what stops the whole partition comes first."""

    wait_until: datetime | None
    """Until when, where that is known: also when the next try is due."""

    wait_detail: str
    records_before: int
    """Unsettled records that are delivered before it."""

    watermark: int
    """Lowest offset that the subscription has not settled."""

    text: str
    """All of it in a few sentences."""

    lease: RecordLease | None = None
    """Who holds it in a set; only while it is leased."""


@dataclass(frozen=True, slots=True)
class Purged:
    """What a purge took from a partition."""

    partition: int
    records: int
    bytes: int
    pages: int
    earliest_offset: int
    """Lowest offset that is stored now, or the next one when nothing is."""
