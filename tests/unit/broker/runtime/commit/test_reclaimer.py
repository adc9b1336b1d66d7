from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from forebay.broker.core.errors import ReadFailed
from forebay.broker.core.settings import SinkSettings
from forebay.broker.core.writes import Due
from forebay.broker.runtime.broker import Broker
from forebay.broker.runtime.commit import reclaimer
from forebay.broker.runtime.commit.store import Journal
from forebay.broker.storage.errors import StoreUnreadable
from forebay.broker.storage.records.pages.due import DUE
from forebay.broker.storage.records.pages.page import BULK_PAGE
from forebay.broker.storage.records.sinks.sink import NEXT_SINK
from forebay.broker.storage.records.store import AGE, COUNTING, HIGHEST, START, STORE_ID
from forebay.broker.storage.store.contract import Family
from forebay.broker.storage.store.memory import MemoryStore
from tests.support.brokers.running import running
from tests.support.brokers.taker import Taker
from tests.support.pages.samples import page

pytestmark = pytest.mark.anyio
MIB = 1 << 20


@pytest.fixture
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reclaim as soon as nothing new became due."""
    monkeypatch.setattr(reclaimer, "IDLE_S", 0.01)


@asynccontextmanager
async def sink(store: MemoryStore, *, pages: int, size: int = 10) -> AsyncIterator[Broker]:
    async with running(store) as broker:
        buffer, _ = await broker.create("orders", SinkSettings(buffer_page_size=1))
        appends = [await buffer.append(page(b"x" * size)) for _ in range(pages)]
        await asyncio.gather(*(append.done for append in appends))
        yield broker


async def settle(broker: Broker, first: int, end: int) -> None:
    """Take and ack a range."""
    taker = Taker(broker.sink("orders").subscription(""))
    await taker.all_offsets()
    await taker.ack(first, end)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.001)


def stored(store: MemoryStore, family: Family) -> int:
    return len(store.scan(family, b"", b"\xff", 1_000))


def ledger(store: MemoryStore) -> int:
    return len(store.scan(Family.META, *DUE.under(), 1_000))


@pytest.mark.usefixtures("hurry")
async def test_settled_pages_are_deleted_and_the_ledger_forgets_them() -> None:
    store = MemoryStore()
    async with sink(store, pages=10) as broker:
        await settle(broker, 0, 7)

        await until(lambda: stored(store, Family.SMALL) == 3 and ledger(store) == 0)

        assert stored(store, Family.INDEX) == 3 + 1, "pages, and the copy of the sink"
        await until(lambda: broker.reclaimer.reclaimed_bytes == 7 * len(page(b"x" * 10).body))


@pytest.mark.usefixtures("hurry")
async def test_bulk_pages_give_their_space_back() -> None:
    store = MemoryStore()
    async with sink(store, pages=6, size=MIB) as broker:
        full = store.live_bytes()
        bulk = stored(store, Family.BULK)
        await settle(broker, 0, 6)

        await until(lambda: stored(store, Family.BULK) == 0 and ledger(store) == 0)

        assert bulk > 0
        assert full > 6 * MIB
        assert store.live_bytes() < MIB


async def test_pages_not_reclaimed_before_a_stop_are_reclaimed_after_the_next_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = MemoryStore()
    async with sink(store, pages=10) as broker:
        await settle(broker, 0, 10)
        await until(lambda: ledger(store) > 0)
        left = stored(store, Family.SMALL)
    monkeypatch.setattr(reclaimer, "IDLE_S", 0.01)
    store = store.reopen()
    async with running(store):
        await until(lambda: ledger(store) == 0)

        assert (left, stored(store, Family.SMALL)) == (10, 0)


@pytest.mark.usefixtures("hurry")
async def test_small_pages_are_reclaimed_beside_a_backup_that_holds_the_bulk_ones_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reclaimer, "IDLE_S", 0.01)
    store = MemoryStore()
    async with sink(store, pages=6, size=MIB) as broker:
        small, _ = await broker.create("events", SinkSettings(buffer_page_size=1))
        await (await small.append(page(b"x"))).done
        async with broker.reclaimer.held():
            await settle(broker, 0, 6)
            taker = Taker(small.subscription(""))
            await taker.all_offsets()
            await taker.ack(0, 1)
            await until(lambda: stored(store, Family.SMALL) == 0)
            held = stored(store, Family.BULK)

        assert held == 6
        await until(lambda: stored(store, Family.BULK) == 0)


async def test_a_hold_that_begins_between_two_slices_does_not_keep_the_small_pages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reclaimer, "IDLE_S", 0.01)
    monkeypatch.setattr(reclaimer, "DELETES_MAX", 1)
    store = MemoryStore()
    async with sink(store, pages=6, size=MIB) as broker:
        small, _ = await broker.create("events", SinkSettings(buffer_page_size=1))
        await (await small.append(page(b"x"))).done
        holding, release = asyncio.Event(), asyncio.Event()
        reclaim = broker.reclaimer._reclaim_bulk

        async def hold() -> None:
            async with broker.reclaimer.held():
                holding.set()
                await release.wait()

        async def first(dues: Sequence[Due]) -> None:
            monkeypatch.setattr(broker.reclaimer, "_reclaim_bulk", reclaim)
            holder.append(asyncio.ensure_future(hold()))
            await reclaim(dues)
            await holding.wait()

        holder: list[asyncio.Future[None]] = []
        monkeypatch.setattr(broker.reclaimer, "_reclaim_bulk", first)
        taker = Taker(small.subscription(""))
        await taker.all_offsets()
        await settle(broker, 0, 6)
        await taker.ack(0, 1)
        await until(lambda: holding.is_set() and stored(store, Family.SMALL) == 0)
        release.set()
        await holder[0]
        await until(lambda: stored(store, Family.BULK) == 0)


async def test_a_deleted_sink_leaves_nothing_behind() -> None:
    store = MemoryStore()
    async with sink(store, pages=10, size=MIB) as broker:
        await settle(broker, 0, 3)
        await broker.writers["orders"].open("w", None)
        await broker.delete("orders", force=True)

        await until(lambda: stored(store, Family.BULK) + stored(store, Family.SMALL) + ledger(store) == 0)

        left = {key[:1] for key, _ in store.scan(Family.META, b"", b"\xff", 1_000)}
        assert left <= {STORE_ID.key(), START.key(), HIGHEST.key(), NEXT_SINK.key(), AGE.key(), COUNTING.key()}
        assert stored(store, Family.INDEX) == 0
        assert store.live_bytes() < MIB


class PartlyRemote(MemoryStore):
    """A store of which some keys are in remote files."""

    def __init__(self) -> None:
        super().__init__()
        self.remote: frozenset[bytes] = frozenset()

    def remote_bytes(self) -> int:
        """See ``Store.remote_bytes``."""
        return len(self.remote)

    def bulk_keys(self, first: bytes, end: bytes, limit: int, *, here: bool = False) -> list[bytes]:
        """See ``Store.bulk_keys``."""
        assert here or not self.remote, "all remote files would be fetched"
        return [key for key in super().bulk_keys(first, end, 1_000) if key not in self.remote][:limit]


@pytest.mark.usefixtures("hurry")
async def test_a_deleted_sink_gives_its_space_back_without_the_transfer_of_a_remote_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reclaimer, "ARRIVAL_S", 0.01)
    store = PartlyRemote()
    async with sink(store, pages=6, size=MIB) as broker:
        other, _ = await broker.create("other", SinkSettings(buffer_page_size=1))
        await asyncio.gather(*[(await other.append(page(b"y" * MIB))).done for _ in range(6)])
        of_orders, of_other = keys_of(store, broker, "orders"), keys_of(store, broker, "other")
        store.remote = frozenset([*of_orders[:2], *of_other[:2]])

        await broker.delete("orders", force=True)
        await until(lambda: set(bulk_of(store)) == {*of_orders[:2], *of_other})
        taker = Taker(broker.sink("other").subscription(""))
        await taker.all_offsets()
        await taker.ack(0, 3)
        await until(lambda: set(bulk_of(store)) == {*of_orders[:2], *of_other[3:]})
        await until(lambda: ledger(store) == 1)  # that of the deleted sink

        store.remote = frozenset()
        await until(lambda: set(bulk_of(store)) == set(of_other[3:]) and ledger(store) == 0)


@pytest.mark.usefixtures("hurry")
async def test_a_sink_that_was_deleted_while_pages_were_remote_is_reclaimed_after_the_next_start() -> None:
    store = PartlyRemote()
    async with sink(store, pages=6, size=MIB) as broker:
        remote = bulk_of(store)[:2]
        store.remote = frozenset(remote)
        await broker.delete("orders", force=True)
        await until(lambda: bulk_of(store) == remote and ledger(store) == 1)

    again = store.reopen()
    async with running(again):
        await until(lambda: bulk_of(again) == [] and ledger(again) == 0)


def bulk_of(store: MemoryStore) -> list[bytes]:
    return [key for key, _ in store.scan(Family.BULK, b"", b"\xff", 1_000)]


def keys_of(store: MemoryStore, broker: Broker, name: str) -> list[bytes]:
    number = broker.sink(name).record.id
    return [key for key in bulk_of(store) if BULK_PAGE.parts(key)[1] == number]


class UnreadableSink:
    """A journal that cannot look up the pages of a sink."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    def bulk_of_sink(self, sink: int) -> list[Due]:
        raise ReadFailed(f"the files of sink {sink} cannot be read")


