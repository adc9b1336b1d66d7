"""A sink of 1,024 partitions with 100 subscriptions: it starts at once, and reads block no caller.

A start is measured in calls of functions, and a wait in seconds of the processor: what else the machine does is not
counted.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import FrameType

import pytest

from forebay.broker.core.partition.cursor import Cursor
from forebay.broker.core.partition.log import Head, Tail
from forebay.broker.core.partition.position import EARLIEST
from forebay.broker.core.settings import SinkSettings
from forebay.broker.core.writes import (
    PutCursor,
    PutHead,
    PutSink,
    PutSubscription,
    PutTail,
    SinkRecord,
    SubscriptionRecord,
)
from forebay.broker.rpc.sinks import convert as sinks
from forebay.broker.runtime.broker import Broker
from forebay.broker.runtime.clock import SystemClock
from forebay.broker.runtime.sink.statistics import sink_state
from forebay.broker.storage.recovery import recover
from forebay.broker.storage.store.rocks.store import RocksStore
from forebay.process import gc_paused
from tests.support.brokers.running import begin

pytestmark = pytest.mark.anyio

PARTITIONS = 1_024
SUBSCRIPTIONS = 100
LONGEST_S = 0.25
"""Longest time for which one piece of work may block others."""
CALLS_PER_LANE = 72
"""Calls of a start for each partition of each subscription."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RocksStore]:
    """A store with such a sink, as a broker has left it."""
    made = RocksStore(tmp_path / "store")
    journal = recover(made).journal
    journal.commit([], [PutSink(SinkRecord(1, "wide", "abc", SinkSettings(partitions=PARTITIONS), 7), fresh=True)])
    for name in ["default", *(f"s{n}" for n in range(1, SUBSCRIPTIONS))]:
        named = [] if name == "default" else [PutSubscription(1, SubscriptionRecord(name, 7, EARLIEST))]
        journal.commit(
            [], [*named, *(PutCursor(1, name, at, Cursor(watermark=5, acked=5)) for at in range(PARTITIONS))]
        )
    journal.commit([], [PutTail(1, at, Tail(5, 50, 5, 9, 9)) for at in range(PARTITIONS)])
    journal.commit([], [PutHead(1, at, Head(5, 5, 50, 5)) for at in range(PARTITIONS)])
    made.close()
    with_it = RocksStore(tmp_path / "store")
    yield with_it
    with_it.close()
    gc.freeze()  # again, as in tests/conftest.py: a test ends that


@contextmanager
def calling_at_most(bound: int) -> Iterator[None]:
    """Fail when more functions were called, in Python or in C; unlike seconds, their number is the same anywhere."""
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(before)
    assert calls <= bound


@asynccontextmanager
async def nobody_waits() -> AsyncIterator[None]:
    """Fail when the loop worked for longer than ``LONGEST_S`` without a turn for others."""
    longest = 0.0

    async def beat() -> None:
        nonlocal longest
        while True:
            before = time.process_time()
            await asyncio.sleep(0)
            longest = max(longest, time.process_time() - before)

    task = asyncio.ensure_future(beat())
    await asyncio.sleep(0)
    yield
    task.cancel()
    assert longest < LONGEST_S


@pytest.mark.slow
async def test_such_a_sink_is_there_soon_after_a_start_and_its_statistics_and_sweeps_block_no_caller(
    store: RocksStore,
) -> None:
    with calling_at_most(CALLS_PER_LANE * PARTITIONS * SUBSCRIPTIONS), gc_paused():
        broker: Broker = begin(store, SystemClock())
    gc.collect()
    gc.freeze()  # a collection of what stays is no part of it, see `forebay.process`
    try:
        buffer = broker.sink("wide")
        async with nobody_waits():
            state = await sink_state(buffer)
            message = await sinks.stats(buffer, state, 7)
        async with nobody_waits():
            buffer.sweep()
    finally:
        gc.unfreeze()
        await broker.close()

    assert [len(each.partitions) for each in message.subscriptions] == [PARTITIONS] * SUBSCRIPTIONS
    assert {lane.acked for each in message.subscriptions for lane in each.partitions} == {5}
    assert message.identity_ok
