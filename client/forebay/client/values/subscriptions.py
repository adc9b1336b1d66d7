"""Subscriptions and their positions, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

Position: TypeAlias = Literal["earliest", "latest"] | int | Mapping[int, int] | datetime
"""Position in a sink: ``earliest``, ``latest``, an offset, offsets by partition, or a time.

A plain offset applies to each partition. A time means the first record accepted at that time or later. A time without a
zone is local.
"""


@dataclass(frozen=True, slots=True)
class Subscription:
    """Named durable cursor of a sink."""

    sink: str
    name: str
    """Name of the subscription; ``default`` always exists."""

    created_at: datetime
    start: Position
    """Position at which the subscription was created."""

    incarnation: str = ""
    """Id of this creation; a subscription that was deleted and recreated has another."""


@dataclass(frozen=True, slots=True)
class SettledPartition:
    """Result of settling all offsets below a bound in one partition."""

    partition: int
    acked: int
    """Number of records that were settled."""

    watermark: int
    """Lowest offset that is not settled."""


@dataclass(frozen=True, slots=True)
class SubscriptionPlace:
    """Start position of a subscription in one partition."""

    partition: int
    start_offset: int
    """Offset at which its account was opened."""

    trimmed: tuple[int, int] | None
    """First and last requested offset that are already trimmed; ``None`` if none are."""
