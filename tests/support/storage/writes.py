"""Samples of everything that the core writes, for tests that go through all kinds of stored values."""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import Final

from forebay.broker.core.backups.values import Restored
from forebay.broker.core.epochs.values import EpochPart, EpochRecord, ProducerRecord, StagedPage, StageRecord
from forebay.broker.core.partition.account import Totals
from forebay.broker.core.partition.cursor import Cursor
from forebay.broker.core.partition.log import Head, Tail
from forebay.broker.core.partition.pages import Body, DropReason, Entry, Gap, PagePart
from forebay.broker.core.partition.position import EARLIEST, At, Position
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.partition.reservation import Held, Reserve
from forebay.broker.core.partition.retention import Mark
from forebay.broker.core.publish.writer import Slot
from forebay.broker.core.settings import DEFAULTS
from forebay.broker.core.writes import (
    WHOLE_SINK,
    DropEntriesFrom,
    DropEntry,
    DropEpoch,
    DropEpochStages,
    DropGap,
    DropLargeCommit,
    DropPosition,
    DropProducer,
    DropQuarantine,
    DropReserve,
    DropSink,
    DropStages,
    DropSubscription,
    DropWriter,
    Due,
    PageWrite,
    PutAge,
    PutCounting,
    PutCursor,
    PutDue,
    PutEntry,
    PutEpoch,
    PutEpochStages,
    PutGap,
    PutHead,
    PutHeld,
    PutLargeCommit,
    PutMarks,
    PutPlaced,
    PutPosition,
    PutProducer,
    PutQuarantine,
    PutRealtime,
    PutReserve,
    PutRestored,
    PutSchema,
    PutSink,
    PutSlot,
    PutStage,
    PutStaged,
    PutStopped,
    PutSubscription,
    PutTail,
    PutTotals,
    PutWriter,
    Reclaim,
    Reclaimed,
    SchemaRecord,
    SinkRecord,
    SubscriptionRecord,
    Write,
)

ENTRY: Final = Entry(0, 1, 1, False, 8, 1, 1, 1, 0, 0, ())
EPOCH: Final = EpochRecord("p", "w", 3, "run", 1, 1, "digest", (EpochPart(0, 0, 1, 1, 8, 1, 1),))
PUTS: Final[tuple[Write, ...]] = (
    PutSink(SinkRecord(1, "orders", "abc", replace(DEFAULTS, fsync=False), 7), fresh=True),
    PutTail(1, 0, Tail(0)),
    PutHead(1, 0, Head()),
    PutCounting(1),
    PutStopped(1),
    PutRestored(Restored("0" * 32, "a backup", 1, 2)),
    PutRealtime(True),
    PutReserve(1, 0, Reserve(500)),
    PutHeld(1, 0, (Held(0, 1, 8, 1),)),
    PutCursor(1, "default", 0, Cursor()),
    PutSubscription(1, SubscriptionRecord("audit", 7, EARLIEST)),
    PutTotals(1, "default", 0, Totals()),
    PutSchema(1, SchemaRecord(1, 7, b"schema", "{}")),
    PutMarks(1, 0, (Mark(1, 2),)),
    PutLargeCommit(1, (("p", 3),)),
    PutWriter(1, "w", 77),
    PutSlot(1, "w", 77, 0, Slot(3, 9, 40, 10)),
    PutEntry(1, 0, ENTRY),
    PutPlaced(1, 0, Tail(1), 1, 1, (StagedPage(1, False, 1, 1, 8, 9),)),
    PutGap(1, 0, Gap(0, 1, DropReason.OVERFLOW, 1, 8, 1)),
    PutDue(Due(1, 0, True, 1, 2, 3)),
    PutQuarantine(1, 0, ENTRY),
    PutAge(104, 1_004),
    PutPosition("default/billing/orders/0", b"{}"),
    PutStage(1, StageRecord(1, "p", "w", 3, "token", "run", 1)),
    PutStaged(1, 1, 0, 0, StagedPage(1, False, 1, 1, 8, 9)),
    PutProducer(1, ProducerRecord("p", "w")),
    PutEpoch(1, EPOCH),
    PutEpochStages(1, "p", 3, 0, [1, 1, 1]),
)
"""One of everything that sets a value, in a store that is whole."""

