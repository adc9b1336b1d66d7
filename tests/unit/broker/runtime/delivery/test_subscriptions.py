from __future__ import annotations

import asyncio
from typing import Any

import pytest

from forebay.broker.core.delivery.lane import SettleOutcome
from forebay.broker.core.delivery.redelivery import State
from forebay.broker.core.errors import (
    InvalidSetting,
    OffsetAhead,
    StoreFenced,
    SubscriptionNotFound,
    TooManySinks,
)
from forebay.broker.core.partition.account import Totals
from forebay.broker.core.partition.position import EARLIEST, At, Position
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.settings import Overflow, SinkSettings
from forebay.broker.rpc.sinks.service import SinkServicer
from forebay.broker.runtime.broker import Bounds
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.runtime.sink.buffer import Buffer
from forebay.broker.runtime.sink.statistics import sink_state
from forebay.broker.storage.store.memory import MemoryStore
from forebay.errors.reasons import Reason
from forebay.v1.subscription_pb2 import ListSubscriptionsRequest
from tests.support.brokers.held_store import HeldStore
from tests.support.brokers.one_sink import fill, filled_sink, sink
from tests.support.brokers.running import begin, running
from tests.support.brokers.taker import Taker
from tests.support.refusals import refusal

pytestmark = pytest.mark.anyio
LATEST = Position(At.LATEST)


def at(offset: int) -> Position:
    return Position(At.OFFSET, offset)


async def create(buffer: Buffer, name: str, start: Position = EARLIEST) -> None:
    await buffer.subscribing.create(name, start, or_earliest=False)


async def seek(buffer: Buffer, to: Position, name: str = "", *, partition: int | None = None) -> list[int]:
    places = await buffer.subscribing.seek(name, to, partition=partition, or_earliest=False)
    return [where.start for where in places]


def names(buffer: Buffer) -> list[str]:
    return [record.name for record in buffer.subscribing.all()]


# -- durable before it is answered, and over restarts


async def test_a_creation_is_answered_and_listed_when_it_is_durable() -> None:
    store = HeldStore()
    async with sink(store) as buffer:
        store.hold()
        creating = asyncio.ensure_future(create(buffer, "audit"))
        again = asyncio.ensure_future(create(buffer, "audit"))
        await store.reached()
        before = (creating.done(), again.done(), names(buffer))

        store.let_go()
        await asyncio.gather(creating, again)

        assert before == (False, False, ["default"])
        assert names(buffer) == ["audit", "default"]


async def test_a_subscription_without_any_move_survives_a_restart_and_a_loss_of_power() -> None:
    store = MemoryStore()
    broker = begin(store, FakeClock())
    buffer, _ = await broker.create("orders", SinkSettings(buffer_page_size=1, partitions=2))
    await fill(buffer, 5)
    await create(buffer, "late", LATEST)
    await create(buffer, "audit", at(0))

    lost = store.crash()
    await broker.close()
    for found in (store.reopen(), lost):
        async with running(found) as again:
            buffer = again.sink("orders")
            cursors = {name: buffer.subscription(name).lanes[0].cursor for name in names(buffer)}
            assert {name: cursor.start for name, cursor in cursors.items()} == {"audit": 0, "default": 0, "late": 5}
            assert all(cursor.balances(5) for cursor in cursors.values())
            assert buffer.subscribing.all()[0].start == at(0)


async def test_a_deletion_names_which_one_it_is_about_and_leaves_another_one_of_that_name_alone() -> None:
    clock = FakeClock()
    async with running(clock=clock) as broker:
        buffer, _ = await broker.create("orders", SinkSettings())
        first, *_ = await buffer.subscribing.create("audit", EARLIEST, or_earliest=False)
        await buffer.subscribing.delete("audit", made_at_us=first.created_at_us)
        clock.advance(1)
        await buffer.subscribing.create("audit", EARLIEST, or_earliest=False)

        with pytest.raises(SubscriptionNotFound, match="recreated since"):
            await buffer.subscribing.delete("audit", made_at_us=first.created_at_us)

        assert "audit" in buffer.subscriptions


async def test_a_deleted_subscription_does_not_return_whatever_it_was_doing() -> None:
    store = MemoryStore()
    async with filled_sink(store, records=3) as buffer:
        await create(buffer, "audit")
        subscription = buffer.subscription("audit")
        taker = Taker(subscription)
        await taker.one()
        late = taker.answer()

        await buffer.subscribing.delete("audit")
        outcomes = [outcome for _, _, outcome in await subscription.ack(0, late, [Range(0, 1)])]
        await subscription.accounts.save(0)
        subscription.leave(taker.consumer)

        assert outcomes == [SettleOutcome.STALE]
        assert isinstance(taker.consumer.closed, SubscriptionNotFound)
        with pytest.raises(SubscriptionNotFound):
            Taker(subscription)
    async with running(store.reopen()) as again:
        assert names(again.sink("orders")) == ["default"]


