"""What the system is told of pages that a replay will read soon."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from holdfast.broker.core.errors import StoreFenced
from holdfast.broker.core.pages import PAGE_BYTES_MAX
from holdfast.broker.runtime.broker import Bounds
from holdfast.broker.runtime.replay import Batch
from holdfast.broker.storage import keys
from holdfast.broker.storage.errors import StoreFailed
from holdfast.broker.storage.memory import MemoryStore
from tests.unit.broker.runtime.reading import Reading, sink
from tests.unit.broker.samples import page

pytestmark = pytest.mark.anyio
PAGES = 20
NOTHING_HELD = Bounds(tail_bytes=0)


class Hinted(MemoryStore):
    """Notes what it is told to expect."""

    def __init__(self) -> None:
        super().__init__()
        self.expected: list[bytes] = []

    def expect(self, keys: Sequence[bytes]) -> None:
        """Note it."""
        super().expect(keys)
        self.expected += keys


class Refusing(Hinted):
    """Fails when it is told."""

    def expect(self, keys: Sequence[bytes]) -> None:
        """Fail."""
        raise StoreFailed("read", "on purpose")


async def filled(at: Reading, *, size: int = PAGE_BYTES_MAX - 1_000) -> list[bytes]:
    """Append pages together, so that they are bulk where they are large; returns the keys of them all."""
    appends = [await at.buffer.append(page(b"x" * size)) for _ in range(PAGES)]
    await asyncio.gather(*(append.done for append in appends))
    entries = await at.broker.services.pages.call(
        at.broker.services.pages.journal.entries, at.buffer.record.id, 0, 0, PAGES, PAGES
    )
    return [keys.bulk(entry.number, at.buffer.record.id, 0) for entry in entries]


async def offsets(at: Reading, end: int | None = None) -> list[int]:
    steps = at.replay().read(0, end, follow=False, ahead=True)
    return [entry.base async for step in steps if isinstance(step, Batch) for entry, _ in step.pages]


async def test_every_page_behind_the_next_step_is_named_once() -> None:
    store = Hinted()
    async with sink(store, bounds=NOTHING_HELD) as at:
        stored = await filled(at)

        assert await offsets(at) == list(range(PAGES))

    assert store.expected == stored[4:]  # the first step is one page, the second, read meanwhile, three


async def test_nothing_behind_the_end_is_named() -> None:
    store = Hinted()
    async with sink(store, bounds=NOTHING_HELD) as at:
        stored = await filled(at)

        assert await offsets(at, 6) == list(range(6))

    assert store.expected == stored[4:6]


async def test_what_memory_holds_is_not_named() -> None:
    store = Hinted()
    async with sink(store, bounds=Bounds(tail_bytes=12 * PAGE_BYTES_MAX)) as at:
        stored = await filled(at)

        assert await offsets(at) == list(range(PAGES))

    assert store.expected == stored[4 : PAGES - 12]


async def test_small_pages_are_not_named() -> None:
    store = Hinted()
    async with sink(store, bounds=NOTHING_HELD) as at:
        await filled(at, size=10)

        assert await offsets(at) == list(range(PAGES))

    assert store.expected == []


async def test_a_store_that_fails_then_ends_the_replay() -> None:
    async with sink(Refusing(), bounds=NOTHING_HELD) as at:
        await filled(at)

        with pytest.raises(StoreFenced, match="on purpose"):
            await offsets(at)
