from __future__ import annotations

from dataclasses import replace

import pytest

from forebay.broker.core.partition.account import Totals
from forebay.broker.core.partition.cursor import Cursor
from forebay.broker.core.partition.log import Head, Tail
from forebay.broker.core.partition.pages import DropReason, Gap
from forebay.broker.core.partition.position import EARLIEST
from forebay.broker.core.partition.retention import Mark
from forebay.broker.core.publish.writer import Slot
from forebay.broker.core.settings import DEFAULTS
from forebay.broker.core.writes import (
    DropEntry,
    DropGap,
    DropSink,
    DropSubscription,
    DropWriter,
    Due,
    PutAge,
    PutCursor,
    PutDue,
    PutEntry,
    PutGap,
    PutHead,
    PutMarks,
    PutSchema,
    PutSink,
    PutSlot,
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
from forebay.broker.storage.journal import Journal
from forebay.broker.storage.records.pages.due import DUE
from forebay.broker.storage.records.pages.entry import ENTRY
from forebay.broker.storage.records.pages.page import BULK_PAGE, SMALL_PAGE
from forebay.broker.storage.records.partitions.gap import GAP
from forebay.broker.storage.records.sinks.writer import WRITER
from forebay.broker.storage.recovery import recover
from forebay.broker.storage.store.contract import Family
from forebay.broker.storage.store.memory import MemoryStore
from tests.support.pages.samples import entry
from tests.support.pages.stored_pages import bulk, page, put, stored


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def journal(store: MemoryStore) -> Journal:
    return recover(store).journal


# -- writers


def test_the_window_of_a_writer_is_that_of_its_epoch(journal: Journal) -> None:
    old, new = Slot(1, 11, 0, 1), Slot(5, 55, 4, 2)
    journal.commit([], [PutWriter(1, "w", 7), PutSlot(1, "w", 7, 0, old), PutSlot(1, "ww", 9, 0, old)])
    journal.commit([], [PutSlot(1, "w", 8, 0, new), PutSlot(1, "w", 8, 3, new)])

    assert journal.slots(1, "w", 7) == {0: [old]}
    assert journal.slots(1, "w", 8) == {0: [new], 3: [new]}
    assert journal.slots(1, "w", 9) == {}


def test_a_new_epoch_and_a_good_bye_empty_the_window_of_that_writer_only(journal: Journal, store: MemoryStore) -> None:
    slot = Slot(1, 11, 0, 1)
    journal.commit([], [PutSlot(1, name, 7, 0, slot) for name in ("w", "w2")])

    journal.commit([], [PutWriter(1, "w", 8)])
    emptied = journal.slots(1, "w", 7)
    journal.commit([], [DropWriter(1, "w")])

    assert emptied == {}
    assert journal.slots(1, "w2", 7) == {0: [slot]}
    assert store.get_many(Family.META, [WRITER.key(1, "w")]) == [None]


# -- what goes


def test_reclaiming_deletes_exactly_what_is_due_and_the_ledger_forgets_it_last(
    journal: Journal, store: MemoryStore
) -> None:
    put(journal, [bulk(number) for number in range(1, 6)] + [entry(number) for number in range(11, 16)])
    due = [Due(1, 0, True, 2, 4, 30), Due(1, 0, False, 12, 14, 30)]
    journal.commit([], [PutDue(each) for each in due])

    journal.commit([], [Reclaim(each) for each in due])
    while_it_goes_on = len(list(journal.scan_all(Family.META, *DUE.under())))
    for each in due:
        journal.compact([each])
    journal.commit([], [Reclaimed(each) for each in due])

    assert [BULK_PAGE.parts(key)[0] for key in stored(store, Family.BULK)] == [1, 5]
    assert [SMALL_PAGE.parts(key)[2] for key in stored(store, Family.SMALL)] == [11, 15]
    assert while_it_goes_on == 2
    assert list(journal.scan_all(Family.META, *DUE.under())) == []


EVERYTHING: list[Write] = [
    PutSink(SinkRecord(1, "orders", "abc", DEFAULTS, 7)),
    PutTail(1, 0, Tail(5)),
    PutHead(1, 0, Head(2)),
    PutCursor(1, "default", 0, Cursor()),
    PutSubscription(1, SubscriptionRecord("audit", 7, EARLIEST)),
    PutTotals(1, "audit", 0, Totals(1)),
    PutMarks(1, 0, (Mark(1, 2),)),
    PutSchema(1, SchemaRecord(1, 7, b"arrow", "{}")),
    PutWriter(1, "w", 7),
    PutSlot(1, "w", 7, 0, Slot(1, 2, 3, 4)),
    PutGap(1, 0, Gap(0, 2, DropReason.OVERFLOW, 0, 1, 1)),
    PutDue(Due(1, 0, True, 1, 2, 3)),
    PutEntry(1, 0, entry(2)),
]


def test_a_sink_goes_with_all_its_state_and_leaves_its_pages_to_the_ledger(
    journal: Journal, store: MemoryStore
) -> None:
    journal.commit([page(bulk(9)), page(entry(2))], EVERYTHING)
    journal.commit([], [PutSink(SinkRecord(2, "other", "def", DEFAULTS, 7)), PutEntry(2, 0, entry(3))])

    journal.commit([], [DropSink(1)])

    found = recover(store.reopen())
    assert [each.record.name for each in found.sinks] == ["other"]
    assert [(due.sink, due.bulk) for due in found.due] == [(1, False), (1, True)]
    assert [ENTRY.parts(key)[0] for key in stored(found.journal.store, Family.INDEX)] == [0, 2]  # type: ignore[arg-type]


def test_a_subscription_goes_with_its_cursors_and_totals_and_leaves_the_others(
    journal: Journal, store: MemoryStore
) -> None:
    journal.commit([], [PutSink(SinkRecord(1, "orders", "abc", DEFAULTS, 7))])
    for name in ("a", "ab"):
        journal.commit([], [PutSubscription(1, SubscriptionRecord(name, 7, EARLIEST))])
        journal.commit([], [PutCursor(1, name, partition, Cursor(watermark=partition)) for partition in (0, 1)])
        journal.commit([], [PutTotals(1, name, partition, Totals(partition)) for partition in (0, 1)])

    journal.commit([], [DropSubscription(1, "a", 2)])

    [found] = recover(store.reopen()).sinks
    assert list(found.subscriptions) == ["ab"]
    assert found.cursors == {("ab", 0): Cursor(), ("ab", 1): Cursor(watermark=1)}
    assert found.totals == {("ab", 0): Totals(), ("ab", 1): Totals(1)}


def test_marks_are_kept_until_there_are_none(journal: Journal, store: MemoryStore) -> None:
    marks = (Mark(5, 6), Mark(7, 8))
    journal.commit([], [PutSink(SinkRecord(1, "orders", "abc", DEFAULTS, 7)), PutMarks(1, 3, marks)])
    kept = recover(store.reopen())

    kept.journal.commit([], [PutMarks(1, 3, ())])

    assert kept.sinks[0].marks == {3: marks}
    assert recover(kept.journal.store.reopen()).sinks[0].marks == {}  # type: ignore[attr-defined]


def test_versions_of_a_schema_are_kept(journal: Journal, store: MemoryStore) -> None:
    first, second = SchemaRecord(1, 7, b"one", ""), SchemaRecord(2, 8, b"two", '{"type": "struct"}')
    journal.commit([], [PutSink(SinkRecord(1, "orders", "abc", DEFAULTS, 7)), PutSchema(1, first)])
    journal.commit([], [PutSchema(1, second)])

    assert recover(store.reopen()).sinks[0].schemas == {1: first, 2: second}


def test_entries_and_gaps_are_taken_away_one_by_one(journal: Journal) -> None:
    put(journal, [entry(1), entry(2)])
    journal.commit([], [PutGap(1, 0, Gap(first, first + 1, DropReason.OVERFLOW, 0, 1, 1)) for first in (5, 6)])

    own = Gap(5, 6, DropReason.REJECTED_BY_TARGET, 0, 0, 0, subscription="audit")
    journal.commit([], [PutGap(1, 0, own), PutGap(1, 0, replace(own, first=6, end=7))])

    journal.commit([], [DropEntry(1, 0, 1), DropGap(1, 0, 6), DropGap(1, 0, 5, "audit")])

    assert [each.base for each in journal.entries(1, 0, 0, 9, 9)] == [2]
    assert [key for key, _ in journal.scan_all(Family.META, *GAP.under())] == [
        GAP.key(1, 0, 5),
        GAP.key(1, 0, 6, "audit"),
    ]


def test_the_time_is_kept(journal: Journal, store: MemoryStore) -> None:
    journal.commit([], [PutAge(11, 22, b"boot", 33)])

    assert recover(store.reopen()).age == PutAge(11, 22, b"boot", 33)