async def test_a_subscription_recreated_under_its_name_in_the_same_batch_is_the_new_one() -> None:
    store = HeldStore()
    async with filled_sink(store, records=3) as buffer:
        await create(buffer, "audit")
        store.hold()
        held = asyncio.ensure_future(seek(buffer, at(0)))
        await store.reached()
        deleting = asyncio.ensure_future(buffer.subscribing.delete("audit"))
        await asyncio.sleep(0)
        creating = asyncio.ensure_future(create(buffer, "audit", at(2)))
        await asyncio.sleep(0)
        store.let_go()
        await asyncio.gather(held, deleting, creating)
    async with running(store.reopen()) as again:
        assert again.sink("orders").subscription("audit").lanes[0].cursor.start == 2


async def test_a_creation_that_cannot_be_stored_is_an_error() -> None:
    store = MemoryStore()
    async with sink(store) as buffer:
        store.fail_next("sync")

        with pytest.raises(StoreFenced):
            await create(buffer, "audit")


async def test_the_same_name_with_another_start_is_refused_and_nothing_moves() -> None:
    async with filled_sink(records=3) as buffer:
        await create(buffer, "audit", at(1))

        with refusal(Reason.SUBSCRIPTION_EXISTS):
            await create(buffer, "audit", at(2))

        assert buffer.subscription("audit").lanes[0].cursor.start == 1


# -- seek


async def test_a_seek_survives_a_restart_with_what_the_closed_accounts_came_to() -> None:
    store = MemoryStore()
    async with filled_sink(store, records=10) as buffer:
        await create(buffer, "keeper")
        taker = Taker(buffer.subscription(""))
        await taker.offsets(records_max=4)
        await taker.ack(0, 1)
        await seek(buffer, at(8))
        await seek(buffer, at(2))
    async with running(store.reopen()) as again:
        buffer = again.sink("orders")
        subscription = buffer.subscription("")
        [[state]] = [found.lanes for found in (await sink_state(buffer)).subscriptions if found.name == "default"]

        assert (subscription.lanes[0].cursor.start, state.pending, state.balances) == (2, 8, True)
        assert subscription.accounts.totals_of(0) == Totals(acked=1, skipped=9 + 2, seeks=2)
        assert state.lifetime == Totals(acked=1, skipped=11, seeks=2)


async def test_a_seek_voids_what_is_in_flight_and_raises_the_revision() -> None:
    """Late acks settle nothing."""
    async with filled_sink(records=4) as buffer:
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()
        late = taker.answer()

        await seek(buffer, at(2))
        outcomes = [o for _, _, o in await buffer.subscription("").ack(0, late, [Range(0, 4)])]

        assert outcomes == [SettleOutcome.STALE]
        assert taker.told_revoked() == [(0, 0, 1)]
        assert await taker.all_offsets() == [2, 3]


async def test_a_seek_counts_gaps_after_it_as_dropped_again() -> None:
    async with sink(overflow=Overflow.DROP_OLDEST, max_disk_cache=4) as buffer:
        await fill(buffer, 7)
        await create(buffer, "keeper")
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()
        await taker.ack(3, 7)

        await seek(buffer, at(1))

        subscription = buffer.subscription("")
        cursor = subscription.lanes[0].cursor
        assert (cursor.start, cursor.dropped, cursor.pending(7), cursor.balances(7)) == (1, 2, 4, True)
        assert subscription.accounts.totals_of(0) == Totals(acked=4, dropped=3, seeks=1)
        taker.events.clear()
        await taker.take_all()
        assert taker.told_gaps() == [(1, 2), (2, 3)]


async def test_a_seek_forward_lets_what_was_skipped_go() -> None:
    async with filled_sink(records=5) as buffer:
        await seek(buffer, LATEST)

        async with asyncio.timeout(10):
            while buffer.logs[0].pages:
                await asyncio.sleep(0)
        assert buffer.logs[0].head.dropped == ()


async def test_a_seek_with_one_wrong_partition_moves_none() -> None:
    async with sink(partitions=2) as buffer:
        await fill(buffer, 3)

        with pytest.raises(OffsetAhead):
            await seek(buffer, at(2))

        assert [lane.cursor.start for lane in buffer.subscription("").lanes] == [0, 0]
        assert buffer.subscription("").accounts.totals_of(0) == Totals()


