"""A consumer that takes and answers, and short words for what it does."""

from __future__ import annotations

from forebay.broker.core.delivery.lane import Answer, Lane, SettleOutcome
from forebay.broker.core.partition.ranges import Range
from forebay.broker.runtime.delivery.events import Assigned, Delivered, GapMet, Revoked
from tests.support.brokers.running import Hand, delivered_values


class Taker(Hand):
    """A ``Hand`` that answers what it took."""

    def lane(self, partition: int = 0) -> Lane:
        """The lane of a partition, regardless of its owner."""
        return self.subscription.lanes[partition]

    def answer(self, partition: int = 0, *, revision: int | None = None) -> Answer:
        """Fields of an answer of the partition's current owner."""
        lane = self.lane(partition)
        return Answer(lane.owner_epoch, lane.revision if revision is None else revision)

    async def offsets(self, partition: int = 0, *, records_max: int | None = None) -> list[int]:
        """Take once; the offsets to process, or none."""
        event = await self.take(partition, records_max=records_max)
        return [offset for offset, _ in delivered_values(event)] if isinstance(event, Delivered) else []

    async def one(self, partition: int = 0) -> list[int]:
        """Take one record; its offset, or none."""
        return await self.offsets(partition, records_max=1)

    async def all_offsets(self, partition: int = 0) -> list[int]:
        """Take all that may be sent now; the offsets to process."""
        events = await self.take_all(partition)
        return [offset for event in events if isinstance(event, Delivered) for offset, _ in delivered_values(event)]

    async def ack(self, first: int, end: int, partition: int = 0) -> list[SettleOutcome]:
        """Settle a range; what became of its parts."""
        results = await self.subscription.ack(partition, self.answer(partition), [Range(first, end)])
        return [outcome for _, _, outcome in results]

    async def nack(
        self, first: int, end: int, partition: int = 0, *, delay_s: float | None = 0.0, reason: str = ""
    ) -> list[SettleOutcome]:
        """Give a range back; what became of its parts."""
        results = await self.subscription.retry(
            partition, self.answer(partition), [Range(first, end)], delay_s=delay_s, reason=reason
        )
        return [outcome for _, _, outcome in results]

    def owned(self) -> list[int]:
        """The partitions that it owns."""
        return [number for number, lane in enumerate(self.subscription.lanes) if lane.owner == self.consumer.id]

    def told_partitions(self) -> list[list[int]]:
        """The assignments it was notified of, in order."""
        return [[number for number, _, _ in event.partitions] for event in self.events if isinstance(event, Assigned)]

    def told_revoked(self) -> list[tuple[int, int, int]]:
        """(partition, first, revision) of each revocation it was notified of."""
        return [(e.partition, e.first, e.revision) for e in self.events if isinstance(e, Revoked)]

    def told_gaps(self) -> list[tuple[int, int]]:
        """The gaps it met."""
        return [(event.gap.first, event.gap.end) for event in self.events if isinstance(event, GapMet)]
