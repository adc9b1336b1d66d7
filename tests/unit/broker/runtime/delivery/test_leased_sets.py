"""Leased sets of the retry queue in a running broker: read from pages, durably settled, and bounded."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from forebay.broker.core.delivery import leased_sets
from forebay.broker.core.delivery.lane import SettleOutcome
from forebay.broker.core.delivery.leased_sets import LeasedPart, Wanted
from forebay.broker.core.errors import (
    InvalidPartition,
    SinkNotFound,
    SubscriptionNotFound,
)
from forebay.broker.core.partition.pages import DropReason
from forebay.broker.core.partition.position import EARLIEST
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.settings import Ordering, SinkSettings
from forebay.broker.runtime.broker import Broker
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.runtime.sink.buffer import Buffer
from forebay.broker.runtime.sink.retention.purge import Until, purge
from forebay.broker.runtime.sink.statistics import sink_state
from forebay.broker.storage.store.memory import MemoryStore
from forebay.errors.reasons import Reason
from tests.support.brokers.dead_letters import letters
from tests.support.brokers.held_store import HeldStore
from tests.support.brokers.one_sink import fill, filled_sink
from tests.support.brokers.running import Mortal, begin, running
from tests.support.brokers.taker import Taker
from tests.support.refusals import refusal

pytestmark = pytest.mark.anyio
RELAXED = Ordering.RELAXED
ALL = Wanted(1_000)
OK, ALREADY, STALE = SettleOutcome.OK, SettleOutcome.ALREADY_SETTLED, SettleOutcome.STALE


async def failed(buffer: Buffer, *offsets: int, partition: int = 0, delay_s: float = 0.0) -> Taker:
    """A consumer that has all records of a partition and has nacked some."""
    taker = Taker(buffer.subscription(""))
    await taker.all_offsets(partition)
    for offset in offsets:
        await taker.nack(offset, offset + 1, partition, delay_s=delay_s)
    return taker


async def relaxed(broker: Broker, *, records: int = 4, **settings: Any) -> Buffer:
    """A sink with pages of one record."""
    buffer, _ = await broker.create("orders", SinkSettings(ordering=RELAXED, buffer_page_size=1, **settings))
    await fill(buffer, records)
    return buffer


async def lease(
    buffer: Buffer, holder: str = "spark", wanted: Wanted = ALL, duration_s: float = 60.0
) -> list[LeasedPart]:
    return await buffer.subscription("").leasing.lease(holder, wanted, duration_s)


async def settle(buffer: Buffer, parts: list[LeasedPart], holder: str = "spark") -> list[SettleOutcome]:
    return [outcome for _, _, outcome in await buffer.subscription("").leasing.settle(holder, parts)]


def ranges(parts: list[LeasedPart]) -> dict[int, list[tuple[int, int]]]:
    return {part.partition: [(one.first, one.end) for one in part.ranges] for part in parts}


# -- taking


async def test_a_set_has_what_failed_in_all_partitions_with_its_attempts() -> None:
    async with filled_sink(records=6, ordering=RELAXED, partitions=2) as buffer:
        taker = await failed(buffer, 1, 2, 4)
        await taker.all_offsets(1)
        await taker.nack(5, 6, 1)

        found = await lease(buffer)

        assert ranges(found) == {0: [(1, 3), (4, 5)], 1: [(5, 6)]}
        assert {part.partition: part.attempts for part in found} == {0: ((1, 1), (2, 1), (4, 1)), 1: ((5, 1),)}
        assert await taker.all_offsets() == []
        [lanes] = [each.lanes for each in (await sink_state(buffer)).subscriptions]
        assert [lane.leased_records for lane in lanes] == [3, 1]
        assert all(lane.balances for lane in lanes)


async def test_a_call_that_is_repeated_answers_the_same_set_and_two_at_once_take_it_once() -> None:
    async with filled_sink(records=6, ordering=RELAXED) as buffer:
        taker = await failed(buffer, 1)

        first, second = await asyncio.gather(lease(buffer), lease(buffer))
        await taker.nack(4, 5)

        assert ranges(first) == ranges(second) == ranges(await lease(buffer)) == {0: [(1, 2)]}
        assert ranges(await lease(buffer, "other")) == {0: [(4, 5)]}


async def test_a_set_holds_no_more_records_bytes_and_ranges_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    async with filled_sink(records=8, ordering=RELAXED) as buffer:
        await failed(buffer, 0, 2, 4, 6)
        size = buffer.logs[0].first_entries()[0].size

        assert ranges(await lease(buffer, "a", Wanted(1))) == {0: [(0, 1)]}
        assert ranges(await lease(buffer, "b", Wanted(10, 1))) == {0: [(2, 3)]}  # one page always goes
        monkeypatch.setattr(leased_sets, "RANGES_MAX", 1)
        assert ranges(await lease(buffer, "c", Wanted(10, 10 * size))) == {0: [(4, 5)]}


async def test_another_partition_is_asked_first_for_each_set() -> None:
    async with filled_sink(records=4, ordering=RELAXED, partitions=2) as buffer:
        taker = await failed(buffer, 0, 1)
        await taker.all_offsets(1)
        await taker.nack(0, 1, 1)

        taken = [ranges(await lease(buffer, holder, Wanted(1))) for holder in ("a", "b")]

        assert sorted(partition for one in taken for partition in one) == [0, 1]


async def test_a_set_is_reported_when_the_failures_that_it_rests_on_are_durable() -> None:
    store = HeldStore()
    async with filled_sink(store, records=4, ordering=RELAXED) as buffer:
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()
        store.hold()
        nacked = asyncio.ensure_future(taker.nack(1, 2))
        await store.reached()

        leased = asyncio.ensure_future(lease(buffer))
        for _ in range(20):
            await asyncio.sleep(0)
        early = leased.done()
        store.let_go()

        assert not early
        assert ranges(await leased) == {0: [(1, 2)]}
        await nacked


async def test_a_sink_in_strict_order_and_one_that_is_gone_give_nothing_out() -> None:
    async with filled_sink(records=4) as buffer:
        with refusal(Reason.ORDERING_STRICT, match="RELAXED"):
            await lease(buffer)
        await buffer.subscribing.create("second", EARLIEST, or_earliest=False)
        second = buffer.subscription("second")
        await buffer.subscribing.delete("second")
        with pytest.raises(SubscriptionNotFound):
            await second.leasing.lease("spark", ALL, 60.0)
        await buffer.delete()
        with pytest.raises(SinkNotFound):
            await lease(buffer)


async def test_holders_are_bounded_and_one_whose_set_is_settled_counts_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forebay.broker.runtime.delivery.leased_sets.HOLDERS_MAX", 1)
    async with filled_sink(records=4, ordering=RELAXED) as buffer:
        await failed(buffer, 0, 1)
        found = await lease(buffer, "a", Wanted(1))

        with refusal(Reason.TOO_MANY_STREAMS):
            await lease(buffer, "b")
        await settle(buffer, found, "a")

        assert ranges(await lease(buffer, "b")) == {0: [(1, 2)]}


async def test_expired_records_are_not_leased_and_leased_records_do_not_expire() -> None:
    clock = FakeClock()
    async with filled_sink(clock=clock, records=4, ordering=RELAXED, max_age_us=60_000_000) as buffer:
        await failed(buffer, 1, 2)
        found = await lease(buffer, wanted=Wanted(1), duration_s=600.0)
        clock.advance(61)

        assert ranges(await lease(buffer, "other")) == {}
        assert await settle(buffer, found) == [OK]
        assert [gap.first for gap in buffer.logs[0].gaps] == [2]


async def test_while_the_sink_is_paused_nothing_is_taken() -> None:
    async with filled_sink(records=4, ordering=RELAXED) as buffer:
        await failed(buffer, 1)
        await buffer.stop("by hand")

        assert await lease(buffer) == []
        await buffer.resume()
        assert ranges(await lease(buffer)) == {0: [(1, 2)]}


# -- settling


async def test_a_set_is_settled_in_one_batch_and_answered_when_that_is_durable() -> None:
    store = HeldStore()
    async with filled_sink(store, records=4, ordering=RELAXED, partitions=2) as buffer:
        taker = await failed(buffer, 1)
        await taker.all_offsets(1)
        await taker.nack(3, 4, 1)
        found = await lease(buffer)
        store.hold()

        settled = asyncio.ensure_future(settle(buffer, found))
        await store.reached()
        early = settled.done()
        store.let_go()

        assert not early
        assert await settled == [OK, OK]
        assert await settle(buffer, found) == [ALREADY, ALREADY]
        assert await lease(buffer) == []


async def test_a_settled_set_lets_its_pages_be_trimmed() -> None:
    async with filled_sink(records=4, ordering=RELAXED) as buffer:
        taker = await failed(buffer, 0, 2)
        await taker.ack(1, 2)
        await taker.ack(3, 4)

        await settle(buffer, await lease(buffer))

        await buffer.removal.trim(buffer.logs[0])
        assert buffer.logs[0].pages == 0


async def test_a_partition_that_is_not_there_is_refused_and_nothing_settled() -> None:
    async with filled_sink(records=4, ordering=RELAXED) as buffer:
        await failed(buffer, 1)
        found = await lease(buffer)

        with pytest.raises(InvalidPartition):
            await settle(buffer, [*found, LeasedPart(7, 0, (Range(0, 1),))])
        with pytest.raises(InvalidPartition):
            await buffer.subscription("").leasing.lease_again("spark", [LeasedPart(7, 0, (Range(0, 1),))], 60.0)

        assert buffer.subscription("").lanes[0].cursor.acked == 0


async def test_a_set_leased_before_a_seek_settles_nothing_after_it_and_is_not_leased_again() -> None:
    async with filled_sink(records=4, ordering=RELAXED) as buffer:
        await failed(buffer, 1)
        found = await lease(buffer)
        await buffer.subscribing.seek("", EARLIEST, partition=None, or_earliest=False)

        assert await settle(buffer, found) == [STALE]
        assert await buffer.subscription("").leasing.lease_again("spark", found, 60.0) == []


async def test_no_settlement_by_number_passes_a_leased_range() -> None:
    async with filled_sink(records=4, ordering=RELAXED) as buffer:
        taker = await failed(buffer, 1)
        found = await lease(buffer)
        buffer.subscription("").leave(taker.consumer)

        with refusal(Reason.SUBSCRIPTION_IN_USE, match="holder 'spark' has a leased set of partition 0"):
            await buffer.subscribing.settle("", {0: 4})
        assert (await buffer.subscribing.settle("", {0: 1}))[0].acked == 1
        await settle(buffer, found)
        assert (await buffer.subscribing.settle("", {0: 4}))[0].watermark == 4


# -- running out, giving back, restarts


async def test_a_lease_that_runs_out_is_a_failed_try_that_survives_and_the_consumer_gets_it() -> None:
    clock, store = FakeClock(), MemoryStore()
    async with filled_sink(store, clock, records=4, ordering=RELAXED, ack_deadline_us=600_000_000) as buffer:
        taker = await failed(buffer, 1)
        await lease(buffer)
        clock.advance(59)
        taker.subscription.process_timers()
        assert await taker.all_offsets() == []

        clock.advance(1)
        taker.subscription.process_timers()

        assert await taker.all_offsets() == [1]
        await buffer.removal.confirmed()
    async with running(store.reopen(), clock) as broker:
        assert broker.sink("orders").subscription("").lanes[0].cursor.attempts_of(1) == 2


async def test_leases_run_out_without_a_consumer() -> None:
    clock = FakeClock()
    async with filled_sink(clock=clock, records=4, ordering=RELAXED) as buffer:
        taker = await failed(buffer, 1)
        await taker.ack(0, 4)
        buffer.subscription("").leave(taker.consumer)
        await lease(buffer)

        clock.advance(60)
        buffer.sweep()

        lane = buffer.subscription("").lanes[0]
        assert (lane.leases.records, lane.cursor.attempts_of(1)) == (0, 2)


async def test_a_last_try_that_runs_out_goes_to_the_dead_letters() -> None:
    clock = FakeClock()
    async with running(clock=clock) as broker:
        buffer = await relaxed(broker, max_attempts=2)
        await failed(buffer, 1)
        await lease(buffer)

        clock.advance(60)
        buffer.sweep()
        while not buffer.subscription("").lanes[0].cursor.dead_lettered:
            await broker.committer.committed.next().wait()

        [letter] = await letters(broker)
        assert letter.origin is not None
        assert (letter.origin.offset, letter.origin.attempts) == (1, 2)


async def test_a_call_extends_what_the_holder_has() -> None:
    clock = FakeClock()
    async with filled_sink(clock=clock, records=4, ordering=RELAXED) as buffer:
        await failed(buffer, 1)
        found = await lease(buffer)
        clock.advance(50)
        await buffer.subscription("").leasing.lease_again("spark", found, 60.0)
        clock.advance(50)
        buffer.sweep()

        assert ranges(await lease(buffer)) == {0: [(1, 2)]}
        assert buffer.subscription("").lanes[0].cursor.attempts_of(1) == 1


async def test_a_released_set_is_sent_to_the_consumer_without_a_failed_attempt() -> None:
    async with filled_sink(records=4, ordering=RELAXED) as buffer:
        taker = await failed(buffer, 1, 2)
        await lease(buffer)

        assert buffer.subscription("").leasing.release("spark") == 2
        assert buffer.subscription("").leasing.release("spark") == 0

        assert await taker.all_offsets() == [1, 2]
        assert taker.lane().cursor.attempts == ((1, 1), (2, 1))


async def test_after_a_kill_a_set_is_settled_where_it_is_idle_still_or_taken_again_by_its_ranges() -> None:
    store = MemoryStore()
    mortal = Mortal(store)
    broker = begin(mortal, FakeClock())
    buffer = await relaxed(broker, records=6)
    await failed(buffer, 1, 2, 4)
    found = await lease(buffer)
    mortal.cut()
    await broker.close()

    async with running(store.reopen()) as again:
        buffer = again.sink("orders")
        taken = await buffer.subscription("").leasing.lease_again("spark", [LeasedPart(0, 0, (Range(1, 3),))], 60.0)
        taker = Taker(buffer.subscription(""))
        delivered = await taker.all_offsets()

        assert ranges(taken) == {0: [(1, 3)]}
        assert delivered == [0, 3, 4, 5]
        assert await settle(buffer, found) == [OK, STALE]
        assert await taker.ack(4, 5) == [OK]
        assert buffer.subscription("").lanes[0].cursor.balances(6)


async def test_a_purge_takes_records_out_of_a_set() -> None:
    async with running() as broker:
        buffer = await relaxed(broker)
        await failed(buffer, 1, 3)
        found = await lease(buffer)

        await purge(buffer, [0], Until(2), committer=broker.committer, pages=broker.pages)

        assert ranges(await lease(buffer)) == {0: [(3, 4)]}
        assert await settle(buffer, found) == [ALREADY, OK]
        assert buffer.subscription("").lanes[0].cursor.dropped == 2


async def test_a_damaged_page_is_dropped_out_of_a_set() -> None:
    async with filled_sink(records=4, ordering=RELAXED) as buffer:
        await failed(buffer, 1)
        found = await lease(buffer)

        buffer.removal.drop(0, [buffer.logs[0].first_entries()[1]], DropReason.CORRUPT)

        assert await settle(buffer, found) == [ALREADY]
