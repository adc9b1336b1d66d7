"""Sinks with their settings and statistics, as values.

Durations are in seconds; all other fields are as on the wire.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TypedDict

from forebay.client.values.records import DropReason, Durability


class Overflow(StrEnum):
    """Policy for an append that exceeds a limit."""

    DROP_OLDEST = "DROP_OLDEST"
    """Drop the oldest pages that are not in flight; the drop is counted and recorded as a gap."""

    REJECT = "REJECT"
    """Reject the append; the publisher waits and retries."""


class Ordering(StrEnum):
    """Effect of a failed delivery on later records of the partition."""

    STRICT = "STRICT"
    """The failed record and all records behind it are redelivered, in order."""

    RELAXED = "RELAXED"
    """The failed records enter the retry queue; later records are delivered meanwhile."""


class BufferMode(StrEnum):
    """Location of pages: disk, memory first, or memory only."""

    UNSPECIFIED = "UNSPECIFIED"
    DISK = "DISK"
    """All pages are written to disk."""

    SPILL = "SPILL"
    """Pages stay in memory until the memory tier is full; then they spill to disk.

    Records that only memory holds are lost in a crash, and counted.
    """

    MEMORY = "MEMORY"
    """No page is written; all records are lost when the process ends, and counted."""


class DeliveryState(StrEnum):
    """State of the delivery of one partition to a subscription."""

    UNSPECIFIED = "UNSPECIFIED"
    FLOWING = "FLOWING"
    BACKING_OFF = "BACKING_OFF"
    PROBING = "PROBING"
    RESENDING = "RESENDING"
    PAUSED = "PAUSED"


class ReaderMode(StrEnum):
    """Source of the pages that a reader receives: memory at the head, or storage."""

    UNSPECIFIED = "UNSPECIFIED"
    """No reader is connected."""

    REALTIME = "REALTIME"
    CATCH_UP = "CATCH_UP"


class SinkOptions(TypedDict, total=False):
    """Settings as keywords of ``create`` and ``update``; see :class:`SinkSettings`."""

    partitions: int
    buffer_page_size: int
    max_disk_cache: int
    max_total_bytes: int
    overflow: Overflow | str
    in_flight_bytes_max: int
    resend_interval_s: float
    retry_backoff_min_s: float
    retry_backoff_max_s: float
    retry_backoff_factor: float
    ack_deadline_s: float
    writer_ttl_s: float
    staging_ttl_s: float
    realtime: bool
    max_age_s: float
    clean_cache_at_stop: bool
    memory_overload_protection: bool
    retain_acked_time_s: float
    retain_acked_bytes: int
    ordering: Ordering | str
    resend_priority: int
    relaxed_failures_max: int
    max_attempts: int
    dlq: bool
    dlq_ratio_max: float
    dlq_consecutive_max: int
    buffer_mode: BufferMode | str
    fsync: bool
    volatile: bool
    memory_cache_threshold: int


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """All settings of a sink; the broker fills in the defaults."""

    partitions: int
    """1 to 1024. Can be raised, never lowered; raising it breaks the order by key at that point."""

    buffer_page_size: int
    """Upper bound in records for a page that joins small publishes."""

    max_disk_cache: int
    """Upper bound of stored records; 0 is unlimited."""

    max_total_bytes: int
    """Upper bound of the bytes of stored pages."""

    overflow: Overflow
    in_flight_bytes_max: int
    """Upper bound of bytes in flight to one consumer, regardless of its credit."""

    resend_interval_s: float
    """Pause between two redeliveries of a backlog after an outage."""

    retry_backoff_min_s: float
    retry_backoff_max_s: float
    retry_backoff_factor: float
    ack_deadline_s: float
    """Time limit for the answer to a delivery; then the records are redelivered."""

    writer_ttl_s: float
    """Time that the broker remembers an idle writer."""

    staging_ttl_s: float
    """Time after which staged pages that are neither extended nor committed are discarded."""

    realtime: bool
    """Serve readers at the head from memory."""

    max_age_s: float
    """Maximum age of unsettled records; 0 is unlimited.

    Older records are dropped, counted and recorded as a gap.
    """

    clean_cache_at_stop: bool
    """Empty the sink at a clean stop of the broker; dropped records are counted and recorded as a gap."""

    memory_overload_protection: bool
    """Reject appends that would buffer more bytes while broker memory is above its high watermark."""

    retain_acked_time_s: float
    """Time that settled pages are retained for replay and seek; 0 retains none by time."""

    retain_acked_bytes: int
    """Bytes of settled pages retained for replay and seek, newest first; 0 retains none by size."""

    ordering: Ordering
    resend_priority: int
    """Priority in RELAXED order: -1 new records, 0 the older record, 1 the retry queue."""

    relaxed_failures_max: int
    """Consecutive failed deliveries in RELAXED order after which new records wait for a probe to succeed."""

    max_attempts: int
    """Failed attempts after which a record moves to the dead-letter sink; 0 is unlimited."""

    dlq: bool
    """Move records that a target rejects permanently to the dead-letter sink; otherwise the sink pauses."""

    dlq_ratio_max: float
    """Share of dead letters among the last 1,000 records above which the sink pauses."""

    dlq_consecutive_max: int
    """Number of consecutive dead letters after which the sink pauses; 0 is unlimited."""

    buffer_mode: BufferMode
    """Location of pages; fixed at creation."""

    fsync: bool
    """Sync written pages before their receipt; without it, the sync follows within 100 ms."""

    volatile: bool
    """Wipe the sink at each start of the broker; the records are counted."""

    memory_cache_threshold: int
    """Upper bound of records that are only in memory."""


@dataclass(frozen=True, slots=True)
class Sink:
    """A named buffer."""

    name: str
    incarnation: str
    """Random id of this creation; a sink that was deleted and created again has another."""

    settings: SinkSettings
    created_at: datetime


@dataclass(frozen=True, slots=True)
class PartitionStats:
    """Contents of one partition."""

    partition: int
    earliest_offset: int
    """Lowest stored offset, or ``next_offset`` if the partition is empty."""

    next_offset: int
    """Offset of the next record."""

    records: int
    bytes: int
    pages: int
    dropped: Mapping[DropReason, int]
    """Number of records dropped since the sink was created, by reason."""

    memory_records: int
    """Number of ``records`` that are only in memory."""

    memory_bytes: int
    durability: Durability
    """Durability level of the least durable stored record."""


@dataclass(frozen=True, slots=True)
class LifetimeTotals:
    """Totals of a subscription over its current account and all accounts closed by a seek."""

    acked: int
    dead_lettered: int
    dropped: int
    """Records dropped before they were settled, or missing at the target of a seek."""

    skipped: int
    """Records that were pending when a seek closed their account."""

    seeks: int


@dataclass(frozen=True, slots=True)
class SubscriptionPartitionStats:
    """Account of a subscription on one partition."""

    partition: int
    start_offset: int
    """Offset at which the account was opened."""

    watermark: int
    """Lowest offset that is not settled."""

    acked: int
    dead_lettered: int
    dropped: int
    skipped: int
    pending: int
    """Number of unsettled records: the lag in records."""

    pending_bytes: int
    pending_age_s: float
    """Age of the oldest unsettled record."""

    in_flight: int
    redelivered: int
    state: DeliveryState
    retry_at: datetime | None
    """Time of the next retry, while backing off."""

    reason: str
    """Reason of a pause, or cause of the last failure."""

    mode: ReaderMode
    mode_switches: int
    identity_ok: bool
    """``next_offset - start_offset = acked + dead_lettered + dropped + skipped + pending``."""

    pages_behind: int
    lifetime: LifetimeTotals
    holes: int = 0
    """Number of settled, queued or leased ranges above the watermark; at 4,096, new records wait."""

    parked_ranges: int = 0
    """Number of ranges in the retry queue (RELAXED order)."""

    parked_records: int = 0
    waits_for_holes: bool = False
    """New records wait, because the maximum of ``holes`` is reached."""

    live_stopped: bool = False
    """New records wait for a successful probe, because too many consecutive deliveries failed."""

    leased_records: int = 0
    """Number of records in leased sets; see ``Client.resends``."""


@dataclass(frozen=True, slots=True)
class SubscriptionStats:
    """State of a subscription."""

    name: str
    partitions: tuple[SubscriptionPartitionStats, ...]
    consumers: int
    """Number of connected consumers."""


@dataclass(frozen=True, slots=True)
class SinkStats:
    """State of a sink."""

    name: str
    incarnation: str
    partitions: tuple[PartitionStats, ...]
    subscriptions: tuple[SubscriptionStats, ...]
    at: datetime
    identity_ok: bool
    """Every account balances: ``SubscriptionPartitionStats.identity_ok`` is true for all."""

    staged_tokens: int = 0
    """Number of tokens with staged pages of uncommitted epochs."""

    staged_records: int = 0
    staged_bytes: int = 0

    @property
    def records(self) -> int:
        """Number of stored records in all partitions."""
        return sum(partition.records for partition in self.partitions)

    @property
    def bytes(self) -> int:
        """Bytes of stored pages in all partitions."""
        return sum(partition.bytes for partition in self.partitions)

    def pending(self, subscription: str = "default") -> int:
        """Return the lag of a subscription in records; 0 if the subscription does not exist."""
        found = (one for one in self.subscriptions if one.name == subscription)
        return sum(partition.pending for one in found for partition in one.partitions)
