from __future__ import annotations

import zlib
from dataclasses import replace

import pytest

from forebay.broker.core.partition.cursor import Cursor
from forebay.broker.core.partition.log import Head, Tail
from forebay.broker.core.partition.pages import Body, DropReason, Gap
from forebay.broker.core.settings import DEFAULTS
from forebay.broker.core.writes import (
    Due,
    PageWrite,
    PutAge,
    PutCounting,
    PutCursor,
    PutDue,
    PutEntry,
    PutGap,
    PutHead,
    PutSink,
    PutTail,
    PutWriter,
    SinkRecord,
)
from forebay.broker.storage.errors import StoreFailed
from forebay.broker.storage.journal import Journal
from forebay.broker.storage.records.pages.entry import ENTRY
from forebay.broker.storage.records.pages.page import BULK_PAGE
from forebay.broker.storage.records.store import REALTIME
from forebay.broker.storage.recovery import recover
from forebay.broker.storage.store.contract import Family, Put
from forebay.broker.storage.store.memory import MemoryStore
from tests.support.pages.samples import entry

RECORD = SinkRecord(1, "orders", "abc", DEFAULTS, 7)


def page(number: int, *, sink: int = 1, partition: int = 0) -> PageWrite:
    data = b"body"
    return PageWrite(sink, partition, replace(entry(number), bulk=True), Body(zlib.crc32(data), data))


def test_a_new_store_is_empty_and_gets_an_id() -> None:
    store = MemoryStore()

    found = recover(store)

    assert len(found.journal.store_id) == 16
    assert (found.start_count, found.next_sink, found.age, found.sinks, found.due) == (1, 1, PutAge(), (), ())


def test_the_id_stays_and_starts_are_counted_whatever_ended_them() -> None:
    store = MemoryStore()
    first = recover(store)
    killed = recover(store.reopen())
    lost_power = recover(killed.journal.store.crash())  # type: ignore[attr-defined]

    assert {first.journal.store_id, killed.journal.store_id, lost_power.journal.store_id} == {first.journal.store_id}
    assert [found.start_count for found in (first, killed, lost_power)] == [1, 2, 3]


def test_the_last_start_that_began_to_count_is_recovered_however_many_starts_were_killed_since() -> None:
    first = recover(MemoryStore())
    first.journal.commit([], [PutCounting(1)])
    store = first.journal.store

    found = [recover(store).counting, recover(store).counting]
    third = recover(store)
    third.journal.commit([], [PutCounting(third.start_count)])

    assert (first.counting, found, third.start_count, recover(store).counting) == (0, [1, 1], 4, 4)


def test_a_damaged_realtime_switch_is_deleted_and_reported() -> None:
    store = MemoryStore()
    recover(store)
    store.write([Put(Family.META, REALTIME.key(), b"damaged")])

    found, again = recover(store), recover(store)

    assert (found.realtime, [repair.what for repair in found.repairs]) == (None, [REALTIME.name])
    assert again.repairs == ()


def test_two_stores_have_two_ids() -> None:
    assert recover(MemoryStore()).journal.store_id != recover(MemoryStore()).journal.store_id


def test_all_state_of_all_sinks_is_found() -> None:
    store = MemoryStore()
    journal = recover(store).journal
    tail, head, cursor = Tail(9, 1, 2, 3, 4), Head(2, 2, 3, 1, ((1, 2),)), Cursor(watermark=2, dropped=2)
    gap = Gap(0, 2, DropReason.OVERFLOW, 5, 6, 1)
    own = Gap(5, 6, DropReason.REJECTED_BY_TARGET, 5, 0, 0, subscription="second", detail="no")
    journal.commit(
        [],
        [
            PutSink(replace(RECORD, id=300, name="later"), fresh=True),
            PutSink(RECORD, fresh=False),
            *(PutTail(1, number, tail) for number in (0, 3)),
            PutHead(1, 3, head),
            PutCursor(1, "default", 3, cursor),
            PutCursor(1, "second", 0, Cursor()),
            PutWriter(1, "w", 77),
            PutGap(1, 3, gap),
            PutGap(1, 3, replace(gap, first=5, end=6)),
            PutGap(1, 3, own),
            PutDue(Due(1, 0, True, 1, 2, 3)),
        ],
    )

    found = recover(store.reopen())

    orders, later = found.sinks
    assert (orders.record, later.record.name, found.next_sink) == (RECORD, "later", 301)
    assert orders.tails == {0: tail, 3: tail}
    assert orders.heads == {3: head}
    assert orders.cursors == {("default", 3): cursor, ("second", 0): Cursor()}
    assert orders.writers == {"w": 77}
    assert orders.gaps == {3: [gap, replace(gap, first=5, end=6), own]}
    assert found.due == (Due(1, 0, True, 1, 2, 3),)


def test_pages_that_a_crash_left_without_a_name_are_due() -> None:
    store = MemoryStore()
    journal = recover(store).journal
    journal.commit([page(10)], [PutEntry(1, 0, page(10).entry)])
    store.fail_next("write")
    with pytest.raises(Exception, match="fenced"):
        journal.commit([page(11), page(12), page(13, partition=4)], [])

    found = recover(store.crash())

    assert [(due.bulk, due.first, due.last) for due in found.due] == [(True, 11, 13)]
    again = recover(found.journal.store.reopen())  # type: ignore[attr-defined]
    assert again.due == found.due, "the ledger keeps them until they are reclaimed"


def test_pages_that_a_batch_has_named_are_not_taken_for_orphans() -> None:
    store = MemoryStore()
    journal = recover(store).journal
    journal.commit([page(10), page(11)], [PutEntry(1, 0, page(number).entry) for number in (10, 11)])

    assert recover(store.reopen()).due == ()


def test_a_start_is_above_every_page_that_is_in_a_file() -> None:
    store = MemoryStore()
    number = (5 << 40) + 3
    recover(store).journal.commit([page(number)], [PutEntry(1, 0, page(number).entry)])

    assert recover(store.reopen()).start_count == 6


def test_state_without_a_sink_is_left_alone_and_reported(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore()
    recover(store).journal.commit([], [PutTail(9, 0, Tail(5)), PutSink(RECORD)])

    found = recover(store.reopen())

    assert [sink.record.name for sink in found.sinks] == ["orders"]
    assert "sink=9" in caplog.text


def test_a_store_that_fails_at_the_start_says_so() -> None:
    store = MemoryStore()
    store.fail_next("sync")

    with pytest.raises(StoreFailed):
        recover(store)


def test_nothing_is_read_but_small_state() -> None:
    store = MemoryStore()
    journal: Journal = recover(store).journal
    journal.commit([page(10)], [PutSink(RECORD), PutEntry(1, 0, page(10).entry)])
    store = store.reopen()
    store.damage(Family.INDEX, ENTRY.key(1, 0, 10))
    store.damage(Family.BULK, BULK_PAGE.key(10, 1, 0))

    assert len(recover(store).sinks) == 1
