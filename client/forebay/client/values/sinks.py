"""A sink, its settings and its statistics, as values. Durations are seconds; everything else is as on the wire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TypedDict

from forebay.client.values.records import DropReason, Durability


class Overflow(StrEnum):
    """What happens to an append that does not fit a limit."""

    DROP_OLDEST = "DROP_OLDEST"
    """The oldest pages that are not in flight are dropped, counted and marked by a gap."""

    REJECT = "REJECT"
    """The append is refused; the publisher waits and tries again."""


class Ordering(StrEnum):
    """What a failed delivery means for the records behind it in its partition."""

    STRICT = "STRICT"
    """The record that failed and all behind it come again, in order."""

    RELAXED = "RELAXED"
    """What failed steps aside and comes again later; the records behind it go on."""


class BufferMode(StrEnum):
    """Where pages stand."""

    UNSPECIFIED = "UNSPECIFIED"
    DISK = "DISK"
    """All are written."""

    SPILL = "SPILL"
    """The first stand in memory, what does not fit there is written. A crash loses what memory holds, counted."""

    MEMORY = "MEMORY"
    """None is written: gone with the process, counted."""


class DeliveryState(StrEnum):
    """State of the resend machine of a partition."""

    UNSPECIFIED = "UNSPECIFIED"
    FLOWING = "FLOWING"
    BACKING_OFF = "BACKING_OFF"
    PROBING = "PROBING"
    RESENDING = "RESENDING"
    PAUSED = "PAUSED"


class ReaderMode(StrEnum):
    """Where a reader's pages come from."""

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
    """All settings of a sink, defaults filled in by the broker."""

    partitions: int
    """1 to 1024; can be raised, never lowered. The order by key breaks there."""

    buffer_page_size: int
    """Bound in records for a page that joins small publishes."""

    max_disk_cache: int
    """Most records kept; 0 is no bound by count."""

    max_total_bytes: int
    """Most bytes of stored pages kept."""

    overflow: Overflow
    in_flight_bytes_max: int
    """Most bytes in flight to one consumer, whatever credit it offers."""

    resend_interval_s: float
    """Pause between two resends after an outage."""

    retry_backoff_min_s: float
    retry_backoff_max_s: float
    retry_backoff_factor: float
    ack_deadline_s: float
    """How long a delivery may stay unanswered."""

    writer_ttl_s: float
    """How long the broker remembers an idle writer."""

    staging_ttl_s: float
    """How long pages stay staged that nobody touches and nobody commits."""

    realtime: bool
    """Serve readers at the head from memory."""

    max_age_s: float
    """How old a record may become unsettled; 0 is for ever. What is older is dropped, counted, with a gap."""

    clean_cache_at_stop: bool
    """A clean stop of the broker empties the sink, counted, with a gap."""

    memory_overload_protection: bool
    """Refuse appends that would make more bytes wait while the broker's memory is over its high watermark."""

    retain_acked_time_s: float
    """How long settled pages are kept for replay and seek; 0 is no time."""

    retain_acked_bytes: int
    """Bytes of settled pages kept for replay and seek, the newest; 0 is none."""

    ordering: Ordering
    resend_priority: int
    """In RELAXED order, what goes first when both can: -1 new records, 0 the older one, 1 what failed before."""

    relaxed_failures_max: int
    """In RELAXED order, deliveries that fail in a row until new records wait for a successful probe too."""

    max_attempts: int
    """Tries after which a record goes to the dead-letter sink; 0 is for ever."""

    dlq: bool
    """Records that a target will never take go to the dead-letter sink; else the sink pauses."""

    dlq_ratio_max: float
    """The sink pauses when more than this part of the last 1,000 records were dead letters."""

    dlq_consecutive_max: int
    """The sink pauses after so many dead letters in a row; 0 is no bound."""

    buffer_mode: BufferMode
    """Where pages stand; fixed at creation."""

    fsync: bool
    """Sync written pages before their receipt; without, the sync follows within 100 ms."""

    volatile: bool
    """Wiped at each start of the broker, counted."""

    memory_cache_threshold: int
    """Most records that stand in memory only."""