async def test_a_seek_to_a_time_finds_the_first_record_since_in_every_partition() -> None:
    clock = FakeClock()
    async with sink(clock=clock, partitions=2) as buffer:
        for number in range(6):
            await fill(buffer, 1, partition=number % 2)
            clock.advance(1.0)

        found = await seek(buffer, Position(At.TIME, clock.wall - 3_000_000))

        assert found == [2, 1]


# -- several subscriptions


async def test_records_settled_by_one_subscription_stay_until_the_last_one_has_settled_them() -> None:
    async with filled_sink(records=3) as buffer:
        for name in ("a", "b"):
            await create(buffer, name)
        kept = []
        for name in ("", "b", "a"):
            kept.append(buffer.logs[0].pages)
            taker = Taker(buffer.subscription(name))
            await taker.all_offsets()
            await taker.ack(0, 3)
            for _ in range(100):
                await asyncio.sleep(0)

        assert (kept, buffer.logs[0].pages) == ([3, 3, 3], 0)


async def test_a_subscription_on_a_paused_sink_is_paused() -> None:
    async with filled_sink(records=1) as buffer:
        await buffer.stop("maintenance")

        await create(buffer, "audit")

        assert buffer.subscription("audit").lanes[0].resend.state is State.PAUSED
        await buffer.resume()
        assert await Taker(buffer.subscription("audit")).all_offsets() == [0]


# -- more partitions


async def test_partitions_that_are_added_survive_a_restart_with_what_is_in_them() -> None:
    store = MemoryStore()
    async with running(store) as broker:
        buffer, _ = await broker.create("orders", SinkSettings(buffer_page_size=1))
        await create(buffer, "audit", LATEST)
        taker = Taker(buffer.subscription("audit"))

        await broker.update("orders", {"partitions": 3})
        await fill(buffer, 2, partition=2)
        owned, offsets = taker.owned(), await taker.all_offsets(2)

        assert (owned, offsets) == ([0, 1, 2], [0, 1])
        assert taker.told_partitions()[-1] == [0, 1, 2]
    async with running(store.reopen()) as again:
        buffer = again.sink("orders")
        assert [log.records for log in buffer.logs] == [0, 0, 2]
        assert [len(subscription.lanes) for subscription in buffer.subscriptions.values()] == [3, 3]


@pytest.mark.parametrize("kept_batches", [0, 1])
async def test_the_record_of_a_new_partition_is_never_behind_what_is_in_it(kept_batches: int) -> None:
    store = HeldStore()
    broker = begin(store, FakeClock())
    buffer, _ = await broker.create("orders", SinkSettings(buffer_page_size=1))
    store.hold()
    changes: list[asyncio.Future[Any]] = [asyncio.ensure_future(broker.update("orders", {"partitions": 2}))]
    await store.reached()
    changes.append(asyncio.ensure_future(fill(buffer, 1, partition=1)))
    await asyncio.sleep(0)

    lost = store.crash(kept_batches=kept_batches)
    store.let_go()
    await asyncio.gather(*changes, return_exceptions=True)
    await broker.close()

    async with running(lost) as again:
        buffer = again.sink("orders")
        assert len(buffer.logs) == 1 + kept_batches
        await again.update("orders", {"partitions": 2})
        await fill(buffer, 1, partition=1)
        assert [log.records for log in buffer.logs] == [0, 1]


async def test_partitions_are_spread_over_the_consumers_when_they_grow() -> None:
    async with sink(partitions=2) as buffer:
        one, two = Taker(buffer.subscription(""), "one"), Taker(buffer.subscription(""), "two")

        await buffer.change(buffer.settings.changed({"partitions": 6}))

        assert (len(one.owned()), len(two.owned())) == (3, 3)


async def test_partitions_that_are_added_to_a_paused_sink_are_paused() -> None:
    async with sink() as buffer:
        await buffer.stop("maintenance")
        await buffer.change(buffer.settings.changed({"partitions": 2}))
        await fill(buffer, 1, partition=1)
        taker = Taker(buffer.subscription(""))
        held = await taker.all_offsets(1)

        await buffer.resume()

        assert held == []
        assert await taker.all_offsets(1) == [0]


async def test_the_broker_s_bound_on_partitions_holds_when_they_grow() -> None:
    async with running(bounds=Bounds(partitions=4)) as broker:
        buffer, _ = await broker.create("orders", SinkSettings(partitions=2))

        with pytest.raises(TooManySinks):
            await broker.update("orders", {"partitions": 5})
        with pytest.raises(InvalidSetting):
            await broker.update("orders", {"partitions": 1})
        await broker.update("orders", {"partitions": 4})

        assert len(buffer.logs) == 4


