"""A subscription and where it stands, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

Position: TypeAlias = Literal["earliest", "latest"] | int | Mapping[int, int] | datetime
"""A place in a sink: its first or its end, an offset in each partition, offsets by partition, or a time (the first
record accepted then or later). A time without a zone is local.
"""


@dataclass(frozen=True, slots=True)
class Subscription:
    """A named durable cursor of a sink."""

    sink: str
    name: str
    """`default` always exists."""

    created_at: datetime
    start: Position
    """Where it was made to begin."""

    incarnation: str = ""
    """Of this creation: one that is deleted and made anew has another."""


@dataclass(frozen=True, slots=True)
class SettledPartition:
    """What settling below an offset did in one partition."""

    partition: int
    acked: int
    """Records settled by it."""

    watermark: int
    """Lowest offset that is not settled."""


@dataclass(frozen=True, slots=True)
class SubscriptionPlace:
    """Where a subscription was put in one partition."""

    partition: int
    start_offset: int
    """Where its account opened."""

    trimmed: tuple[int, int] | None
    """First and last offset of what was asked for and is gone; None when nothing is."""
