from __future__ import annotations

import pytest

from forebay.broker.core.delivery.lane import SettleOutcome
from forebay.broker.core.delivery.redelivery import State
from forebay.broker.core.errors import InvalidPartition
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.settings import Overflow
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.runtime.sink.buffer import Buffer
from forebay.broker.storage.store.memory import MemoryStore
from tests.support.brokers.one_sink import fill, filled_sink
from tests.support.brokers.running import move, running
from tests.support.brokers.taker import Taker

pytestmark = pytest.mark.anyio
OK, ALREADY, STALE, UNKNOWN = (
    SettleOutcome.OK,
    SettleOutcome.ALREADY_SETTLED,
    SettleOutcome.STALE,
    SettleOutcome.UNKNOWN,
)


def join(buffer: Buffer, name: str = "a") -> Taker:
    return Taker(buffer.subscription(""), name)


# -- answers


async def test_every_range_of_an_ack_gets_its_results() -> None:
    async with filled_sink() as buffer:
        taker = join(buffer)
        for _ in range(4):
            await taker.one()
        await taker.ack(1, 2)

        results = await taker.subscription.ack(0, taker.answer(), [Range(0, 2), Range(3, 6)])

        assert [(found.first, found.end, outcome) for _, found, outcome in results] == [
            (0, 1, OK),
            (1, 2, ALREADY),
            (3, 4, OK),
            (4, 6, UNKNOWN),
        ]


async def test_an_ack_survives_a_restart_once_it_was_answered() -> None:
    store = MemoryStore()
    async with filled_sink(store) as buffer:
        taker = join(buffer)
        await taker.all_offsets()
        await taker.ack(0, 3)
        await taker.ack(5, 6)

    async with running(store.reopen()) as broker:
        taker = join(broker.sink("orders"))

        assert await taker.all_offsets() == [3, 4, 6, 7, 8, 9]


async def test_only_the_owner_may_settle_what_was_not_delivered() -> None:
    async with filled_sink() as buffer:
        taker = join(buffer)
        subscription = buffer.subscription("")

        beyond = await subscription.ack(0, taker.answer(), [Range(0, 11)], until=True)
        settled = await subscription.ack(0, taker.answer(), [Range(0, 7)], until=True)

        assert [outcome for _, _, outcome in beyond] == [UNKNOWN]
        assert [outcome for _, _, outcome in settled] == [OK]
        assert await taker.one() == [7]


async def test_a_partition_that_does_not_exist_is_refused() -> None:
    async with filled_sink() as buffer:
        with pytest.raises(InvalidPartition):
            buffer.subscription("").lane(1)


async def test_a_nack_revokes_all_that_was_sent_after_it() -> None:
    async with filled_sink(retry_backoff_min_us=1_000, retry_backoff_max_us=1_000) as buffer:
        taker = join(buffer)
        await taker.all_offsets()

        assert await taker.nack(4, 5, reason="it said 503") == [OK]

        assert taker.told_revoked() == [(0, 4, 1)]
        assert set(await taker.ack(0, 4)) == {OK}
        assert await taker.one() == [4]
        assert taker.lane().cursor.attempts == ((4, 1),)


async def test_a_delay_that_a_nack_names_is_kept() -> None:
    clock = FakeClock()
    async with filled_sink(clock=clock) as buffer:
        taker = join(buffer)
        await taker.one()
        await taker.nack(0, 1, delay_s=7.0)

        await fill(buffer, 1)
        clock.advance(6.9)
        early = await taker.one()
        clock.advance(0.1)

        assert early == []
        assert await taker.one() == [0]


async def test_a_new_page_shortens_a_computed_back_off() -> None:
    clock = FakeClock()
    async with filled_sink(clock=clock, retry_backoff_min_us=1_000_000, retry_backoff_max_us=30_000_000) as buffer:
        taker = join(buffer)
        for _ in range(6):  # the back-off has grown well over its minimum
            await taker.one()
            await taker.nack(0, 1, delay_s=None)
            clock.advance(30.0)
        await taker.one()
        await taker.nack(0, 1, delay_s=None)
        clock.advance(1.0)
        before = await taker.one()

        await fill(buffer, 1)

        assert before == []
        assert await taker.one() == [0]


