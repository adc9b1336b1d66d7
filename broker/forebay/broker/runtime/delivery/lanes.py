"""Lanes of one subscription, with its record: data that its parts share.

All of it is changed on the loop.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final

from forebay.broker.core.delivery.lane import Lane
from forebay.broker.core.errors import InvalidPartition
from forebay.broker.core.partition.log import PartitionLog
from forebay.broker.core.settings import SinkSettings
from forebay.broker.core.writes import PutCursor, SubscriptionRecord
from forebay.broker.runtime.sink.state import Sink

DEFAULT_SUBSCRIPTION: Final = "default"


class Lanes:
    """Lanes of one subscription, one per partition."""

    def __init__(self, sink: Sink, record: SubscriptionRecord, lanes: Sequence[Lane]) -> None:
        self.sink = sink
        self.record = record
        self.deleted = False
        """True after the deletion of the subscription: it is not stored any more."""
        self.handovers: dict[int, float] = {}
        """Partitions to hand over when nothing is in flight, with the time until which the owner keeps them."""
        self._lanes = sink.lanes[record.name] = list(lanes)
        self._partitions = {id(lane): number for number, lane in enumerate(self._lanes)}

    def __len__(self) -> int:
        return len(self._lanes)

    def __iter__(self) -> Iterator[Lane]:
        return iter(self._lanes)

    def __getitem__(self, partition: int) -> Lane:
        return self._lanes[partition]

    @property
    def name(self) -> str:
        """Name of the subscription."""
        return self.record.name

    @property
    def settings(self) -> SinkSettings:
        return self.sink.record.settings

    def now(self) -> float:
        """Return monotonic seconds."""
        return self.sink.clock.monotonic()

    def log(self, partition: int) -> PartitionLog:
        return self.sink.logs[partition]

    def checked(self, partition: int) -> Lane:
        """Return the lane of a partition; raises ``InvalidPartition``."""
        if not 0 <= partition < len(self._lanes):
            raise InvalidPartition(partition, len(self._lanes))
        return self._lanes[partition]

    def of(self, consumer_id: str, *, after: int = -1) -> list[Lane]:
        """Return the lanes that a consumer owns, those above partition ``after`` first."""
        owned = [number for number, lane in enumerate(self._lanes) if lane.owner == consumer_id]
        first = bisect_right(owned, after)
        return [self._lanes[number] for number in (*owned[first:], *owned[:first])]

    def partition_of(self, lane: Lane) -> int:
        return self._partitions[id(lane)]

    def add(self, lanes: Sequence[Lane]) -> None:
        """Add the lanes of new partitions."""
        for lane in lanes:
            self._partitions[id(lane)] = len(self._lanes)
            self._lanes.append(lane)

    def cursor_write(self, partition: int) -> PutCursor:
        """Return the write of the current cursor."""
        return PutCursor(self.sink.id, self.name, partition, self._lanes[partition].progress.stored)
