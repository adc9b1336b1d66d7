"""Dropping what a sink holds: what goes, what is revoked before, when it is answered, and what a crash leaves of it."""

from __future__ import annotations

import asyncio

import pytest

from forebay.broker.core.delivery.lane import SettleOutcome
from forebay.broker.core.errors import OffsetAhead, SinkNotFound, StoreFenced
from forebay.broker.core.partition.pages import DropReason
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.settings import SinkSettings
from forebay.broker.runtime.broker import Broker
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.runtime.commit import reclaimer
from forebay.broker.runtime.sink.buffer import Buffer
from forebay.broker.runtime.sink.retention.purge import Purged, Until, purge
from forebay.broker.storage.store.contract import Family
from forebay.broker.storage.store.memory import MemoryStore
from tests.support.brokers.held_store import HeldStore
from tests.support.brokers.one_sink import fill
from tests.support.brokers.running import begin, running
from tests.support.brokers.taker import Taker
from tests.support.pages.samples import page

pytestmark = pytest.mark.anyio
ALL = Until()


async def orders(broker: Broker, pages: int = 0, *, records: int = 1, partitions: int = 1) -> Buffer:
    """The sink `orders`, which joins no pages."""
    buffer, _ = await broker.create("orders", SinkSettings(buffer_page_size=1, partitions=partitions))
    for log in buffer.logs:
        await fill(buffer, pages, records=records, partition=log.number)
    return buffer


async def purged(broker: Broker, until: Until = ALL, *partitions: int) -> list[Purged]:
    buffer = broker.sink("orders")
    return await purge(
        buffer, partitions or [log.number for log in buffer.logs], until, committer=broker.committer, pages=broker.pages
    )


def bases(buffer: Buffer, partition: int = 0) -> list[int]:
    return [entry.base for entry in buffer.logs[partition].first_entries()]


def gaps(buffer: Buffer, partition: int = 0) -> list[tuple[int, int, str]]:
    return [(gap.first, gap.end, gap.reason.name) for gap in buffer.logs[partition].gaps]


def balances(buffer: Buffer) -> bool:
    return all(
        lane.cursor.balances(log.tail.next_offset)
        for subscription in buffer.subscriptions.values()
        for lane, log in zip(subscription.lanes, buffer.logs, strict=True)
    )


# -- what goes


async def test_all_that_a_sink_holds_goes_counted_and_with_one_gap_per_partition() -> None:
    async with running() as broker:
        buffer = await orders(broker, 3, records=2, partitions=2)

        found = await purged(broker)

        assert [(one.partition, one.records, one.pages, one.earliest) for one in found] == [(0, 6, 3, 6), (1, 6, 3, 6)]
        assert [gaps(buffer, number) for number in (0, 1)] == [[(0, 6, "PURGED")]] * 2
        assert buffer.logs[0].head.dropped == ((DropReason.PURGED, 6),)
        assert [lane.cursor.dropped for lane in buffer.subscription("").lanes] == [6, 6]
        assert (buffer.logs[0].records, buffer.logs[0].size) == (0, 0)
        assert balances(buffer)


async def test_a_sink_that_holds_nothing_is_purged_at_once() -> None:
    """Nothing is there, and nothing fails."""
    async with running() as broker:
        await orders(broker)

        assert await purged(broker) == [Purged(0, 0, 0, 0, 0)]


async def test_up_to_an_offset_whole_pages_go_and_the_one_that_reaches_over_it_stays() -> None:
    async with running() as broker:
        buffer = await orders(broker, 4, records=3)

        [found] = await purged(broker, Until(offset=7))

        assert (found.records, found.earliest) == (6, 6)
        assert (bases(buffer), gaps(buffer)) == ([6, 9], [(0, 6, "PURGED")])


async def test_up_to_ends_by_partition_nothing_after_them_goes_and_no_other_partition() -> None:
    async with running() as broker:
        buffer = await orders(broker, 4, records=2, partitions=3)

        found = await purged(broker, Until(ends={0: 8, 2: 4}), 0, 2)

        assert [(one.partition, one.records) for one in found] == [(0, 8), (2, 4)]
        assert [bases(buffer, number) for number in (0, 1, 2)] == [[], [0, 2, 4, 6], [4, 6]]


async def test_a_purge_up_to_ends_that_comes_twice_leaves_what_was_published_in_between() -> None:
    async with running() as broker:
        buffer = await orders(broker, 3)
        until = Until(time_us=broker.clock.wall_us() + 3_600_000_000, ends={0: 3})
        await purged(broker, until)
        await fill(buffer, 2)

        [found] = await purged(broker, until)

        assert (found.records, bases(buffer)) == (0, [3, 4])
        assert balances(buffer)


