"""A broker with one sink, for tests of what happens in it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from forebay.broker.core.settings import SinkSettings
from forebay.broker.runtime.broker import Bounds
from forebay.broker.runtime.clock import Clock
from forebay.broker.runtime.sink.buffer import Buffer
from forebay.broker.storage.store.memory import MemoryStore
from tests.support.brokers.running import running
from tests.support.pages.samples import page


@asynccontextmanager
async def sink(
    store: MemoryStore | None = None, clock: Clock | None = None, bounds: Bounds | None = None, **settings: Any
) -> AsyncIterator[Buffer]:
    """The sink `orders`, which joins no pages unless it is configured to."""
    async with running(store, clock, bounds=bounds) as broker:
        buffer, _ = await broker.create("orders", SinkSettings(**{"buffer_page_size": 1, **settings}))
        yield buffer


@asynccontextmanager
async def filled_sink(
    store: MemoryStore | None = None, clock: Clock | None = None, *, records: int = 10, **settings: Any
) -> AsyncIterator[Buffer]:
    """The same, with pages of one record in every partition."""
    async with sink(store, clock, **settings) as buffer:
        for log in buffer.logs:
            await fill(buffer, records, partition=log.number)
        yield buffer


async def fill(buffer: Buffer, pages: int, *, records: int = 1, size: int = 10, partition: int = 0) -> None:
    """Append pages, one after the other, and wait for each."""
    for _ in range(pages):
        append = await buffer.append(page(*[b"x" * size] * records, partition=partition))
        await append.done
