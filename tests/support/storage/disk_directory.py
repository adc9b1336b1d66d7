"""A data directory of which everything is known, and what a broker makes of it."""

from __future__ import annotations

import asyncio
import zlib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from forebay.broker.core.epochs.values import EpochRecord, ProducerRecord
from forebay.broker.core.partition.account import Totals
from forebay.broker.core.partition.cursor import Cursor
from forebay.broker.core.partition.log import Head, Tail
from forebay.broker.core.partition.pages import Body, DropReason, Entry, Gap, Incoming, PagePart
from forebay.broker.core.partition.position import EARLIEST
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.partition.reservation import Reserve
from forebay.broker.core.publish.writer import Slot
from forebay.broker.core.settings import DEFAULTS
from forebay.broker.core.writes import (
    DropEntry,
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
    PutProducer,
    PutQuarantine,
    PutRealtime,
    PutReserve,
    PutSchema,
    PutSink,
    PutSlot,
    PutStopped,
    PutSubscription,
    PutTail,
    PutTotals,
    PutWriter,
    SchemaRecord,
    SinkRecord,
    SubscriptionRecord,
    Write,
)
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.runtime.delivery.events import Delivered, GapMet
from forebay.broker.runtime.delivery.subscription import Subscription
from forebay.broker.storage.recovery import recover
from forebay.broker.storage.store.contract import Store
from forebay.broker.storage.store.rocks.store import RocksStore
from forebay.broker.storage.store.settings import RocksSettings
from tests.support.brokers.running import Hand, begin

NAMES: Final = ("first", "second", "third")
PAGES: Final = 30
RECORDS: Final = 10
TRIMMED: Final = 5
SETTLED: Final = 10
DROPPED: Final = 15
END: Final = PAGES * RECORDS
GAP: Final = Range(DROPPED * RECORDS, (DROPPED + 1) * RECORDS)
SMALL_STORE: Final = RocksSettings(block_cache_bytes=1 << 20)


@cache
def body_of(sink: int, page: int) -> bytes:
    """Published contents of a page."""
    return b"".join(b"%d/%d/%d " % (sink, page, line * 7919) for line in range(40))


def fill(store: Store) -> None:
    """Three sinks of thirty pages, small ones and bulk; the first five trimmed, one dropped, ten settled."""
    recovered = recover(store)
    journal = recovered.journal
    journal.commit([], [PutCounting(recovered.start_count), PutRealtime(True)])
    for sink, name in enumerate(NAMES, start=1):
        journal.commit([], _made(sink, name))
    for page in range(PAGES):
        pages: list[PageWrite] = []
        for sink in range(1, len(NAMES) + 1):
            data = body_of(sink, page)
            size, number = len(data), (1 << 40) + page * 10 + sink
            before = sum(len(body_of(sink, earlier)) for earlier in range(page))
            base, at = page * RECORDS, 1_000_000 + page
            entry = Entry(base, RECORDS, number, page % 2 == 1, size, 1, at, page, before, page, (PagePart(base, at),))
            pages.append(PageWrite(sink, 0, entry, Body(zlib.crc32(data), data)))
        tails = [PutTail(one.sink, 0, _tail_after(one.entry)) for one in pages]
        journal.commit(pages, [*(PutEntry(one.sink, 0, one.entry) for one in pages), *tails])
    for sink in range(1, len(NAMES) + 1):
        gone = [DropEntry(sink, 0, page * RECORDS) for page in (*range(TRIMMED), DROPPED)]
        journal.commit([], [*_moved(sink), *gone])


def _tail_after(entry: Entry) -> Tail:
    size = entry.bytes_before + entry.size
    return Tail(entry.end, size, entry.pages_before + 1, entry.accepted_at_us, entry.age_us)


def _made(sink: int, name: str) -> list[Write]:
    return [
        PutSink(SinkRecord(sink, name, "abc", DEFAULTS, 7), fresh=True),
        PutSubscription(sink, SubscriptionRecord("second", 7, EARLIEST)),
        PutCursor(sink, "second", 0, Cursor()),
        PutSchema(sink, SchemaRecord(1, 7, b"schema of %d" % sink, "{}")),
    ]


def _due(sink: int, page: int, size: int) -> Due:
    number = (1 << 40) + page * 10 + sink
    return Due(sink, 0, bulk=page % 2 == 1, first=number, last=number, size=size)


