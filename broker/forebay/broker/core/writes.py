"""What is to be written: the only language in which decisions reach the store.

Every value names what it is about; how it becomes a key and bytes is the store's business. All writes of one
batch become durable together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

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
class SinkRecord:
    """A sink as it is stored."""

    id: int
    """Number in the store; never given twice."""

    name: str
    incarnation: str
    settings: SinkSettings
    created_at_us: int
    paused: str | None = None
    """Why deliveries are stopped, or None."""

    request_id: str = ""
    """Of the request that made it, where that named one."""


@dataclass(frozen=True, slots=True)
class PutSink:
    """A sink, new or changed. ``fresh``: its id is used for the first time."""

    sink: SinkRecord
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class DropSink:
    """A sink with all that belongs to it. Its pages go at once: its id never comes back."""

    sink: int


@dataclass(frozen=True, slots=True)
class PutTail:
    sink: int
    partition: int
    tail: Tail


@dataclass(frozen=True, slots=True)
class PutHead:
    sink: int
    partition: int
    head: Head


@dataclass(frozen=True, slots=True)
class PutCounting:
    """A start has taken over what the last one left, and counts what its own memory accepts."""

    start_count: int


@dataclass(frozen=True, slots=True)
class PutReserve:
    """Offsets that may be handed out from now on."""

    sink: int
    partition: int
    reserve: Reserve


@dataclass(frozen=True, slots=True)
class DropReserve:
    """The partition hands out no offset any more that a crash could take back."""

    sink: int
    partition: int


@dataclass(frozen=True, slots=True)
class PutHeld:
    """Pages of the stored tail that no index entry names. Written together with that tail and head."""

    sink: int
    partition: int
    held: tuple[Held, ...]


@dataclass(frozen=True, slots=True)
class PutCursor:
    sink: int
    subscription: str
    partition: int
    cursor: Cursor


@dataclass(frozen=True, slots=True)
class SubscriptionRecord:
    """A subscription as it is stored, beside its cursors."""

    name: str
    created_at_us: int
    start: Position
    """Where it was made to begin."""

    incarnation: str = ""
    """Of this creation: one that is deleted and made anew has another."""

    request_id: str = ""
    """Of the request that made it, where that named one."""


@dataclass(frozen=True, slots=True)
class PutSubscription:
    sink: int
    subscription: SubscriptionRecord


@dataclass(frozen=True, slots=True)
class DropSubscription:
    """A subscription with its cursors and totals in all partitions."""

    sink: int
    name: str
    partitions: int


@dataclass(frozen=True, slots=True)
class SchemaRecord:
    """A version of a sink's schema as it is stored. It never changes, and nobody here looks inside."""

    version: int
    """From 1."""

    registered_at_us: int
    arrow_schema: bytes
    """A schema message of Arrow's IPC stream format; empty for a version that was damaged and is lost."""

    spark_schema: str

    @property
    def lost(self) -> bool:
        """The number was given, and what it stood for is not known any more."""
        return not self.arrow_schema


@dataclass(frozen=True, slots=True)
class PutSchema:
    sink: int
    schema: SchemaRecord


@dataclass(frozen=True, slots=True)
class PutTotals:
    """What the closed accounts of a subscription came to; written with the cursor that begins the next one."""

    sink: int
    subscription: str
    partition: int
    totals: Totals


@dataclass(frozen=True, slots=True)
class PutMarks:
    """When what was settled; none are kept where there is none."""

    sink: int
    partition: int
    marks: Marks


@dataclass(frozen=True, slots=True)
class PutWriter:
    """A writer and its current epoch."""

    sink: int
    writer_id: str
    epoch: int


@dataclass(frozen=True, slots=True)
class DropWriter:
    """A writer, its epoch and its windows."""

    sink: int
    writer_id: str


@dataclass(frozen=True, slots=True)
class PutSlot:
    """One accepted page of a writer; takes the place of the one a window before it."""

    sink: int
    writer_id: str
    epoch: int
    partition: int
    slot: Slot


@dataclass(frozen=True, slots=True)
class PutEntry:
    sink: int
    partition: int
    entry: Entry


@dataclass(frozen=True, slots=True)
class PutPlaced:
    """Entries of staged pages that became records, one behind the other."""

    sink: int
    partition: int
    before: Tail
    """End of the partition before the first of them."""

    accepted_at_us: int
    age_us: int
    pages: Sequence[StagedPage]


@dataclass(frozen=True, slots=True)
class DropEntriesFrom:
    """All entries of a partition from an offset on: a commit that a crash cut off has left them."""

    sink: int
    partition: int
    first: int


@dataclass(frozen=True, slots=True)
class PutPlacing:
    """A commit writes entries of a sink behind the ends of its partitions, which it moves with its last batch."""

    sink: int
    epochs: tuple[tuple[str, int], ...]
    """Producers and numbers of the epochs."""


@dataclass(frozen=True, slots=True)
class DropPlacing:
    """The ends are moved, or the entries are gone."""

    sink: int


