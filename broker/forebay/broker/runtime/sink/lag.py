"""Lag of a subscription on a partition, as a value."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Lag:
    """Lag of one subscription on one partition; see ``statistics.LaneState``."""

    partition: int
    pending: int
    pending_bytes: int
    oldest_age_us: int
    realtime: bool | None
