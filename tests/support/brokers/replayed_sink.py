"""A sink that joins no pages, and short words for reading it again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from forebay.broker.core.partition.pages import Gap
from forebay.broker.core.settings import SinkSettings
from forebay.broker.runtime.broker import Bounds, Broker
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.runtime.read.replay import Batch, Replay
from forebay.broker.runtime.sink.buffer import Buffer
from forebay.broker.storage.store.memory import MemoryStore
from tests.support.brokers.running import running
from tests.support.pages.samples import page


class ReplayedSink:
    """A sink that joins no pages, and short words for reading it again."""

    def __init__(self, broker: Broker, buffer: Buffer) -> None:
        self.broker = broker
        self.buffer = buffer

    async def fill(self, pages: int, *, records: int = 1, size: int = 10) -> None:
        """Append pages, one after the other."""
        for _ in range(pages):
            append = await self.buffer.append(page(*[b"x" * size] * records))
            await append.done

    def replay(self, *, ahead: bool = False) -> Replay:
        """A reading of the partition."""
        return self.buffer.replay(0, ahead=ahead)

    async def start(self, *, offset: int | None = None, time_us: int | None = None) -> int:
        """Start of a read."""
        return await self.replay().start_at(offset=offset, time_us=time_us)

    async def steps(self, start: int = 0, end: int | None = None) -> list[Batch | Gap]:
        """All that a reading meets, whether or not it reads ahead."""
        met = [step async for step in self.replay().read(start, end, follow=False)]
        ahead = [step async for step in self.replay(ahead=True).read(start, end, follow=False)]
        assert _apart(ahead) == _apart(met)
        return met

    async def met(self, start: int = 0, end: int | None = None) -> list[str]:
        """Base offsets of the pages, and gaps, in order."""
        met: list[str] = []
        for step in await self.steps(start, end):
            if isinstance(step, Gap):
                met.append(f"{step.reason.name} {step.first}-{step.end - 1}")
            else:
                met += [str(entry.base) for entry, _ in step.pages]
        return met


def _apart(steps: list[Batch | Gap]) -> list[object]:
    """Pages and gaps, one by one."""
    return [each for step in steps for each in ([step] if isinstance(step, Gap) else step.pages)]


@asynccontextmanager
async def replayed_sink(
    store: MemoryStore | None = None, clock: FakeClock | None = None, bounds: Bounds | None = None, **settings: Any
) -> AsyncIterator[ReplayedSink]:
    """A sink that is read again."""
    async with running(store, clock, bounds=bounds) as broker:
        buffer, _ = await broker.create("orders", SinkSettings(**{"buffer_page_size": 1, **settings}))
        yield ReplayedSink(broker, buffer)
