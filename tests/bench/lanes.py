"""A sink of very many lanes (1,024 partitions, 100 subscriptions): its start, its statistics, and who waits for them.

The store is made as a broker would have left it; everything that is measured is a broker of its own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, Final

import grpc.aio
import uvloop

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
from forebay.broker.storage.recovery import recover
from forebay.broker.storage.store.rocks.store import RocksStore
from forebay.client import Client
from forebay.v1 import sink_service_pb2 as pb
from forebay.v1.sink_service_pb2_grpc import SinkServiceStub
from tests.bench.neighbours import SINK as NEIGHBOURS
from tests.bench.neighbours import beside
from tests.bench.processes import Child, broker
from tests.bench.values import Bar, Row, Sense

SINK: Final = "wide"
PARTITIONS: Final = 1_024
SUBSCRIPTIONS: Final = 100
CALLS: Final = 3
"""Of the statistics, in each round."""
START_BAR_S: Final = 5.0
WAIT_BAR_S: Final = 0.25


def fill(place: Path) -> None:
    """Make a store with such a sink: everything of it is acked."""
    store = RocksStore(place)
    journal = recover(store).journal
    journal.commit([], [PutSink(SinkRecord(1, SINK, "abc", SinkSettings(partitions=PARTITIONS), 7), fresh=True)])
    for name in ["default", *(f"s{number}" for number in range(1, SUBSCRIPTIONS))]:
        named = [] if name == "default" else [PutSubscription(1, SubscriptionRecord(name, 7, EARLIEST))]
        cursors = [PutCursor(1, name, at, Cursor(watermark=5, acked=5)) for at in range(PARTITIONS)]
        journal.commit([], [*named, *cursors])
    journal.commit([], [PutTail(1, at, Tail(5, 50, 5, 9, 9)) for at in range(PARTITIONS)])
    journal.commit([], [PutHead(1, at, Head(5, 5, 50, 5)) for at in range(PARTITIONS)])
    store.close()


async def ask(endpoint: str, process: Child) -> tuple[list[float], float, float]:
    """Ask for statistics with neighbours; returns what each took, the processor time of all, and the longest wait."""
    async with (
        grpc.aio.insecure_channel(endpoint, options=[("grpc.max_receive_message_length", -1)]) as channel,
        grpc.aio.insecure_channel(endpoint, options=[("grpc.use_local_subchannel_pool", 1)]) as other,
        beside(other) as neighbours,
    ):
        stub: Any = SinkServiceStub(channel)
        before, took = process.cost(), []
        for _ in range(CALLS):
            begun = time.perf_counter()
            await stub.GetSinkStats(pb.GetSinkStatsRequest(name=SINK))
            took.append(time.perf_counter() - begun)
            await asyncio.sleep(0.1)
        cost = process.cost_since(before)
    return took, cost.processor_s, max(*neighbours.publish_s, *neighbours.deliver_s)


def measure(folder: Path, *, rounds: int, rows: list[Row], bars: list[Bar], say: Callable[[str], None]) -> None:
    """Start on such a store and ask it for statistics, round by round."""
    starts: list[float] = []
    calls: list[float] = []
    waits: list[float] = []
    memory = 0.0
    for number in range(rounds):
        say(f"{PARTITIONS:,} partitions with {SUBSCRIPTIONS} subscriptions, round {number + 1} of {rounds}")
        place = folder / f"lanes-{number}"
        fill(place)
        begun = time.perf_counter()
        with broker(place, folder / "broker.log") as (process, endpoint):
            starts.append(time.perf_counter() - begun)
            with Client(endpoint) as client:
                client.sinks.create(NEIGHBOURS)
            took, processor_s, longest_s = uvloop.run(ask(endpoint, process))
            calls += took
            waits.append(longest_s)
            memory = max(memory, process.memory_peak_mib())
        say(
            f"started in {starts[-1]:.2f} s; statistics took {max(took):.2f} s at most,"
            f" {processor_s / CALLS:.2f} s of a processor each; longest wait beside it {longest_s * 1e3:.0f} ms"
        )
    name = f"{PARTITIONS:,} partitions, {SUBSCRIPTIONS} subscriptions"
    rows.append(Row(f"start, {name}", p50_ms=median(starts) * 1e3, memory_mib=memory, runs=rounds))
    rows.append(Row(f"statistics, {name}", p50_ms=median(calls) * 1e3, p99_ms=max(calls) * 1e3, runs=len(calls)))
    bars.append(Bar(f"start / 5 s, {name}", median(starts) / START_BAR_S, 1.0, Sense.AT_MOST))
    bars.append(Bar(f"longest wait beside / 250 ms, {name}", median(waits) / WAIT_BAR_S, 1.0, Sense.AT_MOST))
