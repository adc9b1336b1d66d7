"""Every read of the store fails in turn, for a moment or for longer: nothing is dropped, and all is delivered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from forebay.broker.core.errors import DiskFull, ReadFailed
from forebay.broker.core.partition.pages import Gap
from forebay.broker.core.settings import Overflow, SinkSettings
from forebay.broker.runtime.broker import Bounds, Broker
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.runtime.read import pages as pages_module
from forebay.broker.runtime.read.replay import Batch
from forebay.broker.storage import recovery
from forebay.broker.storage.errors import StoreUnreadable
from forebay.broker.storage.store.contract import Family
from forebay.broker.storage.store.memory import MemoryStore
from tests.support.brokers.one_sink import fill
from tests.support.brokers.running import begin
from tests.support.brokers.taker import Taker

pytestmark = pytest.mark.anyio
PAGES = 6
SHORT, LONG = 1, 12
"""Reads in a row that fail: fewer and more than are tried at once."""


class FailingStore(MemoryStore):
    """A memory store whose reads fail from the n-th on, a number of times."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0
        self.fail_from = -1
        self.fail_count = 0

    def taken_over(self, other: MemoryStore) -> FailingStore:
        """Hold what ``other`` holds."""
        vars(self).update({**vars(self), **vars(other)})
        return self

    @contextmanager
    def _fails(self) -> Iterator[None]:
        number, self.reads = self.reads, self.reads + 1
        if self.fail_from <= number < self.fail_from + self.fail_count:
            raise StoreUnreadable("Input/output error")
        yield

    def get_many(self, family: Family, keys: Sequence[bytes]) -> list[bytes | None]:
        with self._fails():
            return super().get_many(family, keys)

    def scan(
        self, family: Family, first: bytes, end: bytes, limit: int, *, reverse: bool = False
    ) -> list[tuple[bytes, bytes]]:
        with self._fails():
            return super().scan(family, first, end, limit, reverse=reverse)

    def bulk_keys(self, first: bytes, end: bytes, limit: int, *, here: bool = False) -> list[bytes]:
        with self._fails():
            return super().bulk_keys(first, end, limit, here=here)

    def highest_keys(self) -> list[bytes]:
        with self._fails():
            return super().highest_keys()

    def live_bytes(self) -> int:
        with self._fails():
            return super().live_bytes()

    def free_bytes(self) -> int:
        with self._fails():
            return super().free_bytes()


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try again at once."""
    monkeypatch.setattr(pages_module, "RETRY_DELAYS_S", (0.0, 0.0))
    monkeypatch.setattr(recovery, "START_READ_DELAYS_S", (0.0,) * (LONG + 1))


async def stored() -> MemoryStore:
    """A store with pages that a start has to read from the disk."""
    store = MemoryStore()
    broker = begin(store, FakeClock())
    settings = SinkSettings(buffer_page_size=1, max_disk_cache=100, overflow=Overflow.DROP_OLDEST)
    await broker.create("orders", settings)
    await fill(broker.sink("orders"), PAGES)
    await broker.close()
    return store.reopen()


async def used(broker: Broker, clock: FakeClock) -> tuple[list[int], list[int], list[Gap]]:
    """Deliver, ack and replay everything, and append; offsets delivered and replayed, and gaps."""
    buffer = broker.sink("orders")
    await _appended(broker)
    taker = Taker(buffer.subscription(""))
    delivered: list[int] = []
    for _ in range(10 * LONG):
        delivered += await taker.all_offsets()
        if len(delivered) > PAGES:
            break
        clock.advance(6.0)
    replayed, gaps = await _replayed(broker)
    await taker.ack(0, PAGES + 1)
    return delivered, replayed, gaps


async def _appended(broker: Broker) -> None:
    """Append a page, as a publisher does that tries again."""
    for _ in range(LONG + 1):
        try:
            await fill(broker.sink("orders"), 1)
        except ReadFailed:
            continue
        except DiskFull:  # the device has not said yet how much it has left
            broker.committer.check_disk()
            continue
        return


async def _replayed(broker: Broker) -> tuple[list[int], list[Gap]]:
    found: list[int] = []
    gaps: list[Gap] = []
    buffer = broker.sink("orders")
    for _ in range(10 * LONG):
        reading = buffer.replay(0, ahead=True)
        try:
            async for step in reading.read(len(found), PAGES + 1, follow=False):
                if isinstance(step, Batch):
                    found += [entry.base for entry, _ in step.pages]
                else:
                    gaps.append(step)
        except ReadFailed:
            continue
        break
    return found, gaps


async def reads_of_a_run() -> int:
    """Number of reads of a start and of the use of its sink."""
    store = FailingStore().taken_over(await stored())
    clock = FakeClock()
    broker = begin(store, clock, bounds=Bounds(tail_bytes=0))
    await used(broker, clock)
    await broker.close()
    return store.reads


@pytest.mark.parametrize("fail_count", [SHORT, LONG], ids=["for a moment", "for longer"])
async def test_whichever_read_fails_nothing_is_dropped_and_all_is_delivered(fail_count: int) -> None:
    total = await reads_of_a_run()
    assert total > 30
    for number in range(total):
        store = FailingStore().taken_over(await stored())
        store.fail_from, store.fail_count = number, fail_count
        clock = FakeClock()
        broker = begin(store, clock, bounds=Bounds(tail_bytes=0))

        delivered, replayed, gaps = await used(broker, clock)

        log = broker.sink("orders").logs[0]
        where = f"read {number} of {total}"
        assert delivered == list(range(PAGES + 1)), where
        assert replayed == list(range(PAGES + 1)), where
        assert (gaps, log.head.dropped, broker.quarantine.pages) == ([], (), 0), where
        assert (broker.repairs, broker.committer.fenced) == ((), None), where
        await broker.close()
