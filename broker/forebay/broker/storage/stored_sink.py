"""State of a sink as a start found it, by kinds of stored values."""

from __future__ import annotations

from dataclasses import dataclass, field

from forebay.broker.core.epochs.values import ProducerRecord, StagedPage, StageRecord, StoredEpochs
from forebay.broker.core.partition.account import Totals
from forebay.broker.core.partition.cursor import Cursor
from forebay.broker.core.partition.log import Head, Tail
from forebay.broker.core.partition.pages import Gap
from forebay.broker.core.partition.reservation import Held, Reserve
from forebay.broker.core.partition.retention import Marks
from forebay.broker.core.writes import SchemaRecord, SinkRecord, SubscriptionRecord


@dataclass(slots=True)
class StoredSink:
    """Sink as a start found it."""

    record: SinkRecord
    tails: dict[int, Tail] = field(default_factory=dict)
    heads: dict[int, Head] = field(default_factory=dict)
    gaps: dict[int, list[Gap]] = field(default_factory=dict)
    cursors: dict[tuple[str, int], Cursor] = field(default_factory=dict)
    writers: dict[str, int] = field(default_factory=dict)
    subscriptions: dict[str, SubscriptionRecord] = field(default_factory=dict)
    totals: dict[tuple[str, int], Totals] = field(default_factory=dict)
    marks: dict[int, Marks] = field(default_factory=dict)
    reserves: dict[int, Reserve] = field(default_factory=dict)
    held: dict[int, tuple[Held, ...]] = field(default_factory=dict)
    producers: dict[str, ProducerRecord] = field(default_factory=dict)
    stages: dict[int, StageRecord] = field(default_factory=dict)
    staged: dict[int, dict[tuple[int, int], StagedPage]] = field(default_factory=dict)
    """Pages by the number of their stage, then by partition and sequence."""

    @property
    def epochs(self) -> StoredEpochs:
        """Producers of the sink, with their stages."""
        return StoredEpochs(self.producers.values(), self.stages.values(), self.staged)

    schemas: dict[int, SchemaRecord] = field(default_factory=dict)

    @property
    def partitions(self) -> int:
        """Number of partitions, even if the stored number is wrong."""
        staged = [partition for pages in self.staged.values() for partition, _ in pages]
        seen = max([-1, *self.tails, *self.heads, *staged, *(partition for _, partition in self.cursors)]) + 1
        settings, wrong = self.record.settings.corrected()
        return max(settings.partitions, seen) if wrong else settings.partitions

    def cursors_by_partition(self) -> dict[int, dict[str, Cursor]]:
        """Return the cursors of each partition by subscription, as of now, in one pass."""
        found: dict[int, dict[str, Cursor]] = {}
        for (name, partition), cursor in self.cursors.items():
            found.setdefault(partition, {})[name] = cursor
        return found

    def assigned_end(self, partition: int) -> int:
        """Return the end of the offsets that may have been assigned, including those only in memory."""
        tail, reserve = self.tails.get(partition, Tail()), self.reserves.get(partition)
        return max(tail.next_offset, reserve.end if reserve is not None else 0)
