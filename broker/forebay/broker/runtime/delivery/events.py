"""Events that a consumer receives, in the terms of the core; the rpc layer translates them."""

from __future__ import annotations

from dataclasses import dataclass

from forebay.broker.core.delivery.answers import SettleOutcome
from forebay.broker.core.partition.pages import Body, Durability, Entry, Gap
from forebay.broker.core.partition.ranges import Range


@dataclass(frozen=True, slots=True)
class Delivered:
    """Whole pages of one partition, and the ranges in them to process."""

    partition: int
    owner_epoch: int
    revision: int
    pages: tuple[tuple[Entry, Body], ...]
    ranges: tuple[Range, ...]
    attempts: tuple[tuple[int, int], ...]
    resend: bool
    relaxed: bool = False
    """True if a failure of some records leaves the others valid."""
    durability: Durability = Durability.DISK
    """Durability of the least safe page."""

    @property
    def size(self) -> int:
        """Return the bytes of its pages."""
        return sum(entry.size for entry, _ in self.pages)


@dataclass(frozen=True, slots=True)
class Revoked:
    """Revocation: every delivery from ``first`` on is void."""

    partition: int
    first: int
    revision: int


@dataclass(frozen=True, slots=True)
class GapMet:
    """Gap notice: offsets that will never be delivered."""

    partition: int
    gap: Gap


@dataclass(frozen=True, slots=True)
class Assigned:
    """Partitions that the consumer owns from now on: (partition, owner epoch, revision)."""

    partitions: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Answered:
    """Results of one ack or nack."""

    results: tuple[tuple[int, Range, SettleOutcome], ...]


@dataclass(frozen=True, slots=True)
class Pinged:
    """Liveness check of the consumer's process."""


Event = Delivered | Revoked | GapMet | Assigned | Answered | Pinged
