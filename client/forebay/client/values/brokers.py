"""Values of brokers: description, realtime switch and hand-over."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """Version, state, limits and counters of a broker."""

    version: str
    store_id: str
    format: int
    """Version of the on-disk format."""

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
    """Data directory; empty for a broker that stores everything in memory."""

    groups: int
    """Number of group commits of this process."""
    quarantined_pages: int = 0
    """Number of damaged pages whose bytes are quarantined; see ``forebay quarantine``."""
    quarantined_bytes: int = 0
    """Size of the quarantined pages."""
    repairs: tuple[str, ...] = ()
    """Damage found at the start of the broker, and how it was repaired."""
    unreadable: tuple[str, ...] = ()
    """Partitions whose reads fail now, with the cause; reading resumes when the disk answers again."""
    read_failures: int = 0
    """Reads that failed since the broker started, including those that succeeded on retry."""
    background_failures: tuple[str, ...] = ()
    """Background tasks of the broker that failed and were restarted, with the cause."""
    quarantine_evicted_pages: int = 0
    """Number of quarantined pages whose bytes were evicted because the quarantine was full."""
    warnings: tuple[str, ...] = ()
    """Certificate, key and token files that need attention, and overdue backups, with the reason."""
    realtime: bool = True
    """Readers at the head are served from memory, in sinks whose setting ``realtime`` is true."""
    realtime_chosen: bool = False
    """``realtime`` was chosen by ``Client.realtime``; otherwise it is the setting of the broker."""
    realtime_failure: str = ""
    """Reason why memory serves no reader although it is switched on; empty for none."""
    restored_from: str = ""
    """Backup that the broker was restored from; empty for none."""
    restored_backup_at: datetime | None = None
    """Instant of the data of that backup."""
    restored_at: datetime | None = None
    """Time of the restore."""
    now: datetime | None = None
    """Clock of the broker; None from an older broker, which does not send what follows either."""
    disk_free_bytes: int = 0
    """Free bytes of the device of the data directory."""
    disk_reserve_bytes: int = 0
    """Bytes that appends leave free."""
    memory_used_bytes: int = 0
    """Memory of the process or of its control group, whichever is nearer to its limit; 0 if unknown."""
    memory_limit_bytes: int = 0
    """Limit of that memory."""
    memory_high_watermark: float = 0.0
    """Part of the limit above which appends are restricted."""
    backup_target: str = ""
    """Target of backups; empty for none."""
    newest_backup: str = ""
    """Newest complete backup; empty if none is known."""
    newest_backup_at: datetime | None = None
    """Instant of the data of that backup."""
    journal: str = ""
    """Journal of the shard that the broker owns; empty for a broker without one."""
    owner_epoch: int = 0
    """Epoch of this owner; a takeover by another broker begins a higher one."""
    journal_position: int = 0
    """Next position of the journal."""
    journal_bytes: int = 0
    """Bytes of the journal; 0 until they are known."""
    journal_outage: str = ""
    """``JOURNAL_AWAY`` or ``JOURNAL_FULL`` while the journal does not answer or is full; else empty."""
    journal_outage_cause: str = ""
    """Error of the last request to the journal; empty without an outage."""
    journal_durability: str = ""
    """Meaning of a confirmation of the journal, in words; empty without one, and from an older broker."""


@dataclass(frozen=True, slots=True)
class RealtimeState:
    """Realtime switch after a change."""

    enabled: bool
    """Memory serves readers at the head: the switches of the sink and of the broker are on."""

    broker_enabled: bool
    """The switch of the broker is on."""


@dataclass(frozen=True, slots=True)
class HandOver:
    """Answer of an owner that was asked to hand its shard over."""

    owner_epoch: int
    """Its owner epoch; the next owner has a higher one."""

    already_owner: bool
    """It is the broker that was to take over: nothing was done."""