def _moved(sink: int) -> list[Write]:
    sizes = [len(body_of(sink, page)) for page in range(PAGES)]
    gone = [*range(TRIMMED), DROPPED]
    head = Head(
        TRIMMED * RECORDS,
        len(gone) * RECORDS,
        sum(sizes[page] for page in gone),
        len(gone),
        ((int(DropReason.OVERFLOW), RECORDS),),
    )
    last = 1_000_000 + PAGES - 1
    settled = SETTLED * RECORDS
    cursor = Cursor(watermark=settled, beyond=(GAP,), acked=settled, dropped=RECORDS, notified=settled, sent=settled)
    early = Cursor(
        watermark=TRIMMED * RECORDS, beyond=(GAP,), acked=TRIMMED * RECORDS, dropped=RECORDS, notified=TRIMMED * RECORDS
    )
    return [
        PutHead(sink, 0, head),
        PutGap(sink, 0, Gap(GAP.first, GAP.end, DropReason.OVERFLOW, last, sizes[DROPPED], 1)),
        PutCursor(sink, "default", 0, cursor),
        PutCursor(sink, "second", 0, early),
        PutWriter(sink, "writer", 77),
        PutSlot(sink, "writer", 77, 0, Slot(3, 9, END - RECORDS, RECORDS)),
        *(PutDue(_due(sink, page, sizes[page])) for page in gone),
        PutReserve(sink, 0, Reserve(END)),
        PutTotals(sink, "default", 0, Totals()),
        PutProducer(sink, ProducerRecord("query", "query", run="run", ticket=1, epoch=3, committed_by="run")),
        PutEpoch(sink, EpochRecord("query", "query", 3, "run", last, 1, "digest", ())),
        PutEpochStages(sink, "query", 3, 0, [5, RECORDS, 1]),
        PutQuarantine(sink, 0, Entry(0, RECORDS, 7, False, 100, 1, last, PAGES, 0, 0, ())),
        PutAge(PAGES, last),
        PutStopped(1),
    ]


@dataclass(slots=True)
class Verdict:
    """Outcome for a directory."""

    wrong: list[str] = field(default_factory=list)
    """Violations: other bytes, records missing without a gap, repeated offsets, accounts that do not balance."""

    lost: dict[str, int] = field(default_factory=dict)
    """Records of each sink that are gaps now."""

    again: int = 0
    """Records delivered again that had been settled."""

    repairs: int = 0
    """Reports of the start."""

    def gone(self, what: str) -> None:
        """Record that something is missing, which has to be reported at the start."""
        if self.repairs:
            self.lost[what] = 1
        else:
            self.wrong.append(what)


async def judge(store: Store) -> Verdict:
    """Start a broker, read all sinks to their ends as both subscriptions, append, and compare with what was stored."""
    verdict = Verdict()
    found = recover(store)
    verdict.repairs = len(found.repairs)
    broker = begin(store, FakeClock())
    try:
        for sink, name in enumerate(NAMES, start=1):
            buffer = next((each for each in broker.sinks.values() if each.record.id == sink), None)
            if buffer is None:
                verdict.gone(f"{name}: the sink is gone")
                continue
            for subscription, first in (("default", SETTLED * RECORDS), ("second", TRIMMED * RECORDS)):
                if subscription not in buffer.subscriptions:
                    verdict.gone(f"{name}: subscription {subscription} is gone")
                    continue
                await _read(verdict, buffer.subscriptions[subscription], sink, name, first)
            page = b"new page"
            append = await buffer.append(Incoming(0, 1, 1, zlib.crc32(page), page))
            await append.done
            if append.first < END:
                verdict.wrong.append(f"{name}: offset {append.first} was handed out again")
    finally:
        await broker.close()
    return verdict


async def _read(verdict: Verdict, subscription: object, sink: int, name: str, first: int) -> None:

    assert isinstance(subscription, Subscription)
    hand = Hand(subscription)
    seen: dict[int, str] = {}
    idle = 0
    while idle < 3:
        event = await hand.take(0)
        idle = idle + 1 if event is None else 0
        if isinstance(event, GapMet):
            # A damaged reservation makes a gap of millions of offsets that were assigned to no record.
            seen.update(dict.fromkeys(range(event.gap.first, min(event.gap.end, END)), "gap"))
        elif isinstance(event, Delivered):
            for entry, body in event.pages:
                right = entry.base >= END or bytes(body.data) == body_of(sink, entry.base // RECORDS)
                if not right:
                    verdict.wrong.append(f"{name}: other bytes at {entry.base}")
            for part in event.ranges:
                seen.update(dict.fromkeys(range(part.first, part.end), "record"))
    missing = [offset for offset in range(first, END) if offset not in seen]
    if missing:
        verdict.wrong.append(f"{name}/{subscription.name}: {len(missing)} from {missing[0]} on, no record and no gap")
    lost = sum(1 for offset in range(first, END) if seen.get(offset) == "gap" and not GAP.first <= offset < GAP.end)
    verdict.lost[name] = max(verdict.lost.get(name, 0), lost)
    verdict.again += sum(1 for offset, what in seen.items() if offset < first and what == "record")
    lane, log = subscription.lanes[0], subscription.log(0)
    verdict.repairs += log.repairs
    records = sum(1 for what in seen.values() if what == "record")
    pending = lane.cursor.pending(log.tail.next_offset)
    if not lane.cursor.balances(log.next_offset) or pending != records:
        verdict.wrong.append(f"{name}/{subscription.name}: {pending} pending, {records} delivered")
    hand.subscription.leave(hand.consumer)


def judged(directory: Path) -> Verdict:
    """The verdict on a directory on disk. Raises ``StoreError`` where it is refused."""

    async def run() -> Verdict:
        return await judge(RocksStore(directory, settings=SMALL_STORE))

    return asyncio.run(run())