async def test_the_lower_of_an_offset_and_an_end_bounds_a_purge() -> None:
    async with running() as broker:
        buffer = await orders(broker, 4)

        await purged(broker, Until(offset=3, ends={0: 2}))

        assert bases(buffer) == [2, 3]


async def test_an_end_that_no_record_has_is_refused() -> None:
    async with running() as broker:
        await orders(broker, 2)

        with pytest.raises(OffsetAhead) as refused:
            await purged(broker, Until(ends={0: 3}))

        assert (refused.value.facts["requested"], refused.value.facts["next"]) == ("3", "2")


async def test_an_offset_that_no_record_has_is_refused() -> None:
    async with running() as broker:
        buffer = await orders(broker, 2)

        with pytest.raises(OffsetAhead) as refused:
            await purged(broker, Until(offset=3))

        assert refused.value.facts["next"] == "2"
        assert bases(buffer) == [0, 1]


async def test_up_to_a_time_pages_go_whose_records_were_all_accepted_before() -> None:
    clock = FakeClock()
    async with running(clock=clock) as broker:
        buffer = await orders(broker)
        for _ in range(4):
            await fill(buffer, 1)
            clock.advance(10.0)

        [found] = await purged(broker, Until(time_us=clock.wall - 20_000_000))

        assert (found.records, bases(buffer)) == (2, [2, 3])


async def test_only_the_partition_that_is_named_is_purged() -> None:
    async with running() as broker:
        buffer = await orders(broker, 2, partitions=3)

        found = await purged(broker, ALL, 1)

        assert [one.partition for one in found] == [1]
        assert [bases(buffer, number) for number in range(3)] == [[0, 1], [], [0, 1]]


async def test_more_pages_than_memory_holds_go_and_leave_one_gap() -> None:
    store = MemoryStore()
    async with running(store) as broker:
        buffer = await orders(broker)
        appends = await asyncio.gather(*(buffer.append(page(b"x")) for _ in range(1_500)))
        await asyncio.gather(*(append.done for append in appends))
    async with running(store.reopen()) as broker:
        buffer = broker.sink("orders")

        [found] = await purged(broker, Until(offset=1_400))

        assert (found.records, found.earliest, gaps(buffer)) == (1_400, 1_400, [(0, 1_400, "PURGED")])
        assert balances(buffer)


async def test_two_purges_are_two_gaps_though_they_touch() -> None:
    clock = FakeClock()
    async with running(clock=clock) as broker:
        buffer = await orders(broker, 4)
        await purged(broker, Until(offset=2))
        clock.advance(1.0)
        await purged(broker)

        assert gaps(buffer) == [(0, 2, "PURGED"), (2, 4, "PURGED")]


async def test_two_purges_at_once_continuee_after_the_other() -> None:
    async with running() as broker:
        buffer = await orders(broker, 3)

        first, second = await asyncio.gather(purged(broker), purged(broker))

        assert [first[0].records, second[0].records] == [3, 0]
        assert balances(buffer)


# -- what waits for its batch


async def test_a_purge_covers_what_waits_for_its_batch_and_nothing_that_comes_later() -> None:
    store = HeldStore()
    async with running(store) as broker:
        buffer = await orders(broker, 1)
        store.hold()
        waiting = await buffer.append(page(b"waits"))
        await store.reached()
        purging = asyncio.ensure_future(purged(broker))
        await asyncio.sleep(0)
        later = await buffer.append(page(b"later"))
        held = (purging.done(), bases(buffer))
        store.let_go()
        [found] = await purging
        await asyncio.gather(waiting.done, later.done)

        assert held == (False, [0])
        assert (found.records, bases(buffer)) == (2, [2])
        assert balances(buffer)


async def test_a_purge_up_to_an_offset_waits_only_for_what_it_covers() -> None:
    store = HeldStore()
    async with running(store) as broker:
        buffer = await orders(broker, 2)
        store.hold()
        waiting = await buffer.append(page(b"waits"))
        await store.reached()
        purging = asyncio.ensure_future(purged(broker, Until(offset=2)))
        for _ in range(5):
            await asyncio.sleep(0)
        dropped_before_the_sync = bases(buffer)
        store.let_go()
        await purging
        await waiting.done

        assert dropped_before_the_sync == []
        assert bases(buffer) == [2]


async def test_it_is_answered_when_it_is_durable() -> None:
    store = HeldStore()
    async with running(store) as broker:
        await orders(broker, 3)
        store.hold()
        purging = asyncio.ensure_future(purged(broker))
        await store.reached()
        for _ in range(5):
            await asyncio.sleep(0)
        answered = purging.done()
        store.let_go()
        await purging

        assert not answered
    async with running(store.reopen()) as broker:
        buffer = broker.sink("orders")
        assert (gaps(buffer), buffer.state.pending, balances(buffer)) == ([(0, 3, "PURGED")], 0, True)


