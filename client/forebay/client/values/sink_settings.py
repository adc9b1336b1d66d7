"""Settings of a sink as values. Generated from sink.proto by `make proto`: edit that file.

Durations are in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypedDict


class Overflow(StrEnum):
    """Policy for an append that exceeds a limit of the sink."""

    UNSPECIFIED = "UNSPECIFIED"
    """Value of a newer broker that this client does not know."""

    DROP_OLDEST = "DROP_OLDEST"
    """Drop the oldest pages that are not in flight; they are counted and recorded as a gap.

    The new page is kept.
    """

    REJECT = "REJECT"
    """Reject the append with ``SINK_FULL`` and ``RetryInfo``; the publisher waits and retries."""


class Ordering(StrEnum):
    """Effect of a failed delivery on later records of the partition."""

    UNSPECIFIED = "UNSPECIFIED"
    """Value of a newer broker that this client does not know."""

    STRICT = "STRICT"
    """The failed record and all records after it are redelivered, in order."""

    RELAXED = "RELAXED"
    """The failed records enter the retry queue; later records are delivered in the meantime."""


class BufferMode(StrEnum):
    """Location of pages: disk, memory first, or memory only."""

    UNSPECIFIED = "UNSPECIFIED"
    """Value of a newer broker that this client does not know."""

    DISK = "DISK"
    """All pages are written to disk; the newest also stay in memory for readers."""

    SPILL = "SPILL"
    """Pages stay in memory until the memory tier is full; then they spill to disk.

    The memory tier holds up to ``memory_cache_threshold`` records. A clean stop writes them to disk. A crash loses
    them: they are counted, and recorded as a gap ``LOST_IN_CRASH``.
    """

    MEMORY = "MEMORY"
    """No page is written; all records are lost when the process ends, and counted.

    The sink holds up to ``memory_cache_threshold`` records.
    """


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
    tail_bytes_max: int
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
    """All settings of a sink; the broker fills in its defaults, which may differ from those named here."""

    partitions: int
    """Number of partitions.

    An update may raise it, never lower it: from then on keys go to other partitions than before, so that the order by
    key breaks there. Allowed: 1 to 1,024. Default: 1.
    """

    buffer_page_size: int
    """Upper bound in records for a page that joins small publishes.

    Allowed: 1 to 65,536 records. Default: 256.
    """

    max_disk_cache: int
    """Upper bound of stored records, over all partitions.

    With ``SPILL`` it applies beside ``memory_cache_threshold``. Allowed: 0 (unlimited) or a number of records. Default:
    0.
    """

    max_total_bytes: int
    """Upper bound of the bytes of stored pages, over all partitions.

    Allowed: at least 1 KiB. Default: 10 GB.
    """

    overflow: Overflow
    """Policy for an append that exceeds a limit of the sink. Default: ``REJECT``."""

    in_flight_bytes_max: int
    """Upper bound of bytes in flight to one consumer, regardless of its credit.

    Allowed: 64 KiB to 1 GiB. Default: 64 MiB.
    """

    resend_interval_s: float
    """Pause between two redeliveries while a backlog is delivered after an outage.

    Allowed: 0 to 1 h. Default: 0.
    """

    retry_backoff_min_s: float
    """First delay of a redelivery after a failed delivery. Allowed: 1 ms to 1 h. Default: 100 ms."""

    retry_backoff_max_s: float
    """Longest delay of a redelivery; at least ``retry_backoff_min_s``.

    Allowed: 1 ms to 1 d. Default: 30 s.
    """

    retry_backoff_factor: float
    """Growth of the delay per failed delivery.

    The delay is random, between ``retry_backoff_min_s`` and the grown delay. Allowed: 1 to 10. Default: 2.
    """

    ack_deadline_s: float
    """Time limit for the answer to a delivery; then the records are redelivered.

    Allowed: 100 ms to 1 d. Default: 30 s.
    """

    writer_ttl_s: float
    """Time that the broker remembers an idle writer. Allowed: 1 min to 365 d. Default: 1 d."""

    staging_ttl_s: float
    """Time after which staged pages that are neither extended nor committed are discarded.

    Allowed: 1 min to 365 d. Default: 1 d.
    """

    realtime: bool
    """Serve readers at the head from memory. Default: true."""

    tail_bytes_max: int
    """Maximum memory for the newest pages of this sink.

    All sinks share ``tail_bytes`` of the broker's settings. Allowed: 0 (unlimited) or a number of bytes. Default: 0.
    """

    max_age_s: float
    """Maximum age of unsettled records, by the broker's own clock.

    Older records are dropped as ``EXPIRED``, page by page, unless they are in flight. Allowed: 0 (unlimited) or 1 s to
    3,650 d. Default: 0.
    """

    clean_cache_at_stop: bool
    """Empty the sink at a clean stop of the broker.

    Unsettled records are dropped as ``CLEANED_AT_STOP``. Default: false.
    """

    memory_overload_protection: bool
    """Reject appends that would buffer more bytes while the broker is short of memory.

    The error is ``MEMORY_OVERLOADED`` with ``RetryInfo``; the limit is the broker's high watermark of memory. Default:
    true.
    """

    retain_acked_time_s: float
    """Time that pages are retained for replay and seek after every subscription settled them.

    The broker's own clock counts it, which continues over restarts. Allowed: 0 to 3,650 d. Default: 0.
    """

    retain_acked_bytes: int
    """Bytes of settled pages retained for replay and seek, newest first, over all partitions.

    With ``retain_acked_time_s`` too, a page is removed when either limit is reached. Settled pages are removed before
    anything is rejected or dropped for lack of room. Allowed: 0 (none) or a number of bytes. Default: 0.
    """

    ordering: Ordering
    """Effect of a failed delivery on later records of the partition.

    Changing it revokes what is in flight. Default: ``STRICT``.
    """

    resend_priority: int
    """Order of a new record and one of the retry queue if both can be delivered.

    Only with ``RELAXED``. Allowed: -1 (new records first), 0 (oldest first) or 1 (retry queue first). Default: 0.
    """

    relaxed_failures_max: int
    """Consecutive failed deliveries after which new records wait for a probe to succeed.

    Only with ``RELAXED``. Allowed: 1 to 1,000,000 failures. Default: 10.
    """

    max_attempts: int
    """Failed attempts after which a record moves to the dead-letter sink.

    Allowed: 0 (unlimited) or 1 to 1,000,000 attempts. Default: 0.
    """

    dlq: bool
    """Move records that a target rejects permanently to the dead-letter sink ``<name>.dlq``.

    When false, the sink pauses instead with the reason ``REJECTED_BY_TARGET``, and the record stays pending. Default:
    true.
    """

    dlq_ratio_max: float
    """Share of dead letters among the last 1,000 records above which the sink pauses.

    The reason is ``DLQ_BREAKER``; it is judged from 100 records on. Allowed: 0 to 1. Default: 0.5.
    """

    dlq_consecutive_max: int
    """Number of consecutive dead letters after which the sink pauses.

    The reason is ``DLQ_BREAKER``. Allowed: 0 (unlimited) or 1 to 1,000,000,000 records. Default: 1,000.
    """

    buffer_mode: BufferMode
    """Location of pages: disk, memory first, or memory only. Fixed at creation. Default: ``DISK``."""

    fsync: bool
    """Sync written pages to the device before their receipt, which then says ``DISK``.

    Without it, a receipt follows the write and says ``PROCESS``; the sync follows within 100 ms. Default: true.
    """

    volatile: bool
    """Wipe the sink at each start of the broker.

    The records are counted as ``WIPED_AT_START``. Only with ``SPILL``. Default: false.
    """

    memory_cache_threshold: int
    """Upper bound of records that are only in memory, over all partitions.

    At least ``buffer_page_size``; without effect with ``DISK``. Allowed: 1 to 10,000,000 records. Default: 1,024.
    """
