from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holdfast.broker.core.errors import ConsumerReplaced, InvalidPartition
from holdfast.broker.core.lane import Outcome
from holdfast.broker.core.ranges import Range
from holdfast.broker.core.resend import State
from holdfast.broker.core.settings import Overflow, SinkSettings
from holdfast.broker.runtime.buffer import Buffer
from holdfast.broker.runtime.clock import FakeClock
from holdfast.broker.storage.memory import MemoryStore
from tests.unit.broker.running import running
from tests.unit.broker.runtime.taker import Taker
from tests.unit.broker.samples import page

pytestmark = pytest.mark.anyio
OK, ALREADY, STALE, UNKNOWN = Outcome.OK, Outcome.ALREADY_SETTLED, Outcome.STALE, Outcome.UNKNOWN


@asynccontextmanager
async def sink(
    store: MemoryStore | None = None, clock: FakeClock | None = None, *, records: int = 10, **settings: Any
) -> AsyncIterator[Buffer]:
    """A sink with pages of one record in every partition."""
    async with running(store, clock) as broker:
        buffer, _ = await broker.create("orders", SinkSettings(buffer_page_size=1, **settings))
        for log in buffer.logs:
            for number in range(records):
                append = await buffer.append(page(b"%d" % number, partition=log.number))
                await append.done
        yield buffer


def join(buffer: Buffer, name: str = "a") -> Taker:
    return Taker(buffer.subscription(""), name)


# -- who owns what


async def test_consumers_share_the_partitions_evenly() -> None:
    async with sink(partitions=5) as buffer:
        first, second = join(buffer, "a"), join(buffer, "b")

        assert sorted([*first.owned(), *second.owned()]) == [0, 1, 2, 3, 4]
        assert {len(first.owned()), len(second.owned())} == {2, 3}
        assert first.told_partitions()[-1] == first.owned()
        assert second.told_partitions()[-1] == second.owned()


async def test_who_comes_later_than_there_are_partitions_waits_for_one() -> None:
    async with sink() as buffer:
        first, second = join(buffer, "a"), join(buffer, "b")
        waiting = second.owned()

        buffer.subscription("").leave(first.consumer)

        assert (waiting, second.owned()) == ([], [0])


async def test_a_partition_moves_when_what_is_in_flight_is_answered() -> None:
    async with sink(partitions=2) as buffer:
        first = join(buffer, "a")
        await first.one(0)
        await first.one(1)
        second = join(buffer, "b")
        [moving] = [number for number in (0, 1) if buffer.subscription("").moving(number)]

        assert second.owned() == []
        assert await first.ack(0, 1, moving) == [OK]

        assert second.owned() == [moving]
        assert await second.one(moving) == [1]


async def test_a_partition_on_the_move_gets_nothing_new() -> None:
    async with sink(partitions=2) as buffer:
        first = join(buffer, "a")
        await first.one(0)
        await first.one(1)

        join(buffer, "b")

        moving = [buffer.subscription("").moving(number) for number in (0, 1)]
        assert sorted(moving) == [False, True]


async def test_a_partition_is_taken_from_an_owner_that_does_not_answer_in_time() -> None:
    clock = FakeClock()
    async with sink(clock=clock, partitions=2, ack_deadline_us=1_000_000, retry_backoff_max_us=100_000) as buffer:
        first = join(buffer, "a")
        for partition in (0, 1):
            await first.one(partition)
        old = [first.answer(partition) for partition in (0, 1)]
        second = join(buffer, "b")

        clock.advance(1.0)
        buffer.subscription("").let_time_pass()
        clock.advance(1.0)

        [moved] = second.owned()
        late = await buffer.subscription("").ack(moved, old[moved], [Range(0, 1)])
        assert [outcome for _, _, outcome in late] == [STALE]
        assert await second.one(moved) == [0]
        assert buffer.subscription("").lanes[moved].cursor.attempts == ((0, 1),)


