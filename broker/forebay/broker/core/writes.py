"""Write commands: the only interface between decisions and the store.

Every value names its subject; the store maps it to a key and bytes. All writes of one batch become durable together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from forebay.broker.core.backups.values import Restored
from forebay.broker.core.epochs.values import EpochRecord, ProducerRecord, StagedPage, StageRecord
from forebay.broker.core.partition.account import Totals
from forebay.broker.core.partition.cursor import Cursor
from forebay.broker.core.partition.log import Head, Tail
from forebay.broker.core.partition.pages import Body, Entry, Gap
from forebay.broker.core.partition.position import Position
from forebay.broker.core.partition.reservation import Held, Reserve
from forebay.broker.core.partition.retention import Marks
from forebay.broker.core.publish.writer import Slot
from forebay.broker.core.settings import SinkSettings


@dataclass(frozen=True, slots=True)
class Write:
    """Base of everything that the core stores or deletes."""


@dataclass(frozen=True, slots=True)
class PartitionWrite(Write):
    """Base of what belongs to one partition."""

    sink: int
    partition: int


@dataclass(frozen=True, slots=True)
class SinkRecord:
    """Sink as it is stored."""

    id: int
    """Number in the store; never reused."""

    name: str
    incarnation: str
    settings: SinkSettings
    created_at_us: int
    paused: str | None = None
    """Reason why deliveries are paused, or None."""

    request_id: str = ""
    """Id of the request that created it, if the request had one."""


@dataclass(frozen=True, slots=True)
class PutSink(Write):
    """Store a new or changed sink. ``fresh``: its id is used for the first time."""

    sink: SinkRecord
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class DropSink(Write):
    """Delete a sink with everything that belongs to it, including its pages; its id is never reused."""

    sink: int


@dataclass(frozen=True, slots=True)
class PutTail(PartitionWrite):
    tail: Tail


@dataclass(frozen=True, slots=True)
class PutHead(PartitionWrite):
    head: Head


@dataclass(frozen=True, slots=True)
class PutCounting(Write):
    """Record that a start has taken over the state of the last one and counts the records it accepts."""

    start_count: int


@dataclass(frozen=True, slots=True)
class PutReserve(PartitionWrite):
    """Reserve offsets that may be assigned from now on."""

    reserve: Reserve


@dataclass(frozen=True, slots=True)
class DropReserve(PartitionWrite):
    """Remove the reservation: no offset is assigned any more that a crash could lose."""


@dataclass(frozen=True, slots=True)
class PutHeld(PartitionWrite):
    """Store the pages of the tail that have no index entry. Written with that tail and head."""

    held: tuple[Held, ...]


@dataclass(frozen=True, slots=True)
class PutCursor(Write):
    sink: int
    subscription: str
    partition: int
    cursor: Cursor


@dataclass(frozen=True, slots=True)
class SubscriptionRecord:
    """Subscription as it is stored, beside its cursors."""

    name: str
    created_at_us: int
    start: Position
    """Position at which it was created."""

    incarnation: str = ""
    """Incarnation: a subscription that is deleted and recreated has another one."""

    request_id: str = ""
    """Id of the request that created it, if the request had one."""


@dataclass(frozen=True, slots=True)
class PutSubscription(Write):
    sink: int
    subscription: SubscriptionRecord


@dataclass(frozen=True, slots=True)
class DropSubscription(Write):
    """Delete a subscription with its cursors and totals in all partitions."""

    sink: int
    name: str
    partitions: int


@dataclass(frozen=True, slots=True)
class SchemaRecord:
    """Version of a sink's schema as it is stored. It never changes, and the broker does not decode it."""

    version: int
    """Version number, from 1."""

    registered_at_us: int
    arrow_schema: bytes
    """Schema message of Arrow's IPC stream format; empty for a version that was damaged and is lost."""

    spark_schema: str

    @property
    def lost(self) -> bool:
        """True if the version was registered and its schema is lost."""
        return not self.arrow_schema


@dataclass(frozen=True, slots=True)
class PutSchema(Write):
    sink: int
    schema: SchemaRecord


@dataclass(frozen=True, slots=True)
class PutRestored(Write):
    """Store the restore that the store comes from."""

    restored: Restored


@dataclass(frozen=True, slots=True)
class PutRealtime(Write):
    """Store the choice whether readers at the head are served from memory.

    None deletes it: the broker's settings apply.
    """

    enabled: bool | None


@dataclass(frozen=True, slots=True)
class PutTotals(Write):
    """Store the totals of closed accounts; written with the cursor that begins the next account."""

    sink: int
    subscription: str
    partition: int
    totals: Totals


@dataclass(frozen=True, slots=True)
class PutMarks(PartitionWrite):
    """Store the marks of settled offsets; an empty set deletes them."""

    marks: Marks


@dataclass(frozen=True, slots=True)
class PutWriter(Write):
    """Store a writer and its current epoch."""

    sink: int
    writer_id: str
    epoch: int


@dataclass(frozen=True, slots=True)
class DropWriter(Write):
    """Delete a writer, its epoch and its windows."""

    sink: int
    writer_id: str


@dataclass(frozen=True, slots=True)
class PutSlot(Write):
    """Store an accepted page of a writer in place of the one a window before it."""

    sink: int
    writer_id: str
    epoch: int
    partition: int
    slot: Slot


@dataclass(frozen=True, slots=True)
class PutEntry(PartitionWrite):
    entry: Entry