# -- consumers


async def test_purged_records_in_flight_are_revoked_first_and_late_answers_settle_nothing() -> None:
    async with running() as broker:
        buffer = await orders(broker, 4)
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()
        await taker.ack(0, 1)
        late = taker.answer()

        await purged(broker)
        results = await taker.subscription.ack(0, late, [Range(0, 4)])
        nacked = await taker.subscription.retry(0, late, [Range(2, 3)], delay_s=None, reason="")

        assert taker.told_revoked() == [(0, 1, 1)]
        assert [(part.first, part.end, outcome) for _, part, outcome in results] == [
            (0, 1, SettleOutcome.ALREADY_SETTLED),
            (1, 4, SettleOutcome.STALE),
        ]
        assert [outcome for _, _, outcome in nacked] == [SettleOutcome.STALE]
        cursor = taker.lane().cursor
        assert (cursor.acked, cursor.dropped, cursor.attempts, taker.consumer.usage.records) == (1, 3, (), 0)
        assert balances(buffer)


async def test_records_in_flight_after_a_purge_are_redelivered_under_the_new_revision() -> None:
    async with running() as broker:
        buffer = await orders(broker, 4)
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()

        await purged(broker, Until(offset=2))

        assert await taker.all_offsets() == [2, 3]
        assert taker.told_gaps() == [(0, 2)]
        assert await taker.ack(2, 4) == [SettleOutcome.OK, SettleOutcome.OK]


async def test_nothing_is_sent_between_the_slices_of_a_purge() -> None:
    store = HeldStore()
    async with running(store) as broker:
        buffer = await orders(broker, 3)
        taker = Taker(buffer.subscription(""))
        taker.subscription.begin_purge(0)

        held = await taker.all_offsets()
        taker.subscription.end_purge(0)

        assert (held, await taker.all_offsets()) == ([], [0, 1, 2])


async def test_a_purge_is_no_failed_try() -> None:
    async with running() as broker:
        buffer = await orders(broker, 2)
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()

        await purged(broker, Until(offset=1))
        await taker.all_offsets()

        assert taker.lane().cursor.attempts == ()
        assert taker.lane().resend.reason == ""


# -- what goes wrong


async def test_a_sink_that_is_deleted_meanwhile_ends_it() -> None:
    store = HeldStore()
    async with running(store) as broker:
        buffer = await orders(broker, 1)
        store.hold()
        await buffer.append(page(b"waits"))
        await store.reached()
        purging = asyncio.ensure_future(purged(broker))
        await asyncio.sleep(0)
        deleting = asyncio.ensure_future(broker.delete("orders", force=True))
        await asyncio.sleep(0)
        store.let_go()
        await deleting

        with pytest.raises(SinkNotFound):
            await purging


async def test_a_store_that_fails_answers_with_its_failure_and_a_start_finds_all_or_nothing() -> None:
    store = MemoryStore()
    broker = begin(store, FakeClock())
    await orders(broker, 3)
    store.fail_next("sync")

    with pytest.raises(StoreFenced):
        await purged(broker)
    with pytest.raises(StoreFenced):
        await purged(broker)

    await broker.close()
    async with running(store.crash()) as again:
        buffer = again.sink("orders")
        assert balances(buffer)
        assert (buffer.logs[0].records, gaps(buffer)) in [(3, []), (0, [(0, 3, "PURGED")])]


async def test_a_caller_that_leaves_ends_it_and_deliveries_continue() -> None:
    store = HeldStore()
    async with running(store) as broker:
        buffer = await orders(broker, 2)
        store.hold()
        waiting = await buffer.append(page(b"waits"))
        await store.reached()
        purging = asyncio.ensure_future(purged(broker))
        await asyncio.sleep(0)
        purging.cancel()
        await asyncio.gather(purging, return_exceptions=True)
        store.let_go()
        await waiting.done
        taker = Taker(buffer.subscription(""))

        assert await taker.all_offsets() == [0, 1, 2]


async def test_the_space_of_what_was_purged_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reclaimer, "IDLE_S", 0.01)
    store = MemoryStore()
    async with running(store) as broker:
        await orders(broker, 20, records=10)
        await purged(broker)
        async with asyncio.timeout(10):
            while broker.reclaimer.reclaimed_bytes == 0:
                await broker.committer.committed.next().wait()

        assert store.scan(Family.SMALL, b"", b"\xff", 100) == []
