"""Read-ahead hints to the operating system about pages of a replay, and their effect."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from forebay.broker.core.delivery.message_builder import MESSAGE_BYTES
from forebay.broker.core.errors import StoreFenced
from forebay.broker.core.partition.pages import Gap
from forebay.broker.runtime.broker import Bounds
from forebay.broker.runtime.read.read_ahead import SOON_BYTES
from forebay.broker.runtime.read.replay import Batch
from forebay.broker.storage.errors import StoreFailed
from forebay.broker.storage.records.pages.page import BULK_PAGE
from forebay.broker.storage.store.memory import MemoryStore
from forebay.page.format import PAGE_BYTES_MAX
from tests.support.brokers.held_store import Door
from tests.support.brokers.replayed_sink import ReplayedSink, replayed_sink
from tests.support.pages.samples import page

pytestmark = pytest.mark.anyio
PAGES = 20
SIZE = PAGE_BYTES_MAX - 1_000
NOTHING_HELD = Bounds(tail_bytes=0)


class Hinted(MemoryStore):
    """Records the keys of each prefetch hint, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.hints: list[list[bytes]] = []
        self.door = Door()

    @property
    def expected(self) -> list[bytes]:
        """All of it, in order."""
        return [key for hint in self.hints for key in hint]

    def prefetch(self, keys: Sequence[bytes]) -> None:
        """Note it, and wait while the door is closed."""
        super().prefetch(keys)
        self.hints.append(list(keys))
        self.door.go_through()


class Refusing(Hinted):
    """Fails on a prefetch hint."""

    def prefetch(self, keys: Sequence[bytes]) -> None:
        """Fail."""
        raise StoreFailed("read", "on purpose")


async def filled(at: ReplayedSink) -> list[bytes]:
    """Append large pages together, so that they are bulk; returns the keys of them all."""
    appends = [await at.buffer.append(page(b"x" * SIZE)) for _ in range(PAGES)]
    await asyncio.gather(*(append.done for append in appends))
    entries = await at.broker.pages.call(at.broker.pages.journal.entries, at.buffer.record.id, 0, 0, PAGES, PAGES)
    return [BULK_PAGE.key(entry.number, at.buffer.record.id, 0) for entry in entries]


async def offsets(at: ReplayedSink, end: int | None = None) -> list[int]:
    steps = at.replay(ahead=True).read(0, end, follow=False)
    return [entry.base async for step in steps if isinstance(step, Batch) for entry, _ in step.pages]


async def first_of(steps: AsyncIterator[Batch | Gap]) -> Batch:
    step = await anext(steps)
    assert isinstance(step, Batch)
    return step


async def test_every_page_after_the_next_step_is_named_once() -> None:
    store = Hinted()
    async with replayed_sink(store, bounds=NOTHING_HELD) as at:
        stored = await filled(at)

        assert await offsets(at) == list(range(PAGES))

    assert sorted(store.expected) == stored[4:]  # the first step is one page, the second, read meanwhile, three


async def test_nothing_beyond_the_end_is_named() -> None:
    store = Hinted()
    async with replayed_sink(store, bounds=NOTHING_HELD) as at:
        stored = await filled(at)

        assert await offsets(at, 6) == list(range(6))

    assert store.expected == stored[4:6]


async def test_no_hint_is_given_for_pages_in_memory() -> None:
    store = Hinted()
    async with replayed_sink(store, bounds=Bounds(tail_bytes=12 * PAGE_BYTES_MAX)) as at:
        stored = await filled(at)

        assert await offsets(at) == list(range(PAGES))

    assert sorted(store.expected) == stored[4 : PAGES - 12]


async def test_hints_are_given_for_pages_in_memory_if_the_sink_is_read_from_the_store() -> None:
    store = Hinted()
    async with replayed_sink(store, bounds=Bounds(tail_bytes=64 << 20), realtime=False) as at:
        stored = await filled(at)

        assert await offsets(at) == list(range(PAGES))

    assert sorted(store.expected) == stored[4:]


async def test_pages_that_are_no_bulk_are_not_named() -> None:
    store = Hinted()
    async with replayed_sink(store, bounds=NOTHING_HELD) as at:
        await at.fill(PAGES, size=SIZE)  # one by one: none is worth a file

        assert await offsets(at) == list(range(PAGES))

    assert store.expected == []


async def test_a_reader_without_read_ahead_gives_no_hints() -> None:
    store = Hinted()
    async with replayed_sink(store, bounds=NOTHING_HELD) as at:
        await filled(at)

        assert [step async for step in at.replay().read(0, None, follow=False)]

    assert store.expected == []


async def test_no_hint_reaches_more_than_eight_mebibytes_beyond_what_is_sent() -> None:
    store = Hinted()
    async with replayed_sink(store, bounds=NOTHING_HELD) as at:
        await filled(at)

        await offsets(at)

    assert store.hints
    assert all(len(hint) * SIZE <= SOON_BYTES - MESSAGE_BYTES for hint in store.hints)


async def test_no_task_waits_for_a_hint() -> None:
    store = Hinted()
    async with replayed_sink(store, bounds=NOTHING_HELD) as at:
        await filled(at)
        store.door.close()

        steps = at.replay(ahead=True).read(0, None, follow=False)
        assert [entry.base for entry, _ in (await first_of(steps)).pages] == [0]
        await store.door.reached()
        assert [entry.base for entry, _ in (await first_of(steps)).pages] == [1, 2, 3]

        store.door.open()
        rest = [entry.base async for step in steps if isinstance(step, Batch) for entry, _ in step.pages]
        assert rest == list(range(4, PAGES))


async def test_a_reader_that_leaves_takes_its_hint_along() -> None:
    store = Hinted()
    async with replayed_sink(store, bounds=NOTHING_HELD) as at:
        await filled(at)
        store.door.close()
        before = asyncio.all_tasks()
        steps = at.replay(ahead=True).read(0, None, follow=False)
        await anext(steps)
        await store.door.reached()

        await steps.aclose()

        assert asyncio.all_tasks() <= before
        store.door.open()


async def test_a_store_that_fails_then_ends_the_replay() -> None:
    async with replayed_sink(Refusing(), bounds=NOTHING_HELD) as at:
        await filled(at)

        with pytest.raises(StoreFenced, match="on purpose"):
            await offsets(at)