async def test_a_record_that_the_target_will_never_take_stops_a_sink_without_dead_letters_and_stays() -> None:
    async with filled_sink(dlq=False) as buffer:
        taker = join(buffer)
        await taker.all_offsets()

        await buffer.subscription("").reject(0, taker.answer(), [Range(2, 3)], reason="no such customer")

        assert buffer.record.paused == "REJECTED_BY_TARGET: partition 0, offset 2: no such customer"
        assert taker.lane().resend.state is State.PAUSED
        assert taker.lane().cursor.pending(10) == 10
        await buffer.resume()
        assert taker.lane().cursor.attempts == ((2, 1),)


async def test_a_rejection_that_is_too_late_stops_nothing() -> None:
    async with filled_sink() as buffer:
        taker = join(buffer)
        await taker.all_offsets()
        await taker.ack(0, 10)

        results = await buffer.subscription("").reject(0, taker.answer(), [Range(2, 3)], reason="too late")

        assert [outcome for _, _, outcome in results] == [SettleOutcome.ALREADY_SETTLED]
        assert buffer.record.paused is None


# -- time


async def test_an_unanswered_record_is_redelivered_after_its_deadline() -> None:
    clock = FakeClock()
    async with filled_sink(clock=clock, ack_deadline_us=2_000_000, retry_backoff_max_us=100_000) as buffer:
        taker = join(buffer)
        await taker.all_offsets()
        await taker.ack(0, 3)

        clock.advance(2.0)
        buffer.subscription("").process_timers()
        clock.advance(0.1)

        assert taker.told_revoked() == [(0, 3, 1)]
        assert await taker.one() == [3]
        assert taker.lane().cursor.attempts == ((3, 1),)


async def test_a_consumer_that_extends_a_deadline_gets_it_and_no_other_does() -> None:
    clock = FakeClock()
    async with filled_sink(clock=clock, ack_deadline_us=2_000_000) as buffer:
        taker = join(buffer)
        await taker.one()
        subscription = buffer.subscription("")
        clock.advance(1.5)

        assert subscription.extend(0, taker.lane().owner_epoch)
        assert not subscription.extend(0, taker.lane().owner_epoch + 1)
        clock.advance(1.5)
        subscription.process_timers()

        assert taker.told_revoked() == []


# -- the sink


async def test_pausing_revokes_what_is_in_flight() -> None:
    async with filled_sink() as buffer:
        taker = join(buffer)
        await taker.all_offsets()

        await buffer.stop("at night")

        assert taker.told_revoked() == [(0, 0, 1)]
        assert await taker.all_offsets() == []
        await buffer.resume()
        assert await taker.all_offsets() == list(range(10))
        assert taker.lane().cursor.attempts == (), "a pause is nobody's failure"


async def test_a_pause_outlasts_a_restart() -> None:
    store = MemoryStore()
    async with filled_sink(store) as buffer:
        await buffer.stop("at night")

    async with running(store.reopen()) as broker:
        taker = join(broker.sink("orders"))
        held_back = await taker.all_offsets()
        await broker.sink("orders").resume()

        assert held_back == []
        assert len(await taker.all_offsets()) == 10


async def test_a_seek_opens_a_new_account_and_voids_what_is_in_flight() -> None:
    async with filled_sink() as buffer:
        taker = join(buffer)
        await taker.all_offsets()
        old = taker.answer()

        await move(buffer.subscription(""), 0, 7)

        late = await taker.subscription.ack(0, old, [Range(8, 9)])
        assert [outcome for _, _, outcome in late] == [STALE]
        assert await taker.all_offsets() == [7, 8, 9]
        assert taker.lane().cursor.start == 7


async def test_records_dropped_before_a_seek_count_in_the_new_account() -> None:
    async with filled_sink(overflow=Overflow.DROP_OLDEST, max_disk_cache=6) as buffer:
        taker = join(buffer)

        await move(buffer.subscription(""), 0, 2)

        assert taker.lane().cursor.dropped == 2
        assert taker.lane().cursor.balances(10)
        assert await taker.all_offsets() == [4, 5, 6, 7, 8, 9]
