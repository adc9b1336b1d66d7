from __future__ import annotations

from dataclasses import replace

import pytest

from forebay.broker.core.errors import StoreFenced
from forebay.broker.core.partition.pages import DropReason, Gap
from forebay.broker.core.partition.repair import IndexDamaged
from forebay.broker.core.writes import (
    PutGap,
)
from forebay.broker.storage.journal import Journal
from forebay.broker.storage.records.pages.entry import ENTRY
from forebay.broker.storage.records.pages.page import BULK_PAGE, SMALL_PAGE
from forebay.broker.storage.records.partitions.gap import GAP
from forebay.broker.storage.records.store import HIGHEST
from forebay.broker.storage.recovery import recover
from forebay.broker.storage.scans import SLICE
from forebay.broker.storage.store.contract import Family, Put
from forebay.broker.storage.store.memory import Action, MemoryStore
from tests.support.pages.samples import entry
from tests.support.pages.stored_pages import bulk, put, stored


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def journal(store: MemoryStore) -> Journal:
    return recover(store).journal


# -- pages


def test_pages_are_read_from_both_families_in_the_requested_order(journal: Journal, store: MemoryStore) -> None:
    entries = [entry(1), bulk(2), entry(3), bulk(4)]
    put(journal, entries)

    found = journal.read_pages(1, 0, [entries[3], entries[0], entries[2], entries[1]])

    assert [body.data for body in found if body is not None] == [b"body of %d" % number for number in (4, 1, 3, 2)]
    assert (len(stored(store, Family.SMALL)), len(stored(store, Family.BULK))) == (2, 2)


def test_the_highest_page_number_is_noted_in_the_batch_that_names_it(journal: Journal, store: MemoryStore) -> None:
    put(journal, [bulk(70), entry(7)])

    [value] = store.get_many(Family.META, [HIGHEST.key()])
    assert value is not None
    assert HIGHEST.codec.decode(value)[0] == 70


def test_a_missing_and_a_damaged_page_are_none_and_the_others_come(journal: Journal, store: MemoryStore) -> None:
    put(journal, [entry(1), bulk(2), entry(3)])
    store.damage(Family.SMALL, SMALL_PAGE.key(1, 0, 1))
    store.damage(Family.BULK, BULK_PAGE.key(2, 1, 0))

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


def test_pages_of_a_commit_survive_a_power_loss(journal: Journal, store: MemoryStore) -> None:
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


def test_a_damaged_entry_is_left_out_and_reported(
    journal: Journal, store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    put(journal, [entry(1), entry(2)])
    [(key, value)] = store.scan(Family.INDEX, ENTRY.key(1, 0, 1), ENTRY.key(1, 0, 2), 1)
    store.write([Put(Family.INDEX, key, value[:-1] + bytes([value[-1] ^ 1]))])

    assert [each.base for each in journal.entries(1, 0, 0, 10, 10)] == [2]
    assert "offset=1" in caplog.text


def test_a_block_that_cannot_be_read_is_not_taken_for_an_empty_one(journal: Journal, store: MemoryStore) -> None:
    put(journal, [entry(1)])
    store.damage(Family.INDEX, ENTRY.key(1, 0, 1))

    with pytest.raises(IndexDamaged):
        journal.entries(1, 0, 0, 10, 10)


def test_a_long_range_is_walked_slice_by_slice(journal: Journal) -> None:
    count = 2 * SLICE + 5
    journal.commit([], [PutGap(1, 0, Gap(base, base + 1, DropReason.OVERFLOW, 0, 1, 1)) for base in range(count)])

    found = list(journal.scan_all(Family.META, *GAP.under()))

    assert [GAP.parts(key)[2] for key, _ in found] == list(range(count))
