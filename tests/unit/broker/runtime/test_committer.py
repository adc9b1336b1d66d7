from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from holdfast.broker.core.cursor import Cursor
from holdfast.broker.core.errors import DiskFull, StoreFenced, TooManyWaiting
from holdfast.broker.core.log import PartitionLog
from holdfast.broker.core.writes import PutAge, PutCursor
from holdfast.broker.runtime import group
from holdfast.broker.runtime.clock import FakeClock
from holdfast.broker.runtime.committer import Committer, Synced
from holdfast.broker.runtime.group import Append, Lineup
from holdfast.broker.runtime.tail import Tail
from holdfast.broker.storage.journal import Journal
from holdfast.broker.storage.memory import Action, MemoryStore
from holdfast.broker.storage.recovery import recover
from tests.unit.broker.runtime.held_store import HeldStore
from tests.unit.broker.samples import page

pytestmark = pytest.mark.anyio


class Bench:
    """A committer, one partition, and what happened."""

    def __init__(self, store: MemoryStore, *, waiting_bytes_max: int, reserve: int) -> None:
        self.journal: Journal = recover(store).journal
        self.tail = Tail(1 << 20)
        self.fenced: list[StoreFenced] = []
        self.synced: list[Synced] = []
        self.confirmed: list[int] = []
        self.order: list[int] = []
        self.log = PartitionLog(0)
        self.lineup = Lineup(1, self.log, lambda _, entries: self.confirmed.extend(e.base for e in entries))
        self.committer = Committer(
            self.journal,
            FakeClock(),
            self.tail,
            start_count=1,
            waiting_bytes_max=waiting_bytes_max,
            disk_reserve_bytes=reserve,
            on_fenced=self.fenced.append,
            on_synced=self.synced.append,
        )

    def append(self, *found: bytes, page_records: int = 256, to: Lineup | None = None) -> Append:
        to = to or self.lineup
        asked = page(*found, partition=to.log.number)
        append = Append(
            page=asked,
            first=to.log.reserve(len(found), len(asked.body)),
            accepted_at_us=1,
            age_us=1,
            slot=None,
            page_records=page_records,
            done=asyncio.get_running_loop().create_future(),
        )
        append.done.add_done_callback(lambda _: self.order.append(append.first))
        self.committer.append(to, append)
        return append


@asynccontextmanager
async def bench(
    store: MemoryStore | None = None, *, waiting_bytes_max: int = 1 << 30, reserve: int = 0
) -> AsyncIterator[Bench]:
    one = Bench(store or MemoryStore(), waiting_bytes_max=waiting_bytes_max, reserve=reserve)
    one.committer.start()
    try:
        yield one
    finally:
        await one.committer.close()
        one.journal.close()


async def test_an_append_is_answered_when_its_sync_has_returned_and_not_before() -> None:
    store = HeldStore()
    async with bench(store) as at:
        store.hold()
        append = at.append(b"a")
        await store.reached()

        assert not append.done.done()
        assert (at.log.tail.next_offset, at.log.recent, at.tail.size) == (0, [], 0)
        store.let_go()
        await append.done

        assert (at.log.tail.next_offset, at.confirmed, at.committer.waiting_bytes) == (1, [0], 0)
        assert at.tail.size == len(append.page.body)


async def test_all_that_comes_during_a_sync_shares_the_next_one() -> None:
    store = HeldStore()
    async with bench(store) as at:
        store.hold()
        first = at.append(b"a")
        await store.reached()
        rest = [at.append(b"b") for _ in range(50)]
        before = at.committer.groups
        store.let_go()
        await asyncio.gather(first.done, *(append.done for append in rest))

        assert at.committer.groups - before == 2
        assert [synced.pages for synced in at.synced[-2:]] == [1, 1]


async def test_results_come_in_the_order_of_the_appends() -> None:
    async with bench() as at:
        appends = [at.append(b"x" * (number % 7), page_records=3) for number in range(40)]
        await asyncio.gather(*(append.done for append in appends))

        assert at.order == [append.first for append in appends]


async def test_writes_become_durable_with_the_next_batch() -> None:
    store = HeldStore()
    async with bench(store) as at:
        store.hold()
        under_way = at.append(b"a")
        await store.reached()
        written = at.committer.write([PutAge(1, 2)])
        appended = at.append(b"b")
        before = at.committer.groups
        store.let_go()
        await asyncio.gather(under_way.done, written, appended.done)

        assert at.committer.groups - before == 2


async def test_of_many_cursors_in_a_batch_the_last_is_stored() -> None:
    store = HeldStore()
    async with bench(store) as at:
        store.hold()
        under_way = at.committer.write([PutAge(1, 2)])
        await store.reached()
        waiting = [
            at.committer.write([PutCursor(1, "default", 0, Cursor(watermark=number, acked=number))])
            for number in range(10)
        ]
        store.let_go()
        await asyncio.gather(under_way, *waiting)

        assert at.synced[-1].writes == 1
        [stored] = [value for key, value in store.scan_meta() if key[0] == 0x13]
        assert b"\x00\x00\x00\x09" in stored