async def test_what_a_consumer_had_in_flight_goes_to_the_next_one_and_counts_as_a_try() -> None:
    async with sink() as buffer:
        first = join(buffer, "a")
        assert await first.all_offsets() == list(range(10))
        second = join(buffer, "b")

        buffer.subscription("").leave(first.consumer)

        assert await second.all_offsets() == list(range(10))
        assert second.lane().cursor.attempts == ((0, 1),)
        assert second.lane().redelivered == 10


async def test_a_consumer_that_leaves_with_nothing_in_flight_has_failed_nothing() -> None:
    async with sink() as buffer:
        first = join(buffer, "a")
        await first.one()
        await first.ack(0, 1)

        buffer.subscription("").leave(first.consumer)

        assert buffer.subscription("").lanes[0].cursor.attempts == ()


async def test_a_second_consumer_of_the_same_id_takes_the_place_of_the_first() -> None:
    async with sink() as buffer:
        first, second = join(buffer, "a"), join(buffer, "a")

        assert isinstance(first.consumer.closed, ConsumerReplaced)
        assert await first.one() == []
        assert await second.one() == [0]
        buffer.subscription("").leave(first.consumer)
        assert second.owned() == [0], "the goodbye of the first means nothing to the second"


async def test_owner_epochs_of_two_starts_never_meet() -> None:
    store = MemoryStore()
    async with sink(store) as buffer:
        old = join(buffer).answer()
    async with running(store.reopen()) as broker:
        taker = join(broker.sink("orders"))
        await taker.one()
        late = await taker.subscription.ack(0, old, [Range(0, 1)])

        assert [outcome for _, _, outcome in late] == [STALE]


# -- answers


async def test_every_range_of_an_ack_gets_its_results() -> None:
    async with sink() as buffer:
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
    async with sink(store) as buffer:
        taker = join(buffer)
        await taker.all_offsets()
        await taker.ack(0, 3)
        await taker.ack(5, 6)

    async with running(store.reopen()) as broker:
        taker = join(broker.sink("orders"))

        assert await taker.all_offsets() == [3, 4, 6, 7, 8, 9]


async def test_only_the_owner_may_settle_what_was_not_delivered() -> None:
    async with sink() as buffer:
        taker = join(buffer)
        subscription = buffer.subscription("")

        beyond = await subscription.ack(0, taker.answer(), [Range(0, 11)], until=True)
        settled = await subscription.ack(0, taker.answer(), [Range(0, 7)], until=True)

        assert [outcome for _, _, outcome in beyond] == [UNKNOWN]
        assert [outcome for _, _, outcome in settled] == [OK]
        assert await taker.one() == [7]


async def test_a_partition_that_does_not_exist_is_refused() -> None:
    async with sink() as buffer:
        with pytest.raises(InvalidPartition):
            buffer.subscription("").lane(1)


async def test_a_nack_revokes_all_that_was_sent_behind_it() -> None:
    async with sink(retry_backoff_min_us=1_000, retry_backoff_max_us=1_000) as buffer:
        taker = join(buffer)
        await taker.all_offsets()

        assert await taker.nack(4, 5, reason="it said 503") == [OK]

        assert taker.told_revoked() == [(0, 4, 1)]
        assert set(await taker.ack(0, 4)) == {OK}
        assert await taker.one() == [4]
        assert taker.lane().cursor.attempts == ((4, 1),)


async def test_a_delay_that_a_nack_names_is_kept() -> None:
    clock = FakeClock()
    async with sink(clock=clock) as buffer:
        taker = join(buffer)
        await taker.one()
        await taker.nack(0, 1, delay_s=7.0)

        append = await buffer.append(page(b"new"))
        await append.done
        clock.advance(6.9)
        early = await taker.one()
        clock.advance(0.1)

        assert early == []
        assert await taker.one() == [0]