@dataclass(frozen=True, slots=True)
class DropEntry:
    sink: int
    partition: int
    base: int


@dataclass(frozen=True, slots=True)
class PutGap:
    sink: int
    partition: int
    gap: Gap


@dataclass(frozen=True, slots=True)
class DropGap:
    sink: int
    partition: int
    first: int
    subscription: str = ""


@dataclass(frozen=True, slots=True)
class PutStage:
    """What an attempt stages for; written with its first page."""

    sink: int
    stage: StageRecord


@dataclass(frozen=True, slots=True)
class PutStaged:
    """A page of a stage: it is stored, and nothing shows it."""

    sink: int
    stage: int
    """Number of the stage."""

    partition: int
    sequence: int
    """Among the pages of the stage in this partition, from 0."""

    page: StagedPage


@dataclass(frozen=True, slots=True)
class DropStages:
    """Stages with the names of their pages. What becomes of the pages is written with it."""

    sink: int
    first: int
    """Lowest number of a stage."""

    last: int
    """Highest number: every stage between the two goes."""


@dataclass(frozen=True, slots=True)
class PutProducer:
    sink: int
    producer: ProducerRecord


@dataclass(frozen=True, slots=True)
class DropProducer:
    """A producer with all that is known of its epochs."""

    sink: int
    producer: str


@dataclass(frozen=True, slots=True)
class PutEpoch:
    """An epoch; written when the entries of its pages are, or with them."""

    sink: int
    epoch: EpochRecord


@dataclass(frozen=True, slots=True)
class PutEpochStages:
    """The order of the tokens of an epoch in one partition; written with the epoch or before it."""

    sink: int
    producer: str
    epoch: int
    partition: int
    stages: Sequence[int]
    """Number, records and pages of each stage, one behind the other: see ``StagePart``."""


@dataclass(frozen=True, slots=True)
class DropEpochStages:
    """An epoch was never committed: a crash has cut its commit off."""

    sink: int
    producer: str
    epoch: int


@dataclass(frozen=True, slots=True)
class DropEpoch:
    """None of the epoch's pages is left."""

    sink: int
    producer: str
    epoch: int
    partitions: tuple[int, ...]
    """Those that it had pages in."""


NUMBER_BITS: Final = 40
"""A page number is the start count, and in so many lower bits a count within it."""
WHOLE_SINK: Final = 0xFFFF_FFFF
"""Stands for all partitions of a sink in ``Due``."""


@dataclass(frozen=True, slots=True)
class Due:
    """Pages with consecutive numbers of one partition that nothing names any more."""

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
class PutDue:
    """Note pages in the reclaim ledger."""

    due: Due


@dataclass(frozen=True, slots=True)
class Reclaim:
    """Delete the bytes of pages that are due. Their space comes back later, so the ledger keeps them until then."""

    due: Due


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """The space of pages that were due has come back: the ledger forgets them."""

    due: Due


@dataclass(frozen=True, slots=True)
class PutAge:
    """The broker's own clock, and the machine's clocks at that moment, in microseconds. Zeros in a new store."""

    age_us: int = 0
    wall_us: int = 0
    """Since 1970-01-01 UTC, as the machine believes."""

    boot: bytes = b""
    """Names this running of the machine; empty where that is not known."""

    boot_us: int = 0
    """Since the machine started, the time that it slept included."""


@dataclass(frozen=True, slots=True)
class PutStopped:
    """An orderly stop of a start: its cursors say how far deliveries went."""

    start_count: int


@dataclass(frozen=True, slots=True)
class PutQuarantine:
    """A damaged page: nothing names it any more, its bytes stay."""

    sink: int
    partition: int
    entry: Entry


@dataclass(frozen=True, slots=True)
class DropQuarantine:
    """A damaged page is not kept aside any longer."""

    sink: int
    partition: int
    number: int


Write = (
    PutSink
    | DropSink
    | PutTail
    | PutHead
    | PutCounting
    | PutReserve
    | DropReserve
    | PutHeld
    | PutCursor
    | PutSubscription
    | DropSubscription
    | PutSchema
    | PutTotals
    | PutMarks
    | PutWriter
    | DropWriter
    | PutSlot
    | PutEntry
    | PutPlaced
    | DropEntry
    | DropEntriesFrom
    | PutPlacing
    | DropPlacing
    | PutGap
    | DropGap
    | PutDue
    | Reclaim
    | Reclaimed
    | PutQuarantine
    | DropQuarantine
    | PutAge
    | PutStopped
    | PutStage
    | PutStaged
    | DropStages
    | PutProducer
    | DropProducer
    | PutEpoch
    | PutEpochStages
    | DropEpochStages
    | DropEpoch
)


@dataclass(frozen=True, slots=True)
class PageWrite:
    """The bytes of one page, and its place."""

    sink: int
    partition: int
    entry: Entry
    body: Body
    stage: int = 0
    """Number of the stage that it is written for; its entry's offset means nothing then."""