@dataclass(frozen=True, slots=True)
class Sink:
    """A named buffer."""

    name: str
    incarnation: str
    """Random, from its creation: a sink deleted and made again is another one."""

    settings: SinkSettings
    created_at: datetime


@dataclass(frozen=True, slots=True)
class PartitionStats:
    """What a partition holds."""

    partition: int
    earliest_offset: int
    """Lowest offset that is stored, or ``next_offset`` when nothing is."""

    next_offset: int
    """Offset that the next record will get."""

    records: int
    bytes: int
    pages: int
    dropped: Mapping[DropReason, int]
    """Records dropped in the sink's life, by reason."""

    memory_records: int
    """Of ``records``, those that only memory holds."""

    memory_bytes: int
    durability: Durability
    """Of the least safe of the stored records."""


@dataclass(frozen=True, slots=True)
class LifetimeTotals:
    """What became of a subscription's records over all its accounts: those that seeks have closed, and the open one."""

    acked: int
    dead_lettered: int
    dropped: int
    """Dropped before they were settled, or missing where a seek went."""

    skipped: int
    """Pending when a seek closed their account."""

    seeks: int


@dataclass(frozen=True, slots=True)
class SubscriptionPartitionStats:
    """The account of a subscription on a partition."""

    partition: int
    start_offset: int
    """Where the account was opened."""

    watermark: int
    """Lowest offset that is not settled."""

    acked: int
    dead_lettered: int
    dropped: int
    skipped: int
    pending: int
    """Records not settled: the lag in records."""

    pending_bytes: int
    pending_age_s: float
    """Age of the oldest unsettled record."""

    in_flight: int
    redelivered: int
    state: DeliveryState
    retry_at: datetime | None
    """When the next try is due, while backing off."""

    reason: str
    """Why it is paused, or what the last failure was."""

    mode: ReaderMode
    mode_switches: int
    identity_ok: bool
    """``next_offset - start_offset = acked + dead_lettered + dropped + skipped + pending``."""

    pages_behind: int
    lifetime: LifetimeTotals
    holes: int = 0
    """Ranges settled beyond the watermark, parked or leased; at 4,096 new records wait."""

    parked_ranges: int = 0
    """Ranges that failed in RELAXED order and wait to be sent again."""

    parked_records: int = 0
    waits_for_holes: bool = False
    """New records wait, because the budget of holes is used up."""

    live_stopped: bool = False
    """New records wait for a successful probe, because too many deliveries failed in a row."""

    leased_records: int = 0
    """Records that holders have in sets; see ``Client.resends``."""


@dataclass(frozen=True, slots=True)
class SubscriptionStats:
    """State of a subscription."""

    name: str
    partitions: tuple[SubscriptionPartitionStats, ...]
    consumers: int
    """Consumers connected now."""


@dataclass(frozen=True, slots=True)
class SinkStats:
    """State of a sink."""

    name: str
    incarnation: str
    partitions: tuple[PartitionStats, ...]
    subscriptions: tuple[SubscriptionStats, ...]
    at: datetime
    identity_ok: bool
    """Every account balances."""

    staged_tokens: int = 0
    """Tokens with pages staged for epochs that are not committed."""

    staged_records: int = 0
    staged_bytes: int = 0

    @property
    def records(self) -> int:
        """Records stored now, over all partitions."""
        return sum(partition.records for partition in self.partitions)

    @property
    def bytes(self) -> int:
        """Bytes of pages stored now, over all partitions."""
        return sum(partition.bytes for partition in self.partitions)

    def pending(self, subscription: str = "default") -> int:
        """Return the lag of a subscription in records; 0 for one that does not exist."""
        found = (one for one in self.subscriptions if one.name == subscription)
        return sum(partition.pending for one in found for partition in one.partitions)