_BIG: Final = 1 << 56
_TRACE: Final = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
_PARTS: Final = (PagePart(70, 71, _TRACE), *(PagePart(70 + at, 80 + at, "t") for at in range(1, 18)))
FULL: Final[tuple[Write, ...]] = (
    PutSink(SinkRecord(5, "orders-ü", "cafe", replace(DEFAULTS, partitions=3), 7, "by hand", "request"), fresh=True),
    PutSink(SinkRecord(6, "b", "", DEFAULTS, -7)),
    PutTail(5, 1, Tail(1, 2, 3, -4, _BIG)),
    PutHead(5, 1, Head(1, 2, 3, 4, ((1, 5), (9, _BIG)))),
    PutCounting(6),
    PutStopped(7),
    PutRestored(Restored("1" * 32, "a bäckup", 3, 4)),
    PutRealtime(True),
    PutRealtime(False),
    PutRealtime(None),
    PutPosition("default/billing/orders/7", b'{"offset": 7}'),
    DropPosition("default/billing/orders/7"),
    PutReserve(5, 1, Reserve(500)),
    PutReserve(5, 2, Reserve(500, 17)),
    PutHeld(5, 1, (Held(1, 2, 8, 1), Held(5, 9, 80, 2))),
    PutHeld(5, 2, ()),
    PutCursor(5, "dé", 1, Cursor(1, 2, (Range(3, 4), Range(6, 8)), 5, 6, 7, 8, ((9, 2), (11, 3)), 12, 13)),
    PutSubscription(5, SubscriptionRecord("audit", 7, Position(At.OFFSETS, 4, ((0, 1), (2, 3))), "beef", "r")),
    PutTotals(5, "audit", 1, Totals(1, 2, 3, 4, 5)),
    PutSchema(5, SchemaRecord(2, -7, b"arrow", '{"ü": 1}')),
    PutMarks(5, 1, (Mark(1, 2), Mark(3, -4))),
    PutMarks(5, 2, ()),
    PutLargeCommit(5, (("p", 3), ("q", 4))),
    PutWriter(5, "wü", 77),
    PutSlot(5, "wü", 77, 1, Slot(1_000, 9, 40, 10)),
    PutEntry(5, 1, Entry(70, 20, 71, True, 72, 2, 73, -74, 75, 76, _PARTS)),
    PutPlaced(
        5,
        1,
        Tail(90, 91, 92, 93, 94),
        95,
        96,
        (StagedPage(97, True, 2, 3, 98, 99), StagedPage(100, False, 1, 4, 101, 102, _TRACE)),
    ),
    PutGap(5, 1, Gap(1, 2, DropReason.OVERFLOW, 3, 4, 5)),
    PutGap(5, 1, Gap(1, 9, DropReason.PURGED, 3, 4, 5, since_us=2, merged=((1, 3), (4, 2)))),
    PutGap(5, 1, Gap(1, 2, DropReason.REJECTED_BY_TARGET, 3, 0, 0, subscription="audit", detail="no ü column")),
    PutGap(5, 1, Gap(3, 4, DropReason.LOST_IN_CRASH, 3, 0, 0, at_most=True)),
    PutDue(Due(5, 1, True, 1, 2, 3)),
    PutDue(Due(5, WHOLE_SINK, False, 0, 0, 0)),
    PutQuarantine(5, 1, Entry(70, 20, 71, True, 72, 2, 73, 74, 75, 76, (PagePart(70, 71, _TRACE),))),
    PutAge(1, 2, b"a boot", 3),
    PutStage(5, StageRecord(_BIG, "pü", "w", 3, "token", "run", 1)),
    PutStaged(5, _BIG, 1, 2, StagedPage(1, True, 2, 3, 8, 9, _TRACE)),
    PutProducer(5, ProducerRecord("pü", "w", "r", 1, 2, "c", 3, "t", 4, "d", "u", "o")),
    PutEpoch(
        5,
        EpochRecord(
            "pü", "w", 3, "run", 1, 1, "digest", (EpochPart(0, 1, 2, 3, 4, 5, 6), EpochPart(1, 7, 8, 9, 1, 2, 3))
        ),
    ),
    PutEpochStages(5, "pü", 3, 1, [1, 2, 3, 4, 5, 6]),
    DropSink(5),
    DropReserve(5, 1),
    DropSubscription(5, "audit", 2),
    DropWriter(5, "wü"),
    DropEntry(5, 1, 70),
    DropEntriesFrom(5, 1, 70),
    DropLargeCommit(5),
    DropGap(5, 1, 1),
    DropGap(5, 1, 1, "audit"),
    DropStages(5, 3, 3),
    DropStages(5, 3, 4),
    DropProducer(5, "pü"),
    DropEpochStages(5, "pü", 3),
    DropEpoch(5, "pü", 3, (0, 2)),
    Reclaim(Due(5, 1, True, 1, 2, 3)),
    Reclaim(Due(5, 1, False, 1, 2, 3)),
    Reclaim(Due(5, WHOLE_SINK, False, 0, 0, 0)),
    Reclaimed(Due(5, 1, True, 1, 2, 3)),
    DropQuarantine(5, 1, 71),
)
"""At least one of every write, with values in all fields."""

_BODY: Final = Body(zlib.crc32(b"body"), b"body")
PAGES: Final = tuple(
    PageWrite(5, 1, replace(ENTRY, base=70, count=2, number=number, bulk=bulk, encoding=2), _BODY, stage)
    for number, bulk, stage in ((81, False, 0), (82, True, 0), (83, False, _BIG), (84, True, _BIG))
)
"""Pages in both families, appended and staged."""
