from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace

import pytest

from holdfast.broker.core.cursor import Cursor
from holdfast.broker.core.errors import StoreFenced
from holdfast.broker.core.log import Head, Tail
from holdfast.broker.core.pages import Body, DropReason, Entry, Gap
from holdfast.broker.core.settings import DEFAULTS
from holdfast.broker.core.writer import Slot
from holdfast.broker.core.writes import (
    DropEntry,
    DropGap,
    DropSink,
    DropWriter,
    Due,
    PageWrite,
    PutAge,
    PutCursor,
    PutDue,
    PutEntry,
    PutGap,
    PutHead,
    PutSink,
    PutSlot,
    PutTail,
    PutWriter,
    Reclaim,
    Reclaimed,
    SinkRecord,
    Write,
)
from holdfast.broker.storage import codec, keys
from holdfast.broker.storage.contract import Family, Put
from holdfast.broker.storage.journal import SLICE, Journal
from holdfast.broker.storage.memory import Action, MemoryStore
from holdfast.broker.storage.recovery import recover
from tests.unit.broker.samples import entry


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def journal(store: MemoryStore) -> Journal:
    return recover(store).journal


def page(at: Entry, *, sink: int = 1, partition: int = 0) -> PageWrite:
    data = b"body of %d" % at.number
    return PageWrite(sink, partition, at, Body(zlib.crc32(data), data))


def bulk(base: int, count: int = 1) -> Entry:
    return replace(entry(base, count), bulk=True)


def put(journal: Journal, entries: Sequence[Entry], *, sink: int = 1, partition: int = 0) -> None:
    """Store pages and the entries that name them."""
    pages = [page(each, sink=sink, partition=partition) for each in entries]
    journal.commit(pages, [PutEntry(sink, partition, each) for each in entries])


def stored(store: MemoryStore, family: Family) -> list[bytes]:
    return [key for key, _ in store.scan(family, b"", b"\xff", 1_000)]


# -- pages


def test_pages_come_back_from_both_families_in_the_order_asked_for(journal: Journal, store: MemoryStore) -> None:
    entries = [entry(1), bulk(2), entry(3), bulk(4)]
    put(journal, entries)

    found = journal.read_pages(1, 0, [entries[3], entries[0], entries[2], entries[1]])

    assert [body.data for body in found if body is not None] == [b"body of %d" % number for number in (4, 1, 3, 2)]
    assert (len(stored(store, Family.SMALL)), len(stored(store, Family.BULK))) == (2, 2)


def test_the_highest_page_number_is_noted_in_the_batch_that_names_it(journal: Journal, store: MemoryStore) -> None:
    put(journal, [bulk(70), entry(7)])

    [value] = store.get_many(Family.META, [keys.HIGHEST])
    assert value is not None
    assert codec.decode_number(value) == 70


def test_a_missing_and_a_damaged_page_are_none_and_the_others_come(journal: Journal, store: MemoryStore) -> None:
    put(journal, [entry(1), bulk(2), entry(3)])
    store.damage(Family.SMALL, keys.place(1, 0, 1))
    store.damage(Family.BULK, keys.place(1, 0, 2))

    found = journal.read_pages(1, 0, [entry(1), bulk(2), entry(3), entry(4)])

    assert [body is not None for body in found] == [False, False, True, False]


def test_a_page_that_is_not_what_the_entry_says_is_damaged(journal: Journal) -> None:
    put(journal, [entry(1, 5)])

    assert journal.read_pages(1, 0, [replace(entry(1, 5), count=6)]) == [None]
    assert journal.read_pages(1, 0, [replace(entry(1, 5), base=2)]) == [None]


def test_pages_of_another_store_are_not_taken_for_our_own(journal: Journal, store: MemoryStore) -> None:
    put(journal, [entry(1)])

    assert Journal(store, b"x" * 16).read_pages(1, 0, [entry(1)]) == [None]


# -- all or nothing


@pytest.mark.parametrize("action", ["ingest", "write", "sync"])
def test_a_failure_fences_and_leaves_no_name_without_a_page(
    journal: Journal, store: MemoryStore, action: Action
) -> None:
    store.fail_next(action)

    with pytest.raises(StoreFenced):
        put(journal, [bulk(1), entry(2)])

    found = recover(store.crash())
    assert found.journal.entries(1, 0, 0, 10, 10) == []


def test_what_a_commit_wrote_survives_a_power_loss(journal: Journal, store: MemoryStore) -> None:
    put(journal, [bulk(1), entry(2)])

    after = recover(store.crash()).journal
    assert [each.base for each in after.entries(1, 0, 0, 10, 10)] == [1, 2]
    assert None not in after.read_pages(1, 0, [bulk(1), entry(2)])


