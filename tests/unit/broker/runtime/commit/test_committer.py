from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import pytest

from forebay.broker.core.errors import DiskFull, JournalAway, JournalFull, StoreFenced, TooManyWaiting
from forebay.broker.core.journal_outage import JournalOutage
from forebay.broker.core.partition.cursor import Cursor
from forebay.broker.core.partition.log import PartitionLog
from forebay.broker.core.writes import PutAge, PutCursor
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.runtime.commit import group
from forebay.broker.runtime.commit.committer import GROW_BESIDE_S, GROW_S, Synced
from forebay.broker.runtime.commit.group import AppendQueue
from forebay.broker.runtime.read.page_cache import PAGE_BYTES
from forebay.broker.storage.store.memory import MemoryStore
from tests.support.brokers.held_store import HeldStore
from tests.support.brokers.windowed_store import WindowedStore
from tests.unit.broker.runtime.bench import bench

pytestmark = pytest.mark.anyio


async def test_an_append_is_answered_when_its_sync_has_returned_and_not_before() -> None:
    store = HeldStore()
    async with bench(store) as at:
        store.hold()
        append = at.append(b"a")
        await store.reached()

        assert not append.done.done()
        assert (at.log.tail.next_offset, at.log.recent, at.read_cache.size) == (0, [], 0)
        store.let_go()
        await append.done

        assert (at.log.tail.next_offset, at.confirmed, at.committer.waiting_bytes) == (1, [0], 0)
        assert at.read_cache.size == len(append.page.body) + PAGE_BYTES


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


@pytest.mark.parametrize(("is_full", "kind"), [(False, JournalAway), (True, JournalFull)])
async def test_an_append_over_the_bound_during_an_outage_of_the_journal_is_rejected_with_its_reason(
    is_full: bool, kind: type[JournalAway | JournalFull]
) -> None:
    store = HeldStore()
    async with bench(store, waiting_bytes_max=100) as at:
        store.hold()
        append = at.append(b"x" * 80)
        size = len(append.page.body)
        at.shard_journal.now = JournalOutage(is_full, 1.0, "it is away")

        at.committer.admit(100 - size)
        with pytest.raises(kind) as refused:
            at.committer.admit(101 - size)

        assert f"{size} bytes wait for it" in str(refused.value)
        store.let_go()
        await append.done
        at.committer.admit(100)


async def test_appends_stop_at_the_reserve_of_the_journal_and_acks_continue() -> None:
    async with bench(reserve=1_000) as at:
        at.shard_journal.free_bytes = 1_500

        at.committer.admit(500)
        with pytest.raises(JournalFull, match="1500 bytes are free, the reserve is 1000"):
            at.committer.admit(501)

        await at.committer.write([PutAge(1, 2)])
        at.shard_journal.free_bytes = 10_000
        at.committer.admit(501)


async def test_one_append_over_the_bound_passes_when_nothing_waits() -> None:
    async with bench(waiting_bytes_max=100) as at:
        at.committer.admit(101)


async def test_appends_stop_at_the_reserve_of_the_disk_and_resume_by_themselves() -> None:
    store = MemoryStore()
    async with bench(store, reserve=1_000) as at:
        store.room = 1_500
        at.committer.check_disk()

        at.committer.admit(500)
        with pytest.raises(DiskFull) as refused:
            at.committer.admit(501)

        assert refused.value.facts == {"free": "1500", "reserve": "1000"}
        store.room = 10_000
        at.committer.check_disk()
        at.committer.admit(501)


async def test_an_append_that_waits_for_its_sync_counts_against_the_free_disk_space() -> None:
    store = HeldStore()
    store.room = 2_000
    async with bench(store, reserve=1_000) as at:
        store.hold()
        append = at.append(b"x" * 600)

        with pytest.raises(DiskFull):
            at.committer.admit(600)
        store.let_go()
        await append.done


async def test_partitions_that_a_group_has_left_out_are_in_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "GROUP_BYTES", 20)
    monkeypatch.setattr(group, "QUANTUM_BYTES", 10)
    store = HeldStore()
    served: list[int] = []
    async with bench(store) as at:
        lines = [AppendQueue(1, PartitionLog(number), lambda n, _: served.append(n)) for number in range(1, 5)]
        store.hold()
        under_way = at.append(b"a")
        await store.reached()
        appends = [at.append(b"x" * 20, to=line) for line in lines for _ in range(3)]
        store.let_go()
        await asyncio.gather(under_way.done, *(append.done for append in appends))

        assert served == [1, 2, 3, 4] * 3


