"""Explanations of records and results of purges, as values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from forebay.client.values.records import Gap
from forebay.client.values.sinks import DeliveryState


class RecordPlace(StrEnum):
    """Location of a record."""

    UNSPECIFIED = "UNSPECIFIED"
    NOT_ASSIGNED = "NOT_ASSIGNED"
    """The offset is not assigned to a record yet."""

    AWAITING_COMMIT = "AWAITING_COMMIT"
    """The record waits for the group commit that makes it durable."""

    RECENT = "RECENT"
    """On disk, and among the recent pages in memory."""

    DISK = "DISK"
    DROPPED = "DROPPED"
    TRIMMED = "TRIMMED"
    """Every subscription had settled the record, and its page was trimmed."""

    MISSING = "MISSING"
    """The index has no entry for the page of the record: the store is damaged."""

    MEMORY = "MEMORY"
    """Only in memory; lost if the broker crashes."""


class RecordState(StrEnum):
    """State of a record in a subscription."""

    UNSPECIFIED = "UNSPECIFIED"
    PENDING = "PENDING"
    IN_FLIGHT = "IN_FLIGHT"
    ACKED = "ACKED"
    DEAD_LETTERED = "DEAD_LETTERED"
    DROPPED = "DROPPED"
    SKIPPED = "SKIPPED"
    """Skipped by a seek."""

    SETTLED = "SETTLED"
    """Settled; the kind of settlement is no longer known."""

    BEFORE_START = "BEFORE_START"
    """Below the start offset of the subscription's account."""

    LEASED = "LEASED"
    """In a set leased by a holder; see ``Explanation.lease``."""


class WaitReason(StrEnum):
    """Event or condition that the delivery of a record waits for."""

    UNSPECIFIED = "UNSPECIFIED"
    NOTHING = "NOTHING"
    RECORD = "RECORD"
    """Assignment of the offset to a record."""

    COMMIT = "COMMIT"
    PAUSED = "PAUSED"
    PURGE = "PURGE"
    NO_CONSUMER = "NO_CONSUMER"
    PULL = "PULL"
    """Next call of ``pull`` by the consumer that owns the partition."""

    MOVING = "MOVING"
    """Move of the partition to another consumer."""

    BACKING_OFF = "BACKING_OFF"
    PROBING = "PROBING"
    RESEND_INTERVAL = "RESEND_INTERVAL"
    ACK_HOLES_FULL = "ACK_HOLES_FULL"
    """The maximum number of settled ranges above the low watermark is reached."""

    IN_FLIGHT_LIMIT = "IN_FLIGHT_LIMIT"
    NO_CREDIT = "NO_CREDIT"
    ANSWER = "ANSWER"
    """Ack or nack of the consumer."""

    BEHIND = "BEHIND"
    """Delivery of the ``records_before``."""

    PARKED = "PARKED"
    """Retry delay: the record failed and is in the retry queue."""

    DEAD_LETTER = "DEAD_LETTER"
    """The commit that moves the record to the dead-letter sink, or back from it."""

    DEAD_LETTERS_FULL = "DEAD_LETTERS_FULL"
    """Free capacity: too many records are moving to the dead-letter sink."""

    LEASE = "LEASE"
    """Settlement or release by the holder of its lease."""

    READ_FAILED = "READ_FAILED"
    """A successful read: the disk does not answer now, and the broker retries."""


@dataclass(frozen=True, slots=True)
class RecordFlight:
    """Delivery that is in flight: consumer and time."""

    consumer_id: str
    owner_epoch: int
    revision: int
    sent_at: datetime


@dataclass(frozen=True, slots=True)
class RecordLease:
    """Lease on a record: holder, start and end."""

    holder: str
    taken_at: datetime
    until: datetime
    """Expiry of the lease, unless it is extended."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """State of one record for one subscription."""

    partition: int
    offset: int
    place: RecordPlace
    accepted_at: datetime | None
    """Time at which the broker accepted the record; only while it is stored."""

    page: tuple[int, int] | None
    """First and last offset of the record's page; only while it is stored."""

    page_bytes: int
    trace_id: str
    """Trace of the call that published it, 32 hexadecimal digits; only while it is stored."""

    gap: Gap | None
    """Gap that contains the record, if it was dropped."""

    rejection: Gap | None
    """Gap of this subscription that contains the record.

    Its consumers dropped the record; other subscriptions may still read it.
    """

    subscription: str
    state: RecordState
    flight: RecordFlight | None
    """Delivery in flight, if the record is in flight."""

    attempts: int
    """Number of failed attempts."""

    delivered_before: bool
    """The record may have been delivered before."""

    delivery_state: DeliveryState
    wait: WaitReason
    """Condition that delivery waits for; one that stops the whole partition takes precedence."""

    wait_until: datetime | None
    """End of the wait if it is known, for example the time of the next retry."""

    wait_detail: str
    records_before: int
    """Number of unsettled records that are delivered first."""

    watermark: int
    """Lowest offset that the subscription has not settled."""

    text: str
    """Summary in a few sentences."""

    lease: RecordLease | None = None
    """Lease on the record, if it is leased."""


@dataclass(frozen=True, slots=True)
class Purged:
    """Result of a purge in one partition."""

    partition: int
    records: int
    bytes: int
    pages: int
    earliest_offset: int
    """Lowest stored offset, or the next offset if the partition is empty."""