async def test_no_more_bytes_wait_than_the_bound_allows() -> None:
    store = HeldStore()
    async with bench(store, waiting_bytes_max=100) as at:
        store.hold()
        append = at.append(b"x" * 80)
        size = len(append.page.body)

        at.committer.admit(100 - size)
        with pytest.raises(TooManyWaiting) as refused:
            at.committer.admit(101 - size)

        assert refused.value.facts == {"waiting": str(size), "bound": "100"}
        store.let_go()
        await append.done
        at.committer.admit(100)


async def test_one_append_over_the_bound_passes_when_nothing_waits() -> None:
    async with bench(waiting_bytes_max=100) as at:
        at.committer.admit(101)


async def test_appends_stop_at_the_reserve_of_the_disk_and_come_back_by_themselves() -> None:
    store = MemoryStore()
    async with bench(store, reserve=1_000) as at:
        store.room = 1_500
        at.committer.look_at_disk()

        at.committer.admit(500)
        with pytest.raises(DiskFull) as refused:
            at.committer.admit(501)

        assert refused.value.facts == {"free": "1500", "reserve": "1000"}
        store.room = 10_000
        at.committer.look_at_disk()
        at.committer.admit(501)


async def test_what_waits_for_its_sync_counts_against_the_disk() -> None:
    store = HeldStore()
    store.room = 2_000
    async with bench(store, reserve=1_000) as at:
        store.hold()
        append = at.append(b"x" * 600)

        with pytest.raises(DiskFull):
            at.committer.admit(600)
        store.let_go()
        await append.done


@pytest.mark.parametrize("action", ["write", "sync"])
async def test_after_a_failure_everyone_who_waits_hears_of_it_and_nothing_is_tried_again(action: Action) -> None:
    store = HeldStore()
    async with bench(store) as at:
        moment = at.committer.committed.next()
        store.hold()
        first = at.append(b"a")
        await store.reached()
        behind = at.append(b"b")
        written = at.committer.write([PutAge(1, 2)])
        store.fail_next(action)
        store.let_go()
        failures = await asyncio.gather(first.done, behind.done, written, return_exceptions=True)

        assert [type(failure) for failure in failures][1:] == [StoreFenced, StoreFenced]
        assert at.fenced == [at.committer.fenced]
        assert moment.is_set()
        late = at.append(b"c")
        with pytest.raises(StoreFenced):
            await late.done
        with pytest.raises(StoreFenced):
            await at.committer.write([PutAge(1, 2)])
        with pytest.raises(StoreFenced):
            at.committer.admit(1)
        assert at.log.tail.next_offset == (1 if failures[0] is None else 0)


async def test_a_failed_ingest_fences_too() -> None:
    store = MemoryStore()
    async with bench(store) as at:
        store.fail_next("ingest")
        appends = [at.append(b"x" * (1 << 20)) for _ in range(5)]
        failures = await asyncio.gather(*(append.done for append in appends), return_exceptions=True)

        assert {type(failure) for failure in failures} == {StoreFenced}
        assert at.log.recent == []


class BrokenStore(MemoryStore):
    """A store with a mistake in it."""

    broken = False

    def sync(self) -> None:
        """Fail as nobody foresaw."""
        if self.broken:
            raise RuntimeError("a mistake")
        super().sync()


async def test_a_mistake_of_our_own_fences_instead_of_hanging() -> None:
    store = BrokenStore()
    async with bench(store) as at:
        store.broken = True
        append = at.append(b"a")

        with pytest.raises(StoreFenced, match="a mistake"):
            await append.done

        assert len(at.fenced) == 1


async def test_partitions_that_a_group_has_left_out_are_in_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "GROUP_BYTES", 20)
    monkeypatch.setattr(group, "QUANTUM_BYTES", 10)
    store = HeldStore()
    served: list[int] = []
    async with bench(store) as at:
        lines = [Lineup(1, PartitionLog(number), lambda n, _: served.append(n)) for number in range(1, 5)]
        store.hold()
        under_way = at.append(b"a")
        await store.reached()
        appends = [at.append(b"x" * 20, to=line) for line in lines for _ in range(3)]
        store.let_go()
        await asyncio.gather(under_way.done, *(append.done for append in appends))

        assert served == [1, 2, 3, 4] * 3


async def test_closing_commits_what_waits() -> None:
    async with bench() as at:
        append = at.append(b"a")

    assert append.done.result() is None


async def test_page_numbers_of_two_starts_never_meet() -> None:
    store = MemoryStore()
    async with bench(store) as at:
        await at.append(b"a").done
        [entry] = at.log.recent

    assert entry.number == (1 << 40) + 1
