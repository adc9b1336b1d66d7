from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from forebay.broker.core.errors import ReadFailed
from forebay.broker.core.partition.log import RECENT_MAX
from forebay.broker.core.partition.pages import DropReason, Entry
from forebay.broker.core.settings import SinkSettings
from forebay.broker.runtime.broker import Bounds
from forebay.broker.runtime.read.page_cache import PAGE_BYTES
from forebay.broker.runtime.read.pages import LOOKS_MAX, RETRY_DELAYS_S, WINDOW, EntryReader, Pages
from forebay.broker.runtime.sink.buffer import Buffer
from forebay.broker.storage.records.pages.page import SMALL_PAGE
from forebay.broker.storage.store.contract import Family
from forebay.broker.storage.store.memory import MemoryStore
from forebay.errors.reasons import Reason
from tests.support.brokers.running import running
from tests.support.pages.samples import page, values
from tests.support.refusals import refusal

pytestmark = pytest.mark.anyio
MANY = 2 * RECENT_MAX + 2 * WINDOW + 7
"""More pages than the log and one read hold in memory."""


@asynccontextmanager
async def sink(
    store: MemoryStore | None = None, *, pages: int = MANY, records: int = 2, tail_bytes: int = 1 << 20
) -> AsyncIterator[tuple[Pages, Buffer]]:
    async with running(store, bounds=Bounds(tail_bytes=tail_bytes)) as broker:
        buffer, _ = await broker.create("orders", SinkSettings(buffer_page_size=1))
        appends = [await buffer.append(page(*[b"%d" % number] * records)) for number in range(pages)]
        await asyncio.gather(*(append.done for append in appends))
        yield broker.pages, buffer


def reader(pages: Pages, buffer: Buffer) -> EntryReader:
    return EntryReader(pages, buffer.record.id, buffer.logs[0])


async def walked(entries: EntryReader, position: int) -> list[int]:
    """Base offsets from a position to the end, as a reader walks."""
    found: list[int] = []
    while upcoming := await entries.upcoming(position):
        found.append(upcoming[0].base)
        position = upcoming[0].end
    return found


async def test_a_reader_walks_from_the_first_page_to_the_last() -> None:
    async with sink() as (pages, buffer):
        assert await walked(reader(pages, buffer), 0) == list(range(0, 2 * MANY, 2))


@pytest.mark.parametrize("position", [1, 2 * WINDOW + 1, 2 * MANY - 1])
async def test_a_position_in_the_middle_of_a_page_finds_that_page(position: int) -> None:
    async with sink() as (pages, buffer):
        upcoming = await reader(pages, buffer).upcoming(position)

        assert upcoming[0].base == position - 1


async def test_a_reader_may_go_back() -> None:
    async with sink() as (pages, buffer):
        entries = reader(pages, buffer)
        await entries.upcoming(2 * MANY - 2)

        assert (await entries.upcoming(10))[0].base == 10
        assert (await entries.upcoming(4))[0].base == 4


async def test_the_end_has_nothing_to_come() -> None:
    async with sink(pages=3) as (pages, buffer):
        assert await reader(pages, buffer).upcoming(6) == []


async def test_after_a_restart_the_entries_come_from_the_store() -> None:
    store = MemoryStore()
    async with sink(store, pages=5):
        pass
    async with running(store.reopen()) as broker:
        buffer = broker.sink("orders")

        assert await walked(reader(broker.pages, buffer), 0) == [0, 2, 4, 6, 8]


async def test_bodies_of_recent_pages_come_from_memory_and_the_others_from_the_store() -> None:
    async with sink(pages=4, tail_bytes=PAGE_BYTES + 20) as (pages, buffer):
        entries = buffer.logs[0].recent

        old, old_realtime = await pages.bodies(buffer.record.id, 0, entries[:2])
        new, new_realtime = await pages.bodies(buffer.record.id, 0, entries[3:])
        pages.read_cache.limit(buffer.record.id, 0)
        _, asked_not_to = await pages.bodies(buffer.record.id, 0, entries[3:])

        assert [values(body.data) for body in [*old, *new] if body is not None] == [[b"0"] * 2, [b"1"] * 2, [b"3"] * 2]
        assert (old_realtime, new_realtime, asked_not_to) == (False, True, False)


async def test_a_page_that_is_damaged_or_missing_is_none_and_the_others_are_there() -> None:
    store = MemoryStore()
    async with sink(store, pages=4, tail_bytes=0) as (pages, buffer):
        stored = store.scan(Family.SMALL, *SMALL_PAGE.under(buffer.record.id), 10)
        store.damage(Family.SMALL, stored[1][0])
        entries = list(buffer.logs[0].recent)
        missing = replace(entries[2], number=7)

        bodies, _ = await pages.bodies(buffer.record.id, 0, [*entries[:2], missing, entries[3]])

        assert [body is not None for body in bodies] == [True, False, False, True]


async def test_the_first_entries_are_brought_into_memory_slice_by_slice() -> None:
    async with sink(records=1) as (pages, buffer):
        log = buffer.logs[0]
        await pages.load_oldest(buffer.record.id, log)
        loaded = [len(log.first_entries())]
        while not log.complete:
            await pages.load_more(buffer.record.id, log)
            loaded.append(len(log.first_entries()))

        assert loaded[0] == WINDOW
        assert loaded == sorted(loaded)
        assert [entry.base for entry in log.first_entries()] == list(range(MANY))


# -- reads that fail