@dataclass(frozen=True, slots=True)
class PutPlaced(PartitionWrite):
    """Store the consecutive entries of committed staged pages."""

    before: Tail
    """End of the partition before the first of them."""

    accepted_at_us: int
    age_us: int
    pages: Sequence[StagedPage]


@dataclass(frozen=True, slots=True)
class DropEntriesFrom(PartitionWrite):
    """Delete all entries of a partition from an offset on: those of a commit that a crash interrupted."""

    first: int


@dataclass(frozen=True, slots=True)
class PutLargeCommit(Write):
    """Begin a commit that writes entries beyond the ends of the partitions of a sink.

    Its last batch moves these ends.
    """

    sink: int
    epochs: tuple[tuple[str, int], ...]
    """Producers and numbers of the epochs."""


@dataclass(frozen=True, slots=True)
class DropLargeCommit(Write):
    """End a commit: the ends are moved, or the entries are deleted."""

    sink: int


@dataclass(frozen=True, slots=True)
class DropEntry(PartitionWrite):
    base: int


@dataclass(frozen=True, slots=True)
class PutGap(PartitionWrite):
    gap: Gap


@dataclass(frozen=True, slots=True)
class DropGap(PartitionWrite):
    first: int
    subscription: str = ""


@dataclass(frozen=True, slots=True)
class PutStage(Write):
    """Store the stage of an attempt; written with its first page."""

    sink: int
    stage: StageRecord


@dataclass(frozen=True, slots=True)
class PutStaged(Write):
    """Store a page of a stage, which no reader sees yet."""

    sink: int
    stage: int
    """Number of the stage."""

    partition: int
    sequence: int
    """Number among the pages of the stage in this partition, from 0."""

    page: StagedPage


@dataclass(frozen=True, slots=True)
class DropStages(Write):
    """Delete stages with the names of their pages. The batch also decides what happens to the pages."""

    sink: int
    first: int
    """Lowest number of a stage."""

    last: int
    """Highest number of a stage: every stage between the two is deleted."""


@dataclass(frozen=True, slots=True)
class PutProducer(Write):
    sink: int
    producer: ProducerRecord


@dataclass(frozen=True, slots=True)
class DropProducer(Write):
    """Delete a producer with its epochs."""

    sink: int
    producer: str


@dataclass(frozen=True, slots=True)
class PutEpoch(Write):
    """Store an epoch; written with the entries of its pages or after them."""

    sink: int
    epoch: EpochRecord


@dataclass(frozen=True, slots=True)
class PutEpochStages(Write):
    """Store the order of the tokens of an epoch in one partition; written with the epoch or before it."""

    sink: int
    producer: str
    epoch: int
    partition: int
    stages: Sequence[int]
    """Number, records and pages of each stage, in a flat sequence: see ``StagePart``."""


@dataclass(frozen=True, slots=True)
class DropEpochStages(Write):
    """Delete the stages of an epoch whose commit was interrupted by a crash."""

    sink: int
    producer: str
    epoch: int


@dataclass(frozen=True, slots=True)
class DropEpoch(Write):
    """Delete an epoch that has no page left."""

    sink: int
    producer: str
    epoch: int
    partitions: tuple[int, ...]
    """Partitions in which it had pages."""


NUMBER_BITS: Final = 40
"""Low bits of a page number that count within a start; the start count is above them."""
WHOLE_SINK: Final = 0xFFFF_FFFF
"""Number that represents all partitions of a sink in ``Due``."""


@dataclass(frozen=True, slots=True)
class Due:
    """Pages with consecutive numbers of one partition that no index entry names any more."""

    sink: int
    partition: int
    bulk: bool
    first: int
    """First page number."""

    last: int
    """Last page number."""

    size: int
    """Bytes of their bodies."""


@dataclass(frozen=True, slots=True)
class PutDue(Write):
    """Record pages in the reclaim ledger."""

    due: Due


@dataclass(frozen=True, slots=True)
class Reclaim(Write):
    """Delete the bytes of due pages. The space is freed later, so the ledger keeps them until then."""

    due: Due


@dataclass(frozen=True, slots=True)
class Reclaimed(Write):
    """Remove due pages from the ledger after their space was freed."""

    due: Due


@dataclass(frozen=True, slots=True)
class PutAge(Write):
    """Store the broker's own clock and the machine's clocks at that moment, in microseconds.

    All are zero in a new store.
    """

    age_us: int = 0
    wall_us: int = 0
    """Wall clock since 1970-01-01 UTC, as the machine shows it."""

    boot: bytes = b""
    """Boot id of the machine; empty if unknown."""

    boot_us: int = 0
    """Time since the machine booted, including sleep."""


@dataclass(frozen=True, slots=True)
class PutPosition(Write):
    """Store the saved position of a consumer."""

    key: str
    document: bytes


@dataclass(frozen=True, slots=True)
class DropPosition(Write):
    """Delete a saved position."""

    key: str


@dataclass(frozen=True, slots=True)
class PutStopped(Write):
    """Record an orderly stop of a start: its cursors are up to date."""

    start_count: int


@dataclass(frozen=True, slots=True)
class PutQuarantine(PartitionWrite):
    """Quarantine a damaged page: no index entry names it, and its bytes are kept."""

    entry: Entry


@dataclass(frozen=True, slots=True)
class DropQuarantine(PartitionWrite):
    """Delete a damaged page from quarantine."""

    number: int


@dataclass(frozen=True, slots=True)
class PageWrite:
    """Bytes of one page, and its entry."""

    sink: int
    partition: int
    entry: Entry
    body: Body
    stage: int = 0
    """Number of the stage that it is written for; the offset of its entry is then meaningless."""
