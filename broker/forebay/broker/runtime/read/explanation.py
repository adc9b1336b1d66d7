"""Explanation of a record: at most one index read, then the state of one moment.

It is returned when the state that it is based on is durable.
"""

from __future__ import annotations

from dataclasses import dataclass

from forebay.broker.core.errors import ReadFailed
from forebay.broker.core.partition.explanation import Explanation, Moment, Owner, explain
from forebay.broker.core.partition.log import PartitionLog
from forebay.broker.core.partition.pages import Entry
from forebay.broker.runtime.delivery.subscription import Subscription
from forebay.broker.runtime.sink.buffer import Buffer


@dataclass(frozen=True, slots=True)
class Explained:
    """Explanation, and the wall clock time of its moment."""

    explanation: Explanation
    now: float
    """Monotonic seconds."""

    now_us: int
    """The same moment on the wall clock."""

    def wall_us(self, at: float) -> int:
        """Return a monotonic time on the wall clock."""
        return self.now_us + round((at - self.now) * 1_000_000)


async def explained(buffer: Buffer, subscription: Subscription, partition: int, offset: int) -> Explained:
    """Return the explanation of a record; raises ``InvalidPartition`` and ``StoreFenced``."""
    lane = subscription.lane(partition)
    log = buffer.logs[partition]
    entry = await _entry(subscription, log, offset)
    moment = Moment(
        now=subscription.now(),
        owner=_owner(subscription, partition),
        moving_until=subscription.lanes.handovers.get(partition),
        entry=entry,
        recent=entry is not None and subscription.source.is_recent(entry),
        unreadable=hold.reason if (hold := buffer.read_hold(partition)) is not None else "",
    )
    explanation = explain(log, lane, subscription.name, offset, moment)
    found = Explained(explanation, moment.now, buffer.state.clock.wall_us())
    await buffer.removal.confirmed()
    return found


async def _entry(subscription: Subscription, log: PartitionLog, offset: int) -> Entry | None:
    """Return the stored page that holds an offset, if it still exists after the lookup."""
    if offset >= log.tail.next_offset or log.gap_at(offset) is not None:
        return None
    try:
        entries = await subscription.source.entry_reader(log.number).upcoming(offset)
    except ReadFailed:
        return None  # the partition is noted as one that cannot be read
    found = next((entry for entry in entries if entry.base <= offset < entry.end), None)
    lives = found is not None and found.base >= log.head.earliest and log.gap_at(found.base) is None
    return found if lives else None


def _owner(subscription: Subscription, partition: int) -> Owner | None:
    consumer = subscription.owners.of(partition)
    if consumer is None:
        return None
    return Owner(
        id=consumer.id,
        credit_records=consumer.credit.records,
        credit_size=consumer.credit.size,
        used_records=max(consumer.usage.records, consumer.unsent.records),
        used_size=max(consumer.usage.size, consumer.unsent.size),
        accepts=subscription.pullers.accepts(consumer.id),
    )