async def test_a_small_append_waits_for_no_second_bulk_file() -> None:
    store = HeldStore()
    served: list[int] = []
    async with bench(store) as at:
        bulk, small = [AppendQueue(1, PartitionLog(number), lambda n, _: served.append(n)) for number in (1, 2)]
        value = b"x" * (group.BULK_BYTES // 4)
        store.hold()
        under_way = at.append(b"a")
        await store.reached()
        large = [at.append(value, to=bulk) for _ in range(4)]
        store.let_one_go()
        await under_way.done
        await store.reached()
        large += [at.append(value, to=bulk) for _ in range(4)]
        append = at.append(b"y", to=small)
        store.let_go()
        await append.done

        assert served == [1, 2]
        await asyncio.gather(*(each.done for each in large))
        assert served == [1, 2, 1]


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


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.001)


async def test_a_large_batch_begins_beside_open_ones_and_a_small_one_waits_for_them() -> None:
    store = WindowedStore()
    async with bench(store, beside_bytes=100) as at:
        store.ends.close()
        appends = [at.append(b"x" * 100)]
        await store.ends.reached()
        appends += [at.append(b"x")]
        for _ in range(10):
            await asyncio.sleep(0)
        begun = [store.begun]
        appends += [at.append(b"x" * 100)]
        await until(lambda: store.begun == 2)
        appends += [at.append(b"x" * 100)]
        await until(lambda: store.begun == store.size)
        appends += [at.append(b"x" * 1_000)]
        for _ in range(10):
            await asyncio.sleep(0)
        begun.append(store.begun)
        store.ends.open()
        await asyncio.gather(*(append.done for append in appends))

        assert begun == [1, 3]
        assert at.order == [append.first for append in appends]


class TickingClock(FakeClock):
    """Clock on which a millisecond passes with each reading."""

    def monotonic(self) -> float:
        """See ``Clock.monotonic``."""
        self.advance(0.001)
        return self.now


@pytest.mark.parametrize("before", ["confirmed", "open", "open for a while"])
async def test_a_group_under_load_grows_longer_while_the_one_before_it_is_open(before: str) -> None:
    clock = TickingClock()
    store = WindowedStore()
    began: list[float] = []
    store.on_begin = lambda: began.append(clock.now)
    async with bench(store, clock=clock) as at:
        if before != "confirmed":
            store.ends.close()
        appends = [at.append(bytes(group.BULK_BYTES))]
        if before == "confirmed":
            await appends[0].done
        else:
            await store.ends.reached()
        waits_since = clock.now
        while store.begun < 2:
            appends.append(at.append(b"x"))
            await asyncio.sleep(0)
            if before == "open for a while" and clock.now - waits_since > GROW_S:
                store.ends.open()
        store.ends.open()
        await asyncio.gather(*(append.done for append in appends))

        waited_s = began[1] - waits_since
        assert waited_s >= (GROW_BESIDE_S if before == "open" else GROW_S)
        assert before == "open" or waited_s < GROW_BESIDE_S


async def test_a_group_beside_an_open_one_begins_when_it_has_stopped_growing() -> None:
    clock = TickingClock()
    store = WindowedStore()
    began: list[float] = []
    store.on_begin = lambda: began.append(clock.now)
    async with bench(store, clock=clock) as at:
        store.ends.close()
        appends = [at.append(bytes(group.BULK_BYTES))]
        await store.ends.reached()
        waits_since = clock.now
        appends.append(at.append(b"x"))
        await until(lambda: store.begun == 2)
        store.ends.open()
        await asyncio.gather(*(append.done for append in appends))

        assert began[1] - waits_since < GROW_S


async def test_pages_of_open_batches_continue_each_other() -> None:
    store = WindowedStore()
    async with bench(store) as at:
        store.ends.close()
        first = at.append(b"a", b"b")
        await until(lambda: store.begun == 1)
        second = at.append(b"c")
        await until(lambda: store.begun == 2)
        assert at.log.tail.next_offset == 0
        assert at.log.decided.next_offset == 3
        store.ends.open()
        await asyncio.gather(first.done, second.done)

        one, two = at.log.recent
        assert (two.base, two.bytes_before, two.pages_before) == (one.end, one.size, 1)
        assert at.log.tail == at.log.decided