# -- entries


def test_entries_are_found_by_offset(journal: Journal) -> None:
    put(journal, [entry(base, 10, number=base + 1) for base in range(0, 100, 10)])
    put(journal, [entry(5, number=500)], partition=1)
    put(journal, [entry(5, number=501)], sink=2)

    assert [each.base for each in journal.entries(1, 0, 0, 100, 3)] == [0, 10, 20]
    assert [each.base for each in journal.entries(1, 0, 15, 40, 100)] == [20, 30]
    assert journal.entries(1, 0, 91, 100, 5) == []
    before = journal.entry_before(1, 0, 0, 55)
    assert before is not None
    assert before.base == 50
    assert journal.entry_before(1, 0, 91, 100) is None


def test_a_damaged_entry_is_left_out_and_told(
    journal: Journal, store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    put(journal, [entry(1), entry(2)])
    [(key, value)] = store.scan(Family.INDEX, keys.place(1, 0, 1), keys.place(1, 0, 2), 1)
    store.write([Put(Family.INDEX, key, value[:-1] + bytes([value[-1] ^ 1]))])

    assert [each.base for each in journal.entries(1, 0, 0, 10, 10)] == [2]
    assert "offset=1" in caplog.text


def test_a_block_that_cannot_be_read_is_not_taken_for_an_empty_one(journal: Journal, store: MemoryStore) -> None:
    put(journal, [entry(1)])
    store.damage(Family.INDEX, keys.place(1, 0, 1))

    with pytest.raises(StoreFenced):
        journal.entries(1, 0, 0, 10, 10)


def test_a_long_range_is_walked_slice_by_slice(journal: Journal) -> None:
    count = 2 * SLICE + 5
    journal.commit([], [PutGap(1, 0, Gap(base, base + 1, DropReason.OVERFLOW, 0, 1, 1)) for base in range(count)])

    found = list(journal.scan_all(Family.META, *keys.of_kind(keys.GAP)))

    assert [keys.place_of(key[1:])[2] for key, _ in found] == list(range(count))


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
    assert store.get_many(Family.META, [keys.writer(1, "w")]) == [None]


# -- what goes


def test_reclaiming_deletes_exactly_what_is_due_and_the_ledger_forgets_it_last(
    journal: Journal, store: MemoryStore
) -> None:
    put(journal, [bulk(number) for number in range(1, 6)] + [entry(number) for number in range(11, 16)])
    due = [Due(1, 0, True, 2, 4, 30), Due(1, 0, False, 12, 14, 30)]
    journal.commit([], [PutDue(each) for each in due])

    journal.commit([], [Reclaim(each) for each in due])
    while_it_goes_on = len(list(journal.scan_all(Family.META, *keys.of_kind(keys.DUE))))
    for each in due:
        journal.compact(each)
    journal.commit([], [Reclaimed(each) for each in due])

    assert [keys.place_of(key)[2] for key in stored(store, Family.BULK)] == [1, 5]
    assert [keys.place_of(key)[2] for key in stored(store, Family.SMALL)] == [11, 15]
    assert while_it_goes_on == 2
    assert list(journal.scan_all(Family.META, *keys.of_kind(keys.DUE))) == []


EVERYTHING: list[Write] = [
    PutSink(SinkRecord(1, "orders", "abc", DEFAULTS, 7)),
    PutTail(1, 0, Tail(5)),
    PutHead(1, 0, Head(2)),
    PutCursor(1, "default", 0, Cursor()),
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
    assert [keys.place_of(key)[0] for key in stored(found.journal.store, Family.INDEX)] == [2]  # type: ignore[arg-type]


def test_entries_and_gaps_are_taken_away_one_by_one(journal: Journal) -> None:
    put(journal, [entry(1), entry(2)])
    journal.commit([], [PutGap(1, 0, Gap(first, first + 1, DropReason.OVERFLOW, 0, 1, 1)) for first in (5, 6)])

    journal.commit([], [DropEntry(1, 0, 1), DropGap(1, 0, 6)])

    assert [each.base for each in journal.entries(1, 0, 0, 9, 9)] == [2]
    assert [key for key, _ in journal.scan_all(Family.META, *keys.of_kind(keys.GAP))] == [keys.gap(1, 0, 5)]


def test_the_time_is_kept(journal: Journal, store: MemoryStore) -> None:
    journal.commit([], [PutAge(11, 22)])

    assert recover(store.reopen()).age_us == (11, 22)