async def test_stats_taken_while_partitions_are_added_are_whole() -> None:
    store = HeldStore()
    async with filled_sink(store, records=1) as buffer:
        await create(buffer, "audit")
        looking = asyncio.ensure_future(sink_state(buffer))
        await asyncio.sleep(0)

        await buffer.change(buffer.settings.changed({"partitions": 3}))

        assert all(len(each.lanes) in {1, 3} for each in (await looking).subscriptions)


# -- settling below an offset


async def test_records_settled_below_an_offset_count_as_acked_and_the_watermark_never_moves_back() -> None:
    store = MemoryStore()
    async with filled_sink(store, records=10) as buffer:
        settled = await buffer.subscribing.settle("", {0: 6})
        again = await buffer.subscribing.settle("", {0: 4})

        assert [(one.acked, one.watermark) for one in (*settled, *again)] == [(6, 6), (0, 6)]
    async with running(store.reopen()) as broker:
        cursor = broker.sink("orders").subscription("").lanes[0].cursor
        assert (cursor.watermark, cursor.acked, cursor.notified, cursor.balances(10)) == (6, 6, 6, True)


async def test_settling_is_answered_when_it_is_durable() -> None:
    store = HeldStore()
    async with filled_sink(store, records=3) as buffer:
        store.hold()
        settling = asyncio.ensure_future(buffer.subscribing.settle("", {0: 3}))
        await store.reached()
        before = settling.done()

        store.let_go()
        await settling

        assert not before


async def test_records_that_were_dropped_stay_dropped_when_all_below_an_offset_is_settled() -> None:
    async with sink(overflow=Overflow.DROP_OLDEST, max_disk_cache=4) as buffer:
        await fill(buffer, 7)

        [settled] = await buffer.subscribing.settle("", {0: 5})

        cursor = buffer.subscription("").lanes[0].cursor
        assert (settled.acked, cursor.dropped, cursor.watermark, cursor.balances(7)) == (2, 3, 5, True)


async def test_records_acked_before_are_not_counted_again_by_settling_below_an_offset() -> None:
    async with filled_sink(records=6) as buffer:
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()
        await taker.ack(2, 4)
        taker.subscription.leave(taker.consumer)

        [settled] = await buffer.subscribing.settle("", {0: 6})

        cursor = buffer.subscription("").lanes[0].cursor
        assert (settled.acked, cursor.acked, cursor.beyond, cursor.balances(6)) == (4, 6, (), True)


async def test_nothing_is_settled_past_a_consumer_that_owns_one_of_the_partitions() -> None:
    async with filled_sink(records=3, partitions=2) as buffer:
        taker = Taker(buffer.subscription(""))

        with refusal(Reason.SUBSCRIPTION_IN_USE):
            await buffer.subscribing.settle("", {0: 3, 1: 3})
        taker.subscription.leave(taker.consumer)
        settled = await buffer.subscribing.settle("", {0: 3, 1: 3})

        assert [one.acked for one in settled] == [3, 3]


async def test_settling_beyond_the_end_is_refused_and_settles_nothing() -> None:
    async with filled_sink(records=3, partitions=2) as buffer:
        with pytest.raises(OffsetAhead):
            await buffer.subscribing.settle("", {0: 2, 1: 4})

        assert [lane.cursor.watermark for lane in buffer.subscription("").lanes] == [0, 0]


async def test_a_later_consumer_begins_after_what_was_settled() -> None:
    async with filled_sink(records=5) as buffer:
        await buffer.subscribing.settle("", {0: 3})

        assert await Taker(buffer.subscription("")).all_offsets() == [3, 4]


async def test_a_stored_start_time_that_no_message_can_hold_is_listed_as_the_nearest_and_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = MemoryStore()
    async with running(store) as broker:
        buffer, _ = await broker.create("orders", SinkSettings())
        await buffer.subscribing.create("far", Position(At.TIME, (1 << 63) * 1_000_000), or_earliest=True)

    async with running(store.reopen()) as broker:
        listed = await SinkServicer(broker).ListSubscriptions(ListSubscriptionsRequest(sink="orders"), None)

    assert [(each.name, each.start.time.seconds) for each in listed.subscriptions][1] == ("far", 253_402_300_799)
    assert "outside of the years 1 to 9999" in caplog.text
    assert "subscription=far" in caplog.text