async def test_a_batch_that_fails_fails_all_that_are_open_and_what_waits() -> None:
    store = WindowedStore()
    async with bench(store) as at:
        store.ends.close()
        waiting = [at.append(b"a").done]
        await until(lambda: store.begun == 1)
        waiting.append(at.append(b"b").done)
        await until(lambda: store.begun == 2)
        waiting.append(at.committer.write([PutAge(1, 2)]))
        store.fail_next("write")
        store.ends.open()

        found = await asyncio.gather(*waiting, return_exceptions=True)

        assert [type(each) for each in found] == [StoreFenced] * 3
        assert len(at.fenced) == 1
        assert at.confirmed == []
        with pytest.raises(StoreFenced):
            at.committer.admit(1)


async def test_a_function_runs_in_the_commit_thread_while_no_batch_is_open() -> None:
    store = WindowedStore()
    async with bench(store) as at:
        store.ends.close()
        first = at.append(b"a")
        await store.ends.reached()
        call = asyncio.ensure_future(at.committer.call(lambda: (store.begun, at.log.tail.next_offset)))
        await asyncio.sleep(0)
        second = at.append(b"b")
        store.ends.open()
        seen = await call
        await asyncio.gather(first.done, second.done)

        assert seen == (1, 1)
        assert store.begun == 2


async def test_a_call_that_is_cancelled_while_a_batch_is_open_holds_nothing_up() -> None:
    store = WindowedStore()
    async with bench(store) as at:
        store.ends.close()
        first = at.append(b"a")
        await store.ends.reached()
        call = asyncio.ensure_future(at.committer.call(lambda: None))
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        second = at.append(b"b")
        await until(lambda: store.begun == 2)
        store.ends.open()
        await asyncio.gather(first.done, second.done)


async def test_a_stop_waits_for_open_batches() -> None:
    store = WindowedStore()
    async with bench(store) as at:
        store.ends.close()
        appends = [at.append(b"a")]
        await until(lambda: store.begun == 1)
        appends.append(at.append(b"b"))
        await until(lambda: store.begun == 2)
        drained = asyncio.ensure_future(at.committer.drained())
        store.ends.admit_one()
        await appends[0].done
        await asyncio.sleep(0)
        assert not drained.done()
        store.ends.open()
        await drained

        assert appends[1].done.done()


async def test_a_batch_after_one_that_could_not_begin_does_not_begin_either() -> None:
    """Its pages follow those of the other one: readers of the journal would take them without these."""
    store = WindowedStore()
    store.fails_at = 2
    async with bench(store) as at:
        store.ends.close()
        waiting = [at.append(b"a").done]
        await store.ends.reached()
        for end, value in ((2, b"b"), (3, b"c")):
            waiting.append(at.append(value).done)
            await until(partial(at.has_cut, end))
        store.ends.open()
        found = await asyncio.gather(*waiting, return_exceptions=True)

        assert [type(each) for each in found] == [type(None), StoreFenced, StoreFenced]
        assert store.begun == 2
        assert at.log.tail.next_offset == 1


@pytest.mark.parametrize("store", [MemoryStore, WindowedStore])
async def test_an_error_while_a_batch_is_confirmed_fails_its_waiters(store: type[MemoryStore]) -> None:
    class Broken(Exception):
        """A defect."""

    def break_(synced: Synced) -> None:
        raise Broken

    async with bench(store()) as at:
        at.on_synced = break_
        append, written = at.append(b"a"), at.committer.write([PutAge(1, 2)])
        found = await asyncio.gather(append.done, written, return_exceptions=True)

        assert [type(each) for each in found] == [StoreFenced, StoreFenced]
        assert len(at.fenced) == 1


async def test_a_commit_of_a_store_with_a_window_is_durable_although_no_sync_was_requested() -> None:
    store = WindowedStore()
    async with bench(store) as at:
        append = at.append(b"a", fsync=False)
        await append.done

        assert at.log.synced == at.log.tail.next_offset == 1


async def test_acks_that_wait_for_open_batches_share_one_of_their_own() -> None:
    store = WindowedStore()
    async with bench(store, beside_bytes=1 << 20) as at:
        store.ends.close()
        first = at.append(b"a")
        await store.ends.reached()
        written = [at.committer.write([PutAge(1, 2)])]
        store.ends.open()
        await first.done
        written.append(at.committer.write([PutAge(3, 4)]))
        await asyncio.gather(*written)

        assert store.begun == 2
