"""Figures of a broker and its sinks at one time: what all pages of the console are made from."""

from __future__ import annotations

from dataclasses import dataclass

from forebay.broker.console.health import Health
from forebay.broker.console.history import History, Rates
from forebay.state.flow import seconds_to_full


@dataclass(frozen=True, slots=True)
class SinkFigures:
    """Figures of one sink, of its slowest subscription where they differ."""

    name: str
    state: str
    """Word of the sink's state."""

    waiting: int
    """Unsettled records of the slowest subscription."""

    waiting_bytes: int
    """Bytes of all stored records."""

    records: int
    subscription: str
    """Name of the slowest subscription."""

    consumers: int
    """Connected consumers of all subscriptions."""

    share: float
    """Used part of the tightest limit, 0 to 1."""

    rates: Rates
    reason: str
    """Reason of a pause or a back-off."""

    retry_in_s: float | None
    """Time to the next try, while backing off."""

    dead_letters: int
    """Records in its dead-letter sink."""

    oldest_age_s: float | None = None
    """Age of the oldest unsettled record; None where it was not measured."""

    @property
    def full_in_s(self) -> float | None:
        """Time until its limit is reached at the present rates; None if it is not approached.

        Everything that is cleared makes room, not only what consumers settled.
        """
        return seconds_to_full(self.records, self.share, in_per_s=self.rates.into, out_per_s=self.rates.cleared)

    @property
    def empty_in_s(self) -> float | None:
        """Time until nothing waits at the present rates; None if that does not happen."""
        shrinking = self.rates.out - self.rates.into
        return self.waiting / shrinking if self.waiting and shrinking > 0 else None


@dataclass(frozen=True, slots=True)
class ShardOwner:
    """Shard of the fleet and its owner."""

    name: str
    """Empty for the only shard of a journal without names."""

    endpoint: str
    epoch: int
    is_this: bool
    """The owner is this broker."""


@dataclass(frozen=True, slots=True)
class ShardFigures:
    """Journal of the broker, and the shards of its fleet."""

    journal: str
    """Address, without credentials."""

    epoch: int
    """Owner epoch of the broker."""

    position: int
    """Next position of the journal."""

    size: int
    """Bytes of the journal; 0 until they are known."""

    owners: tuple[ShardOwner, ...]
    """By the names of their shards."""


@dataclass(frozen=True, slots=True)
class BrokerFigures:
    """Figures of the broker."""

    state: str
    """``serving``, ``draining`` or ``fenced``."""

    state_reason: str
    endpoint: str
    version: str
    up_s: float
    sinks: int
    sinks_max: int
    streams: int
    connections: int
    disk_free: int
    disk_reserve: int
    memory_used: int
    memory_limit: int
    memory_watermark: float
    """Part of the limit above which the broker holds less."""

    sync_p50_s: float | None
    sync_p99_s: float | None
    quarantined_pages: int
    warnings: tuple[str, ...]
    journal_outage: str
    journal_outage_cause: str
    shard: ShardFigures | None
    """None without a journal."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Figures of everything, as of one sample."""

    at_us: int
    """Wall clock, microseconds since 1970 UTC."""

    number: int
    """Counts the samples."""

    broker: BrokerFigures
    sinks: tuple[SinkFigures, ...]
    """By name."""

    total: History
    histories: dict[str, History]
    """By name; not of all sinks of a broker with very many."""

    health: Health

    @property
    def stored_bytes(self) -> int:
        """Bytes of the stored records of all sinks."""
        return sum(one.waiting_bytes for one in self.sinks)

    @property
    def disk_share(self) -> float:
        """Used part of the room for records: the stored bytes, and those free above the reserve."""
        room = max(0, self.broker.disk_free - self.broker.disk_reserve)
        return self.stored_bytes / (self.stored_bytes + room) if self.stored_bytes else float(room == 0)

    @property
    def waiting(self) -> int:
        """Unsettled records of all sinks."""
        return sum(one.waiting for one in self.sinks)
