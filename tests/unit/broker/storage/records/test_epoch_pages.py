"""Index entries of pages that were staged are made again, wherever the numbers of the pages stand."""

from __future__ import annotations

from itertools import combinations

import pytest

from forebay.broker.core.settings import SinkSettings
from forebay.broker.runtime.commit import group
from forebay.broker.storage.records.pages.entry import ENTRY
from forebay.broker.storage.records.pages.page import SMALL_PAGE
from forebay.broker.storage.records.partitions.tail import TAIL
from forebay.broker.storage.store.contract import Delete, Family, Put
from forebay.broker.storage.store.memory import MemoryStore
from tests.support.brokers.epochs import claim, commit, stage, stored, wanted
from tests.support.brokers.running import running
from tests.support.pages.named_pages import wrong_names
from tests.support.pages.samples import page

VALUES = [b"before", b"while", b"staged-1", b"staged-2", b"other", b"after"]
SUBSETS = [set(found) for size in (1, 2, 4, 6) for found in combinations(range(len(VALUES)), size)]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def filled(store: MemoryStore) -> None:
    """Six pages: one was appended before two were staged, one while they were, one after; one of another token."""
    async with running(store) as broker:
        buffer, _ = await broker.create("orders", SinkSettings(buffer_page_size=1, partitions=2))
        await (await buffer.append(page(b"before"))).done
        await stage(buffer, claim(), "a", [b"staged-1"])
        await stage(buffer, claim(), "b", [b"other"])
        await stage(buffer, claim(), "a", [b"elsewhere"], partition=1)
        await (await buffer.append(page(b"while"))).done
        await stage(buffer, claim(), "a", [b"staged-2"])
        await commit(broker, wanted(claim(), ("a", [(0, 2, 2), (1, 1, 1)]), ("b", [(0, 1, 1)])))
        await (await buffer.append(page(b"after"))).done


@pytest.mark.anyio
@pytest.mark.parametrize("in_files", [False, True], ids=["small", "in files"])
async def test_whatever_entries_are_lost_all_pages_are_named_again_in_their_order(
    in_files: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if in_files:
        monkeypatch.setattr(group, "BULK_BYTES", 1)
        monkeypatch.setattr(group, "SHARE_BYTES", 1)
    whole = MemoryStore()
    await filled(whole)
    for lost in SUBSETS:
        store = whole.reopen()
        store.write([Delete(Family.INDEX, ENTRY.key(1, 0, base)) for base in lost])
        async with running(store) as broker:
            buffer = broker.sink("orders")

            await buffer.removal.repair(buffer.logs[0])

            assert await stored(broker) == VALUES, f"lost {lost}"
            assert await stored(broker, partition=1) == [b"elsewhere"]
            assert wrong_names(store) == []


@pytest.mark.anyio
async def test_entries_that_are_damaged_are_made_again_too_also_when_the_counters_are() -> None:
    store = MemoryStore()
    await filled(store)
    store = store.reopen()
    damaged = [Put(Family.INDEX, ENTRY.key(1, 0, base), b"noise") for base in (2, 3, 5)]
    store.write([*damaged, Put(Family.META, TAIL.key(1, 0), b"noise")])

    async with running(store) as broker:
        assert (await stored(broker))[:6] == VALUES
        assert broker.sink("orders").logs[0].next_offset >= 6


@pytest.mark.anyio
async def test_an_epoch_of_which_a_page_is_missing_is_a_gap_and_what_is_around_it_is_not() -> None:
    store = MemoryStore()
    await filled(store)
    store = store.reopen()
    async with running(store) as broker:
        entries = broker.sink("orders").logs[0].first_entries() or await broker.pages.call(
            broker.pages.journal.entries, 1, 0, 0, 10, 10
        )
    store = store.reopen()
    lost = [Delete(Family.INDEX, ENTRY.key(1, 0, base)) for base in range(6)]
    store.write([*lost, Delete(Family.SMALL, SMALL_PAGE.key(1, 0, entries[3].number))])

    async with running(store) as broker:
        buffer = broker.sink("orders")
        await buffer.removal.repair(buffer.logs[0])

        assert await stored(broker) == [b"before", b"while", b"other", b"after"]
        assert [(gap.first, gap.end) for gap in buffer.logs[0].gaps] == [(2, 4)]