@pytest.mark.usefixtures("hurry")
async def test_pages_that_cannot_be_looked_up_keep_no_other_space(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    async with sink(store, pages=6, size=MIB) as broker:
        other, _ = await broker.create("other", SinkSettings(buffer_page_size=1))
        await (await other.append(page(b"y"))).done
        assert stored(store, Family.BULK) > 0
        journal: Any = UnreadableSink(broker.reclaimer._journal)
        monkeypatch.setattr(broker.reclaimer, "_journal", journal)
        await broker.delete("other", force=True)
        await until(lambda: "reclaimer" in broker.supervisor.failures)
        await settle(broker, 0, 6)

        await until(lambda: stored(store, Family.BULK) == 0 and ledger(store) == 1)  # that of the deleted sink


@pytest.mark.usefixtures("hurry")
async def test_more_small_pages_than_one_batch_deletes_go_in_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reclaimer, "DELETES_MAX", 3)
    store = MemoryStore()
    async with sink(store, pages=20) as broker:
        taker = Taker(broker.sink("orders").subscription(""))
        for offset in range(20):
            await taker.one()
            await taker.ack(offset, offset + 1)

        await until(lambda: stored(store, Family.SMALL) == 0 and ledger(store) == 0)


@pytest.mark.usefixtures("hurry")
async def test_a_page_whose_space_cannot_be_released_keeps_no_other_in_the_ledger(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = MemoryStore()
    async with sink(store, pages=6, size=MIB) as broker:
        damaged = store.scan(Family.BULK, b"", b"\xff", 1)[0][0]
        real = MemoryStore.compact

        def compact(self: MemoryStore, family: Family, first: bytes, end: bytes) -> None:
            if family is Family.BULK and first <= damaged < end:
                raise StoreUnreadable("Input/output error")
            real(self, family, first, end)

        monkeypatch.setattr(MemoryStore, "compact", compact)
        other, _ = await broker.create("events", SinkSettings(buffer_page_size=1))
        await (await other.append(page(b"x" * MIB))).done
        async with broker.reclaimer.held():
            await settle(broker, 0, 6)
            taker = Taker(other.subscription(""))
            await taker.all_offsets()
            await taker.ack(0, 1)

        await until(lambda: broker.reclaimer.reclaimed_bytes > 0)
        assert (stored(store, Family.BULK), ledger(store)) == (0, 1)
