"""The writers of a sink, and short words for what they publish."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from forebay.broker.core.settings import SinkSettings
from forebay.broker.runtime.broker import Broker
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.runtime.publish.result import PublishResult
from forebay.broker.runtime.publish.writers import Writers, WriterSession
from forebay.broker.storage.store.memory import MemoryStore
from tests.support.brokers.running import running
from tests.support.pages.samples import page


@asynccontextmanager
async def writers(
    store: MemoryStore | None = None, clock: FakeClock | None = None, **settings: Any
) -> AsyncIterator[Writers]:
    """The writers of a sink, which is made when it is not there."""
    async with running(store, clock) as broker:
        yield await writers_of(broker, **settings)


async def writers_of(broker: Broker, **settings: Any) -> Writers:
    """The writers of `orders`, which is made when it is not there."""
    await broker.create("orders", SinkSettings(**settings))
    return broker.writers["orders"]


async def publish(session: WriterSession, sequence: int, *found: bytes, partition: int = 0) -> PublishResult:
    """Publish values and wait for what became of them."""
    session.arrived(partition, sequence)
    return await (await session.publish(page(*found, partition=partition), sequence))
