"""What a consumer is sent, in the words of the core; the wire is somebody else's business."""

from __future__ import annotations

from dataclasses import dataclass

from forebay.broker.core.delivery.answers import Outcome
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
    """A failure of some of it leaves the rest as it is."""
    durability: Durability = Durability.DISK
    """Of the least safe of the pages."""

    @property
    def size(self) -> int:
        """Return the bytes of its pages."""
        return sum(entry.size for entry, _ in self.pages)


@dataclass(frozen=True, slots=True)
class Revoked:
    """Everything sent from ``first`` on is void."""

    partition: int
    first: int
    revision: int


@dataclass(frozen=True, slots=True)
class GapMet:
    """Offsets that will never come."""

    partition: int
    gap: Gap


@dataclass(frozen=True, slots=True)
class Assigned:
    """The partitions that the consumer owns from now on: (partition, owner epoch, revision)."""

    partitions: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Answered:
    """Results of one ack or nack."""

    results: tuple[tuple[int, Range, Outcome], ...]


@dataclass(frozen=True, slots=True)
class Pinged:
    """A question whether the consumer's process is running."""


Event = Delivered | Revoked | GapMet | Assigned | Answered | Pinged
