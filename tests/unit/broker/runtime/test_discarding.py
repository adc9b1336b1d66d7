"""Records that a consumer drops because its target will never take them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from forebay.broker.core.delivery.lane import SettleOutcome
from forebay.broker.core.delivery.redelivery import State
from forebay.broker.core.partition.gaps import DETAIL_MAX
from forebay.broker.core.partition.pages import DropReason
from forebay.broker.core.partition.position import At, Position
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.settings import SinkSettings
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.runtime.delivery.subscription import Results
from forebay.broker.storage.store.memory import MemoryStore
from tests.support.brokers.held_store import HeldStore
from tests.support.brokers.one_sink import fill, filled_sink
from tests.support.brokers.running import running
from tests.support.brokers.taker import Taker

pytestmark = pytest.mark.anyio
REJECTED = DropReason.REJECTED_BY_TARGET


def drop(taker: Taker, *ranges: tuple[int, int], reason: str = "no such column") -> Awaitable[Results]:
    return taker.subscription.discard(0, taker.answer(), [Range(*each) for each in ranges], reason=reason)


async def test_a_dropped_record_is_settled_counted_and_has_the_subscription_s_own_gap() -> None:
    clock = FakeClock()
    async with filled_sink(clock=clock, records=5) as buffer:
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()

        results = await drop(taker, (2, 3))

        log, cursor = buffer.logs[0], taker.lane().cursor
        assert [outcome for _, _, outcome in results] == [SettleOutcome.OK]
        assert (cursor.dropped, cursor.acked, cursor.pending(5)) == (1, 0, 4)
        assert cursor.balances(5)
        assert log.head.dropped == ((REJECTED, 1),)
        [gap] = log.rejections.of("default")
        assert (gap.first, gap.end, gap.reason, gap.at_us, gap.detail) == (2, 3, REJECTED, clock.wall, "no such column")
        assert (log.gaps, log.records, log.head.removed_records) == ((), 5, 0)


async def test_it_is_answered_when_it_is_durable_and_a_start_finds_it() -> None:
    store = HeldStore()
    async with filled_sink(store, records=3) as buffer:
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()
        store.hold()
        answer = asyncio.ensure_future(drop(taker, (0, 2)))
        await store.reached()
        early = answer.done()
        store.let_go()
        await answer
        kept = buffer.logs[0].rejections.all()

        assert not early
    async with running(store.reopen()) as broker:
        log = broker.sink("orders").logs[0]
        assert log.rejections.all() == kept
        assert (log.gaps, log.head.dropped) == ((), ((REJECTED, 2),))
        assert broker.sink("orders").subscription("").lanes[0].cursor.dropped == 2


async def test_nothing_is_revoked_and_the_others_in_flight_stay() -> None:
    async with filled_sink(records=4) as buffer:
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()

        await drop(taker, (1, 2))

        assert taker.told_revoked() == []
        assert taker.lane().resend.state is State.FLOWING
        found = await taker.ack(0, 4)
        assert found == [SettleOutcome.OK, SettleOutcome.ALREADY_SETTLED, SettleOutcome.OK, SettleOutcome.OK]


async def test_only_what_is_in_flight_under_a_current_answer_is_dropped() -> None:
    async with filled_sink(records=4) as buffer:
        taker = Taker(buffer.subscription(""))
        for _ in range(2):
            await taker.one()
        old = taker.answer()
        await taker.nack(1, 2)
        await taker.ack(0, 1)

        results = await taker.subscription.discard(0, old, [Range(0, 4)], reason="x")
        undelivered = await drop(taker, (2, 4))

        assert [outcome for _, _, outcome in results] == [SettleOutcome.ALREADY_SETTLED, SettleOutcome.STALE]
        assert [outcome for _, _, outcome in undelivered] == [SettleOutcome.UNKNOWN]
        assert (buffer.logs[0].rejections.all(), buffer.logs[0].head.dropped) == ([], ())


async def test_a_drop_is_an_answer_of_the_target_and_ends_a_probe() -> None:
    """The target is there: it said what it thinks of the record."""
    async with filled_sink(records=3) as buffer:
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()
        await taker.nack(0, 1)
        probe = await taker.offsets()

        await drop(taker, (0, 1))

        assert probe == [0]
        assert taker.lane().resend.state is State.RESENDING
        assert taker.lane().cursor.attempts == ()


async def test_another_subscription_still_reads_it_and_the_page_goes_when_all_have_settled() -> None:
    async with running(MemoryStore()) as broker:
        buffer, _ = await broker.create("orders", SinkSettings(buffer_page_size=1))
        await fill(buffer, 2)
        await buffer.subscribing.create("audit", Position(At.EARLIEST), or_earliest=False)
        first, second = Taker(buffer.subscription("")), Taker(buffer.subscription("audit"), "other")
        await first.all_offsets()
        await drop(first, (0, 2))
        await asyncio.sleep(0)

        assert await second.all_offsets() == [0, 1]
        assert second.told_gaps() == []
        assert buffer.logs[0].records == 2
        assert [lane.cursor.dropped for lane in (first.lane(), second.lane())] == [2, 0]
        await second.ack(0, 2)
        await buffer.removal.confirmed()
        assert (second.lane().cursor.acked, buffer.state.pending) == (2, 0)


async def test_the_reason_of_a_target_is_truncated_to_the_size_limit() -> None:
    async with filled_sink(records=1) as buffer:
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()

        await drop(taker, (0, 1), reason="ü" * 1_000)

        [gap] = buffer.logs[0].rejections.of("default")
        assert gap.detail == "ü" * DETAIL_MAX


async def test_a_subscription_that_is_deleted_takes_its_own_gaps_along() -> None:
    store = MemoryStore()
    async with running(store) as broker:
        buffer, _ = await broker.create("orders", SinkSettings(buffer_page_size=1))
        await fill(buffer, 2)
        await buffer.subscribing.create("audit", Position(At.EARLIEST), or_earliest=False)
        taker = Taker(buffer.subscription("audit"))
        await taker.all_offsets()
        await drop(taker, (0, 2))
        before = buffer.logs[0].rejections.all()

        await buffer.subscribing.delete("audit")
        after = buffer.logs[0].rejections.all()
    async with running(store.reopen()) as broker:
        stored = broker.sink("orders").logs[0].rejections.all()

    assert (len(before), after, stored) == (2, [], [])
