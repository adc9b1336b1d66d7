from __future__ import annotations

import pytest

from forebay.broker.core.delivery.lane import SettleOutcome
from forebay.broker.core.errors import BrokerError
from forebay.broker.core.partition.position import EARLIEST
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.settings import SinkSettings
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.runtime.sink.buffer import Buffer
from forebay.broker.storage.store.memory import MemoryStore
from forebay.errors.reasons import Reason
from tests.support.brokers.one_sink import filled_sink
from tests.support.brokers.running import running
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


async def test_consumers_share_the_partitions_evenly() -> None:
    async with filled_sink(partitions=5) as buffer:
        first, second = join(buffer, "a"), join(buffer, "b")

        assert sorted([*first.owned(), *second.owned()]) == [0, 1, 2, 3, 4]
        assert {len(first.owned()), len(second.owned())} == {2, 3}
        assert first.told_partitions()[-1] == first.owned()
        assert second.told_partitions()[-1] == second.owned()


async def test_a_consumer_beyond_the_number_of_partitions_waits_for_one() -> None:
    async with filled_sink() as buffer:
        first, second = join(buffer, "a"), join(buffer, "b")
        waiting = second.owned()

        buffer.subscription("").leave(first.consumer)

        assert (waiting, second.owned()) == ([], [0])


async def test_a_partition_moves_when_what_is_in_flight_is_answered() -> None:
    async with filled_sink(partitions=2) as buffer:
        first = join(buffer, "a")
        await first.one(0)
        await first.one(1)
        second = join(buffer, "b")
        [moving] = [number for number in (0, 1) if buffer.subscription("").lanes.handovers.get(number)]

        assert second.owned() == []
        assert await first.ack(0, 1, moving) == [OK]

        assert second.owned() == [moving]
        assert await second.one(moving) == [1]


async def test_a_partition_on_the_move_gets_nothing_new() -> None:
    async with filled_sink(partitions=2) as buffer:
        first = join(buffer, "a")
        await first.one(0)
        await first.one(1)

        join(buffer, "b")

        moving = [number in buffer.subscription("").lanes.handovers for number in (0, 1)]
        assert sorted(moving) == [False, True]


async def test_a_partition_is_taken_from_an_owner_that_does_not_answer_in_time() -> None:
    clock = FakeClock()
    async with filled_sink(
        clock=clock, partitions=2, ack_deadline_us=1_000_000, retry_backoff_max_us=100_000
    ) as buffer:
        first = join(buffer, "a")
        for partition in (0, 1):
            await first.one(partition)
        old = [first.answer(partition) for partition in (0, 1)]
        second = join(buffer, "b")

        clock.advance(1.0)
        buffer.subscription("").process_timers()
        clock.advance(1.0)

        [moved] = second.owned()
        late = await buffer.subscription("").ack(moved, old[moved], [Range(0, 1)])
        assert [outcome for _, _, outcome in late] == [STALE]
        assert await second.one(moved) == [0]
        assert buffer.subscription("").lanes[moved].cursor.attempts == ((0, 1),)


async def test_an_owner_that_answers_keeps_what_is_to_be_handed_over() -> None:
    clock = FakeClock()
    async with filled_sink(clock=clock, partitions=2, ack_deadline_us=1_000_000) as buffer:
        first = join(buffer, "a")
        for partition in (0, 1):
            await first.one(partition)
        second = join(buffer, "b")
        subscription = buffer.subscription("")
        [moving] = subscription.lanes.handovers

        clock.advance(0.9)
        subscription.extend(moving, first.answer(moving).owner_epoch, [Range(0, 1)])
        clock.advance(0.2)
        subscription.process_timers()
        kept = second.owned()
        await first.ack(0, 1, moving)

        assert kept == []
        assert second.owned() == [moving]


async def test_records_in_flight_to_a_consumer_that_leaves_go_to_the_next_one_and_count_as_an_attempt() -> None:
    async with filled_sink() as buffer:
        first = join(buffer, "a")
        assert await first.all_offsets() == list(range(10))
        second = join(buffer, "b")

        buffer.subscription("").leave(first.consumer)

        assert await second.all_offsets() == list(range(10))
        assert second.lane().cursor.attempts == ((0, 1),)
        assert second.lane().progress.redelivered == 10


async def test_a_consumer_that_leaves_with_nothing_in_flight_has_failed_nothing() -> None:
    async with filled_sink() as buffer:
        first = join(buffer, "a")
        await first.one()
        await first.ack(0, 1)

        buffer.subscription("").leave(first.consumer)

        assert buffer.subscription("").lanes[0].cursor.attempts == ()


async def test_a_second_consumer_of_the_same_id_takes_the_place_of_the_first() -> None:
    async with filled_sink() as buffer:
        first, second = join(buffer, "a"), join(buffer, "a")

        assert isinstance(first.consumer.closed, BrokerError)
        assert first.consumer.closed.reason is Reason.CONSUMER_REPLACED
        assert await first.one() == []
        assert await second.one() == [0]
        buffer.subscription("").leave(first.consumer)
        assert second.owned() == [0], "the goodbye of the first means nothing to the second"


async def test_owner_epochs_of_two_starts_never_meet() -> None:
    store = MemoryStore()
    async with filled_sink(store) as buffer:
        old = join(buffer).answer()
    async with running(store.reopen()) as broker:
        taker = join(broker.sink("orders"))
        await taker.one()
        late = await taker.subscription.ack(0, old, [Range(0, 1)])

        assert [outcome for _, _, outcome in late] == [STALE]


async def test_an_owner_epoch_is_never_given_again_not_even_by_a_sink_or_subscription_recreated() -> None:
    async with running() as broker:
        epochs: list[int] = []
        for _ in range(2):
            buffer, _ = await broker.create("orders", SinkSettings(partitions=2))
            for _ in range(2):
                await buffer.subscribing.create("audit", EARLIEST, or_earliest=False)
                Taker(buffer.subscription("audit"), "a")
                epochs += [lane.owner_epoch for lane in buffer.subscription("audit").lanes]
                await buffer.subscribing.delete("audit")
            await broker.delete("orders", force=True)

        assert len(set(epochs)) == len(epochs) == 8