async def test_reads_that_work_again_are_noticed_without_a_reader() -> None:
    store = MemoryStore()
    async with sink(store, pages=3, tail_bytes=0) as (pages, buffer):
        store.fail_reads(Family.SMALL)
        entries = buffer.logs[0].first_entries()
        with pytest.raises(ReadFailed):
            await pages.bodies(buffer.record.id, 0, entries)
        await pages.probe()
        failing = len(pages.holds)
        store.let_read()
        await pages.probe()

        assert (failing, len(pages.holds)) == (1, 0)
        assert pages.holds.failures > 3


async def test_a_partition_that_is_known_to_fail_is_asked_once_and_not_patiently() -> None:
    store = MemoryStore()
    async with sink(store, pages=1, tail_bytes=0) as (pages, buffer):
        store.fail_reads(Family.SMALL)
        entries = buffer.logs[0].first_entries()
        counts: list[int] = []
        for _ in range(2):
            before = store.failed_reads
            with pytest.raises(ReadFailed):
                await pages.bodies(buffer.record.id, 0, entries)
            counts.append(store.failed_reads - before)

        assert counts == [1 + len(RETRY_DELAYS_S), 1]


async def test_pages_before_the_one_that_fails_are_given_and_who_needs_all_gets_the_error() -> None:
    store = MemoryStore()
    async with sink(store, pages=4, tail_bytes=0) as (pages, buffer):
        sink_id = buffer.record.id
        stored = store.scan(Family.SMALL, *SMALL_PAGE.under(sink_id), 10)
        store.fail_reads(Family.SMALL, stored[2][0])
        entries = buffer.logs[0].first_entries()

        found, _ = await pages.bodies(sink_id, 0, entries)
        with pytest.raises(ReadFailed):
            await pages.all_bodies(sink_id, 0, entries)

        assert [body is not None for body in found] == [True, True]
        hold = pages.holds.at(sink_id, 0)
        assert hold is not None
        assert list(hold.pages) == [entries[2].number]


async def test_a_page_that_fails_and_is_removed_holds_nothing_any_more() -> None:
    store = MemoryStore()
    async with sink(store, pages=2, tail_bytes=0) as (pages, buffer):
        store.fail_reads(Family.SMALL)
        entries = buffer.logs[0].first_entries()
        with pytest.raises(ReadFailed):
            await pages.bodies(buffer.record.id, 0, entries[:1])

        buffer.removal.drop(0, entries[:1], DropReason.PURGED)

        assert len(pages.holds) == 0


async def test_an_index_is_not_rewritten_when_a_read_fails_in_the_middle_of_that() -> None:
    store = MemoryStore()
    async with sink(store, pages=3, tail_bytes=0) as (pages, buffer):
        store.fail_reads(Family.INDEX)

        with pytest.raises(ReadFailed):
            pages.journal.rewrite_index()
        store.let_read()

        assert await walked(reader(pages, buffer), 0) == [0, 2, 4]
        append = await buffer.append(page(b"x"))
        await append.done


async def test_looks_of_people_are_bounded_and_keep_no_other_work_waiting() -> None:
    async with sink(pages=1) as (pages, _):
        held = threading.Event()
        looks = [asyncio.ensure_future(pages.show(held.wait, 20)) for _ in range(LOOKS_MAX)]
        await asyncio.sleep(0)

        with refusal(Reason.TOO_MANY_STREAMS, match="displays of records"):
            await pages.show(lambda: "one more")
        assert await pages.decode(lambda: "a page taken apart") == "a page taken apart"
        assert await pages.call(lambda: "a page read") == "a page read"
        held.set()
        assert await asyncio.gather(*looks) == [True] * LOOKS_MAX
        assert await pages.show(lambda: "afterwards") == "afterwards"


async def test_a_reader_keeps_few_entries_of_pages_that_many_appends_formed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forebay.broker.runtime.read.pages.PARTS_MAX", 20)
    async with sink() as (pages, buffer):
        entries = reader(pages, buffer)

        first = await entries.upcoming(0)
        kept = [len(await entries.upcoming(position)) for position in range(0, 2 * MANY - 4 * RECENT_MAX, 2)]

        assert sum(1 + len(entry.parts) for entry in first) == 20
        assert max(kept) == 10
        assert await walked(entries, 0) == list(range(0, 2 * MANY, 2))


async def test_the_first_entries_are_brought_into_memory_in_slices_of_few_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("forebay.broker.runtime.read.pages.PARTS_MAX", 20)
    async with sink(records=1) as (pages, buffer):
        log, entries = buffer.logs[0], pages.journal.entries
        asked: list[int] = []

        def counted(sink: int, partition: int, first: int, end: int, limit: int) -> list[Entry]:
            asked.append(limit)
            return entries(sink, partition, first, end, limit)

        monkeypatch.setattr(pages.journal, "entries", counted)
        await pages.load_oldest(buffer.record.id, log)
        loaded = [len(log.first_entries())]
        await pages.load_more(buffer.record.id, log)
        loaded.append(len(log.first_entries()))

        assert (loaded, asked) == ([10, 20], [10, 10])
        while not log.complete:
            await pages.load_more(buffer.record.id, log)
        assert [entry.base for entry in log.first_entries()] == list(range(MANY))


async def test_an_entry_of_more_appends_than_a_reader_keeps_is_read_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forebay.broker.runtime.read.pages.PARTS_MAX", 1)
    async with sink() as (pages, buffer):
        entries = reader(pages, buffer)

        assert len(await entries.upcoming(0)) == 1
        assert await walked(entries, 0) == list(range(0, 2 * MANY, 2))
