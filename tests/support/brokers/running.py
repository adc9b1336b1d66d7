"""A broker without gRPC, for tests of what runs: built from its parts as the composition root does it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager

from forebay.broker.composition import build
from forebay.broker.core.settings import SinkSettings
from forebay.broker.rpc.pages.codec import PageCodec
from forebay.broker.runtime.broker import Bounds, Broker
from forebay.broker.runtime.clock import Clock, FakeClock
from forebay.broker.runtime.commit.accepted import Accepted
from forebay.broker.runtime.delivery.consumer import Consumer, Credit
from forebay.broker.runtime.delivery.events import Delivered, Event
from forebay.broker.runtime.delivery.subscription import Subscription
from forebay.broker.runtime.fleet import Fleet
from forebay.broker.runtime.instruments import Instruments
from forebay.broker.storage.errors import StoreFailed
from forebay.broker.storage.recovery import recover
from forebay.broker.storage.store.contract import CommitWindow, Family, Marks, Operation, Store, Value, WriteStall
from forebay.broker.storage.store.memory import MemoryStore
from tests.support.brokers.windowed_store import LateCommits
from tests.support.pages.samples import values

PLENTY = Credit(1_000_000, 1 << 30)


def begin(
    store: Store,
    clock: Clock,
    *,
    bounds: Bounds | None = None,
    sink_defaults: SinkSettings | None = None,
    instruments: Instruments | None = None,
    accepted: Accepted | None = None,
    delivered: Accepted | None = None,
    fleet: Fleet | None = None,
) -> Broker:
    """A broker on ``store`` that has begun to work."""
    broker = build(
        recover(store),
        clock,
        bounds=bounds,
        sink_defaults=sink_defaults,
        instruments=instruments,
        codec=PageCodec(),
        accepted=accepted,
        delivered=delivered,
        fleet=fleet,
    )
    broker.start()
    return broker


@asynccontextmanager
async def running(
    store: Store | None = None,
    clock: Clock | None = None,
    *,
    bounds: Bounds | None = None,
    instruments: Instruments | None = None,
    fleet: Fleet | None = None,
) -> AsyncIterator[Broker]:
    """A broker that works, and stops gracefully at the end."""
    broker = begin(
        store if store is not None else MemoryStore(),
        clock if clock is not None else FakeClock(),
        bounds=bounds,
        instruments=instruments,
        fleet=fleet,
    )
    try:
        yield broker
    finally:
        await broker.close()


class Hand:
    """A consumer without a stream: a test takes events for it, and examines what it was sent."""

    def __init__(self, subscription: Subscription, consumer_id: str = "hand", credit: Credit | None = None) -> None:
        self.subscription = subscription
        self.events: list[Event] = []
        self.consumer: Consumer = subscription.join(consumer_id, credit or Credit(*_plenty()), self.events.append)

    async def take(self, partition: int = 0, *, records_max: int | None = None) -> Event | None:
        """The next thing of a partition."""
        return await self.consumer.next_event(partition, self.subscription.lanes[partition], records_max=records_max)

    async def take_all(self, partition: int = 0) -> list[Event]:
        """Everything that may be sent now."""
        found: list[Event] = []
        while (event := await self.take(partition)) is not None:
            found.append(event)
        return found


def _plenty() -> tuple[int, int]:
    return PLENTY.records, PLENTY.size


def delivered_values(event: Delivered) -> list[tuple[int, bytes]]:
    """(offset, value) of the records to process."""
    found = [
        (entry.base + index, value) for entry, body in event.pages for index, value in enumerate(values(body.data))
    ]
    return [(offset, value) for offset, value in found if any(r.first <= offset < r.end for r in event.ranges)]


def move(subscription: Subscription, partition: int, offset: int) -> asyncio.Future[None]:
    """Move one partition of a subscription to ``offset``; done when it is durable."""
    return subscription.accounts.save(partition, subscription.move(partition, offset))


class Mortal:
    """A store that a test can take away from its broker in the middle, as a kill does."""

    def __init__(self, store: Store, *, is_windowed: bool = False) -> None:
        self.store = store
        self._window = LateCommits(self) if is_windowed else None
        self._cut = False
        self._lock = threading.Lock()
        """Held by each call, so that a cut comes between two of them."""

    def cut(self) -> None:
        """From now on nothing reaches the store."""
        with self._lock:
            self._cut = True

    def _alive(self, action: str) -> None:
        if self._cut:
            raise StoreFailed(action, "the process was killed")

    def commit(
        self, bulk: Sequence[tuple[bytes, Value]], operations: Sequence[Operation], *, sync: bool = True
    ) -> None:
        self.ingest(bulk)
        self.write(operations)
        if sync:
            self.sync()

    def ingest(self, items: Sequence[tuple[bytes, Value]]) -> None:
        with self._lock:
            self._alive("ingest")
            self.store.ingest(items)

    def write(self, operations: Sequence[Operation]) -> None:
        with self._lock:
            self._alive("write")
            self.store.write(operations)

    def sync(self) -> None:
        with self._lock:
            self._alive("sync")
            self.store.sync()

    def mark(self, marks: Marks) -> None:
        self.store.mark(marks)

    def marked(self) -> Marks:
        return self.store.marked()

    def window(self) -> CommitWindow | None:
        return self._window

    def is_replica(self) -> bool:
        return self.store.is_replica()

    def rewrite(self, family: Family, wanted: Sequence[bytes] = ()) -> list[tuple[bytes, bytes]]:
        with self._lock:
            self._alive("write")
            return self.store.rewrite(family, wanted)

    def compact(self, family: Family, first: bytes, end: bytes) -> None:
        with self._lock:
            self._alive("compact")
            self.store.compact(family, first, end)

    def get_many(self, family: Family, keys: Sequence[bytes]) -> list[bytes | None]:
        return self.store.get_many(family, keys)

    def prefetch(self, keys: Sequence[bytes]) -> None:
        self.store.prefetch(keys)

    def is_remote(self, keys: Iterable[bytes]) -> bool:
        return self.store.is_remote(keys)

    def remote_bytes(self) -> int:
        return self.store.remote_bytes()

    def end_transfers(self) -> None:
        self.store.end_transfers()

    def scan(
        self, family: Family, first: bytes, end: bytes, limit: int, *, reverse: bool = False
    ) -> list[tuple[bytes, bytes]]:
        return self.store.scan(family, first, end, limit, reverse=reverse)

    def bulk_keys(self, first: bytes, end: bytes, limit: int, *, here: bool = False) -> list[bytes]:
        return self.store.bulk_keys(first, end, limit, here=here)

    def highest_keys(self) -> list[bytes]:
        return self.store.highest_keys()

    def is_ready(self) -> bool:
        return self.store.is_ready()

    def live_bytes(self) -> int:
        return self.store.live_bytes()

    def free_bytes(self) -> int:
        return self.store.free_bytes()

    def write_stall(self) -> WriteStall:
        return self.store.write_stall()

    def write_stall_s(self) -> float | None:
        return self.store.write_stall_s()

    def close(self) -> None:
        """Give nothing up: the test decides what the next process finds."""


class CutAfter(Mortal):
    """A store whose process dies after so many more batches."""

    left = -1

    def _alive(self, action: str) -> None:
        if action == "write" and self.left >= 0:
            self._cut = self._cut or self.left == 0
            self.left = max(0, self.left - 1)
        super()._alive(action)