async def test_a_new_page_shortens_a_computed_back_off() -> None:
    clock = FakeClock()
    async with sink(clock=clock, retry_backoff_min_us=1_000_000, retry_backoff_max_us=30_000_000) as buffer:
        taker = join(buffer)
        for _ in range(6):  # the back-off has grown well over its minimum
            await taker.one()
            await taker.nack(0, 1, delay_s=None)
            clock.advance(30.0)
        await taker.one()
        await taker.nack(0, 1, delay_s=None)
        clock.advance(1.0)
        before = await taker.one()

        append = await buffer.append(page(b"new"))
        await append.done

        assert before == []
        assert await taker.one() == [0]


async def test_a_record_that_the_target_will_never_take_stops_the_sink_and_stays() -> None:
    async with sink() as buffer:
        taker = join(buffer)
        await taker.all_offsets()

        await buffer.subscription("").reject(0, taker.answer(), [Range(2, 3)], reason="no such customer")

        assert buffer.record.paused == "REJECTED_BY_TARGET: partition 0, offset 2: no such customer"
        assert taker.lane().resend.state is State.PAUSED
        assert taker.lane().cursor.pending(10) == 10
        await buffer.resume()
        assert taker.lane().cursor.attempts == ((2, 1),)


async def test_a_rejection_that_is_too_late_stops_nothing() -> None:
    async with sink() as buffer:
        taker = join(buffer)
        await taker.all_offsets()
        await taker.ack(0, 10)

        await buffer.subscription("").reject(0, taker.answer(), [Range(2, 3)], reason="too late")

        assert buffer.record.paused is None


# -- time


async def test_an_unanswered_record_comes_again_after_its_deadline() -> None:
    clock = FakeClock()
    async with sink(clock=clock, ack_deadline_us=2_000_000, retry_backoff_max_us=100_000) as buffer:
        taker = join(buffer)
        await taker.all_offsets()
        await taker.ack(0, 3)

        clock.advance(2.0)
        buffer.subscription("").let_time_pass()
        clock.advance(0.1)

        assert taker.told_revoked() == [(0, 3, 1)]
        assert await taker.one() == [3]
        assert taker.lane().cursor.attempts == ((3, 1),)


async def test_whoever_asks_for_more_time_gets_it_and_nobody_else() -> None:
    clock = FakeClock()
    async with sink(clock=clock, ack_deadline_us=2_000_000) as buffer:
        taker = join(buffer)
        await taker.one()
        subscription = buffer.subscription("")
        clock.advance(1.5)

        assert subscription.extend(0, taker.lane().owner_epoch)
        assert not subscription.extend(0, taker.lane().owner_epoch + 1)
        clock.advance(1.5)
        subscription.let_time_pass()

        assert taker.told_revoked() == []


# -- the sink


async def test_pausing_takes_back_what_is_in_flight() -> None:
    async with sink() as buffer:
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
    async with sink(store) as buffer:
        await buffer.stop("at night")

    async with running(store.reopen()) as broker:
        taker = join(broker.sink("orders"))
        held_back = await taker.all_offsets()
        await broker.sink("orders").resume()

        assert held_back == []
        assert len(await taker.all_offsets()) == 10


async def test_a_seek_opens_a_new_account_and_voids_what_is_in_flight() -> None:
    async with sink() as buffer:
        taker = join(buffer)
        await taker.all_offsets()
        old = taker.answer()

        await buffer.subscription("").seek(0, 7)

        late = await taker.subscription.ack(0, old, [Range(8, 9)])
        assert [outcome for _, _, outcome in late] == [STALE]
        assert await taker.all_offsets() == [7, 8, 9]
        assert taker.lane().cursor.start == 7


async def test_what_was_dropped_before_a_seek_counts_in_the_new_account() -> None:
    async with sink(overflow=Overflow.DROP_OLDEST, max_disk_cache=6) as buffer:
        taker = join(buffer)

        await buffer.subscription("").seek(0, 2)

        assert taker.lane().cursor.dropped == 2
        assert taker.lane().cursor.balances(10)
        assert await taker.all_offsets() == [4, 5, 6, 7, 8, 9]
