"""Fronts: the first entry above a position, from memory, from the index, and from what was read before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from forebay.broker.core.errors import ReadFailed
from forebay.broker.core.partition.pages import DropReason
from forebay.broker.core.settings import SinkSettings
from forebay.broker.runtime.sink import fronts
from forebay.broker.runtime.sink.buffer import Buffer
from forebay.broker.storage.store.memory import MemoryStore
from tests.support.brokers.running import running
from tests.support.pages.samples import page

pytestmark = pytest.mark.anyio
PAGES = 1_000
"""More than memory holds of a partition."""


@asynccontextmanager
async def filled(store: MemoryStore | None = None) -> AsyncIterator[Buffer]:
    """A sink with pages of two records each."""
    async with running(store) as broker:
        buffer, _ = await broker.create("orders", SinkSettings(buffer_page_size=2))
        appends = [await buffer.append(page(b"a", b"b")) for _ in range(PAGES)]
        await asyncio.gather(*(append.done for append in appends))
        yield buffer


async def test_a_front_in_memory_is_known_without_a_read() -> None:
    async with filled() as buffer:
        [log] = buffer.logs
        end = log.tail.next_offset

        known, front = buffer.fronts.known(log, end - 3)
        assert (known, front is not None and front.base) == (True, end - 4)
        assert buffer.fronts.known(log, end) == (True, None)


async def test_a_front_outside_memory_is_read_once_and_known_while_a_subscription_is_there() -> None:
    async with filled() as buffer:
        [log] = buffer.logs
        assert buffer.fronts.known(log, 5) == (False, None)

        found = await buffer.fronts.read(log, {0, 5, 6, 5_000})

        assert {position: entry.base for position, entry in found.items()} == {0: 0, 5: 4, 6: 6}
        assert buffer.fronts.known(log, 5) == (True, found[5])
        buffer.fronts.keep_only(log.number, {6})
        assert buffer.fronts.known(log, 5) == (False, None)
        assert buffer.fronts.known(log, 6) == (True, found[6])


async def test_the_front_above_what_was_removed_is_what_is_left() -> None:
    async with filled() as buffer:
        [log] = buffer.logs
        await buffer.fronts.read(log, {0})
        await buffer._pages.load_oldest(buffer.record.id, log)
        buffer.removal.drop(0, log.first_entries()[:2], DropReason.OVERFLOW)
        await buffer.removal.drops_durable(0)

        assert (await buffer.fronts.read(log, {1}))[1].base == 4


async def test_no_more_fronts_are_kept_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fronts, "KEPT_MAX", 2)
    async with filled() as buffer:
        [log] = buffer.logs

        found = await buffer.fronts.read(log, {0, 2, 4})

        assert len(found) == 3
        assert sum(buffer.fronts.known(log, position)[0] for position in found) == 2
        buffer.fronts.keep_only(log.number, set())
        await buffer.fronts.read(log, {4})
        assert buffer.fronts.known(log, 4)[0]


class _Failing(MemoryStore):
    """A store whose index cannot be read while ``fails`` is set."""

    fails = False

    def scan(self, *asked: object, **more: object) -> list[tuple[bytes, bytes]]:
        if self.fails:
            raise ReadFailed("Input/output error")
        return super().scan(*asked, **more)  # type: ignore[arg-type]


async def test_a_failed_read_finds_no_front_and_is_reported() -> None:
    store = _Failing()
    async with filled(store) as buffer:
        [log] = buffer.logs
        store.fails = True

        found = await buffer.fronts.read(log, {5})
        store.fails = False

        assert found == {}
        assert buffer._pages.holds.at(buffer.record.id, 0) is not None
