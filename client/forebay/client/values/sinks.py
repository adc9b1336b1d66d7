"""Sinks and their statistics, as values.

Durations are in seconds; all other fields are as on the wire.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from forebay.client.values.records import DropReason, Durability
from forebay.client.values.sink_settings import SinkSettings


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


@dataclass(frozen=True, slots=True)
class Sink:
    """A named buffer."""

    name: str
    incarnation: str
    """Random id of this creation; a sink that was deleted and recreated has another."""

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
class PathLag:
    """Lag of one path by which a reader gets its records."""

    records: int = 0
    """Number of unsettled records."""

    bytes: int = 0
    age_s: float = 0.0
    """Age of the oldest one."""


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

    mode_time_s: float = 0.0
    """Time that the connected consumer has been in ``mode``."""

    realtime_lag: PathLag = PathLag()
    """Part of the lag that memory holds, by whole pages; ``pending`` is the sum of both parts."""

    catch_up_lag: PathLag = PathLag()
    """Part of the lag that has to be read from the store."""


@dataclass(frozen=True, slots=True)
class ReplayStats:
    """Open replay of a partition: its position, its mode and its lag. It settles nothing."""

    partition: int
    reader_id: str
    """Name that its client gave it: that of a consumer; may be empty."""

    position: int
    """Next offset that it gets."""

    mode: ReaderMode
    """Origin of its last pages; ``UNSPECIFIED`` before the first one."""

    mode_time_s: float
    mode_switches: int
    pending: int
    """Number of stored records from ``position`` on."""

    pending_bytes: int
    pending_age_s: float
    """Age of the oldest of them."""

    realtime_lag: PathLag = PathLag()
    """Part of the lag that memory holds, by whole pages; ``pending`` is the sum of both parts."""

    catch_up_lag: PathLag = PathLag()
    """Part of the lag that has to be read from the store."""


@dataclass(frozen=True, slots=True)
class SubscriptionStats:
    """State of a subscription."""

    name: str
    partitions: tuple[SubscriptionPartitionStats, ...]
    consumers: int
    """Number of connected consumers."""

    settled_per_s: float = 0.0
    """Records per second that were acked or dead-lettered in the last 10 s."""


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
    realtime: bool = False
    """New pages are kept in memory, for readers at the head."""

    tail_bytes: int = 0
    """Memory of the newest pages."""

    appended_per_s: float = 0.0
    """Records per second that were appended in the last 10 s."""

    limit_used: float = 0.0
    """Share of the sink's tightest limit in use; staged and retained records count."""

    full: bool = False
    """A limit of the sink rejected an append, or dropped pages for one, in the last 10 s."""

    replays: tuple[ReplayStats, ...] = ()
    """Open replays, by partition."""

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
