"""Readers get every record once and in order, however the realtime path is switched, bounded or broken meanwhile.

A broker gets appends to two sinks. Between them realtime is switched off and on, for the broker and for a sink, the
bounds change, the memory fails and begins again. A consumer and a replay of each sink read meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.broker.composition import build
from forebay.broker.core.settings import SinkSettings
from forebay.broker.rpc.pages.codec import PageCodec
from forebay.broker.runtime.broker import Bounds, Broker
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.runtime.read.page_cache import PAGE_BYTES, FailingPageCache
from forebay.broker.runtime.read.replay import Batch
from forebay.broker.runtime.sink.buffer import Buffer
from forebay.broker.storage.recovery import recover
from forebay.broker.storage.store.memory import MemoryStore
from tests.support.brokers.taker import Taker
from tests.support.pages.samples import page

SINKS = ("orders", "events")
OPERATIONS = ("add", "found", "drop", "size_of", "relieve", "limit_changed")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.sampled_from(SINKS), st.integers(1, 12)),
        st.tuples(st.just("take"), st.sampled_from(SINKS), st.integers(1, 12)),
        st.tuples(st.just("replay"), st.sampled_from(SINKS), st.integers(1, 12)),
        st.tuples(st.just("broker"), st.sampled_from([True, False, None]), st.just(0)),
        st.tuples(st.just("sink"), st.sampled_from(SINKS), st.integers(0, 1)),
        st.tuples(st.just("bound"), st.sampled_from(SINKS), st.integers(0, 5)),
        st.tuples(st.just("overload"), st.booleans(), st.just(0)),
        st.tuples(st.just("fail"), st.sampled_from(OPERATIONS), st.just(0)),
        st.tuples(st.just("restart"), st.just(None), st.just(0)),
    ),
    min_size=20,
    max_size=80,
)


class Readers:
    """A consumer and a replay of one sink."""

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer
        self.consumer = Taker(buffer.subscription(""))
        self.steps = buffer.replay(0, ahead=True).read(0, None, follow=True)
        self.appended = 0
        self.taken: list[int] = []
        self.replayed: list[int] = []

    async def append(self, pages: int) -> None:
        appends = [await self.buffer.append(page(b"x" * 10)) for _ in range(pages)]
        await asyncio.gather(*(append.done for append in appends))
        self.appended += pages

    async def take(self, records: int) -> None:
        until = min(self.appended, len(self.taken) + records)
        while len(self.taken) < until:
            offsets = await self.consumer.offsets()
            await self.consumer.ack(offsets[0], offsets[-1] + 1)
            self.taken += offsets

    async def replay(self, records: int) -> None:
        until = min(self.appended, len(self.replayed) + records)
        while len(self.replayed) < until:
            step = await anext(self.steps)
            assert isinstance(step, Batch), "nothing is dropped here"
            self.replayed += [offset for entry, _ in step.pages for offset in range(entry.base, entry.end)]


async def followed(steps: list[tuple[str, object, int]]) -> None:
    made: list[FailingPageCache] = []

    def make(bytes_max: int, limits: Mapping[int, int]) -> FailingPageCache:
        made.append(FailingPageCache(bytes_max, limits))
        return made[-1]

    found = recover(MemoryStore())
    bounds = Bounds(tail_bytes=12 * (PAGE_BYTES + 20))
    broker = build(found, FakeClock(), bounds=bounds, codec=PageCodec(), page_cache=make)
    broker.start()
    try:
        settings = SinkSettings(buffer_page_size=1, retain_acked_time_us=3_600_000_000)
        readers = {name: Readers((await broker.create(name, settings))[0]) for name in SINKS}
        for step, what, amount in steps:
            await _do(broker, readers, made, step, what, amount)
            assert broker.read_cache.size <= broker.read_cache.bytes_max
        broker.read_cache.restart()
        await broker.set_realtime(True)
        for each in readers.values():
            await each.append(1)
            await each.take(each.appended)
            await each.replay(each.appended)
            await each.steps.aclose()
            assert each.taken == each.replayed == list(range(each.appended))
            assert broker.read_cache.failures <= len(made)
    finally:
        await broker.close()


async def _do(
    broker: Broker, readers: dict[str, Readers], made: list[FailingPageCache], step: str, what: object, amount: int
) -> None:
    if step in {"append", "take", "replay"}:
        await getattr(readers[str(what)], step)(amount)
    elif step == "broker":
        await broker.set_realtime(None if what is None else bool(what))
    elif step == "sink":
        await broker.set_realtime(bool(amount), sink=str(what))
    elif step == "bound":
        buffer = readers[str(what)].buffer
        await buffer.change(replace(buffer.settings, tail_bytes_max=amount * (PAGE_BYTES + 20)))
    elif step == "overload":
        broker.realtime.relieve(bool(what), lambda: None)
    elif step == "fail":
        made[-1].fail(str(what), MemoryError("injected"))
    else:
        broker.read_cache.restart()


@given(STEPS)
@settings(deadline=None)
def test_no_reader_misses_or_repeats_a_record_however_the_realtime_path_is_switched_and_fails(
    steps: list[tuple[str, object, int]],
) -> None:
    asyncio.run(followed(steps))
