from __future__ import annotations

import asyncio
import logging

import pytest

from forebay.broker.core.errors import ReadFailed
from forebay.broker.core.partition.log import PartitionLog
from forebay.broker.core.partition.pages import DropReason
from forebay.broker.core.partition.position import At, Position
from forebay.broker.core.settings import SinkSettings
from forebay.broker.runtime.broker import Broker
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.runtime.delivery.events import GapMet
from forebay.broker.runtime.sink.buffer import Buffer
from forebay.broker.runtime.sink.retention import expiry as expiry_module
from forebay.broker.runtime.sink.retention.expiry import Expirer
from forebay.broker.storage.records.pages.entry import ENTRY
from forebay.broker.storage.store.contract import Family
from forebay.broker.storage.store.memory import MemoryStore
from tests.support.brokers.one_sink import fill
from tests.support.brokers.running import running
from tests.support.brokers.taker import Taker
from tests.support.pages.samples import page

pytestmark = pytest.mark.anyio
MINUTE_US = 60_000_000
YEAR_S = 365 * 86_400.0


async def aging(broker: Broker, max_age_us: int = MINUTE_US, *, partitions: int = 1) -> Buffer:
    """The sink `orders`, in which records grow old."""
    settings = SinkSettings(buffer_page_size=1, max_age_us=max_age_us, partitions=partitions)
    buffer, _ = await broker.create("orders", settings)
    return buffer


def gaps(buffer: Buffer, partition: int = 0) -> list[tuple[int, int, DropReason]]:
    return [(gap.first, gap.end, gap.reason) for gap in buffer.logs[partition].gaps]


def balances(buffer: Buffer) -> bool:
    return all(
        lane.cursor.balances(log.tail.next_offset)
        for one in buffer.subscriptions.values()
        for lane, log in zip(one.lanes, buffer.logs, strict=True)
    )


async def test_expired_records_are_removed_without_new_input_and_leave_a_gap_and_a_count() -> None:
    clock = FakeClock()
    async with running(clock=clock) as broker:
        buffer = await aging(broker)
        await fill(buffer, 3)
        clock.advance(40.0)
        await fill(buffer, 2)
        clock.advance(20.5)

        await broker.expirer.sweep(buffer)

        assert gaps(buffer) == [(0, 3, DropReason.EXPIRED)]
        assert buffer.logs[0].head.dropped == ((DropReason.EXPIRED, 3),)
        cursor = buffer.subscription("").lanes[0].cursor
        assert (cursor.dropped, cursor.watermark, cursor.pending(5)) == (3, 3, 2)
        assert await Taker(buffer.subscription("")).all_offsets() == [3, 4]


async def test_a_record_as_old_as_the_bound_stays_and_one_older_by_a_microsecond_goes() -> None:
    clock = FakeClock(now=0.0)
    async with running(clock=clock) as broker:
        buffer = await aging(broker)
        await fill(buffer, 1)
        clock.advance(60.0)
        await broker.expirer.sweep(buffer)
        stays = gaps(buffer)
        clock.advance(0.000_002)
        await broker.expirer.sweep(buffer)

        assert (stays, gaps(buffer)) == ([], [(0, 1, DropReason.EXPIRED)])


async def test_without_a_bound_nothing_grows_old() -> None:
    clock = FakeClock()
    async with running(clock=clock) as broker:
        buffer = await aging(broker, 0)
        await fill(buffer, 1)
        clock.advance(10 * YEAR_S)

        await broker.expirer.sweep(buffer)

        assert await Taker(buffer.subscription("")).all_offsets() == [0]


async def test_a_record_in_flight_does_not_expire_and_the_records_after_it_do() -> None:
    clock = FakeClock()
    async with running(clock=clock) as broker:
        buffer = await aging(broker)
        await fill(buffer, 3)
        taker = Taker(buffer.subscription(""))
        await taker.one()
        clock.advance(61.0)

        await broker.expirer.sweep(buffer)

        assert gaps(buffer) == [(1, 3, DropReason.EXPIRED)]
        assert [outcome.name for outcome in await taker.ack(0, 1)] == ["OK"]
        assert buffer.subscription("").lanes[0].cursor.acked == 1
        assert balances(buffer)


async def test_records_beyond_their_age_are_not_redelivered_after_their_connection_breaks() -> None:
    """In flight longer than `max_age` when the connection breaks: expired, not resent, counted."""
    clock = FakeClock()
    async with running(clock=clock) as broker:
        buffer = await aging(broker)
        await fill(buffer, 2)
        subscription = buffer.subscription("")
        first = Taker(subscription, "first")
        await first.all_offsets()
        clock.advance(61.0)
        await fill(buffer, 1)
        subscription.leave(first.consumer)

        second = Taker(subscription, "second")
        events = await second.take_all()

        assert [event.gap.reason for event in events if isinstance(event, GapMet)] == [DropReason.EXPIRED]
        assert (second.told_gaps(), await second.all_offsets()) == ([(0, 2)], [])
        assert buffer.logs[0].head.dropped == ((DropReason.EXPIRED, 2),)
        assert (subscription.lanes[0].cursor.dropped, subscription.lanes[0].sender.position) == (2, 3)
        assert balances(buffer)


async def test_the_sweeper_counts_it_when_no_consumer_reconnects() -> None:
    clock = FakeClock()
    async with running(clock=clock) as broker:
        buffer = await aging(broker)
        await fill(buffer, 2)
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()
        clock.advance(61.0)
        await broker.expirer.sweep(buffer)
        held = gaps(buffer)
        buffer.subscription("").leave(taker.consumer)
        await broker.expirer.sweep(buffer)

        assert (held, gaps(buffer)) == ([], [(0, 2, DropReason.EXPIRED)])


async def test_a_nacked_record_that_is_too_old_at_its_retry_is_not_redelivered() -> None:
    clock = FakeClock()
    async with running(clock=clock) as broker:
        buffer = await aging(broker)
        await fill(buffer, 1)
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()
        await taker.nack(0, 1, delay_s=70.0)
        clock.advance(71.0)

        assert await taker.all_offsets() == []
        assert taker.told_gaps() == [(0, 1)]


async def test_a_record_beyond_its_age_in_flight_to_one_subscription_is_still_delivered_to_another() -> None:
    clock = FakeClock()
    async with running(MemoryStore(), clock) as broker:
        buffer = await aging(broker)
        await fill(buffer, 1)
        await buffer.subscribing.create("second", Position(At.EARLIEST), or_earliest=False)
        first = Taker(buffer.subscription(""))
        await first.all_offsets()
        clock.advance(61.0)

        assert await Taker(buffer.subscription("second")).all_offsets() == [0]
        assert gaps(buffer) == []


async def test_a_backlog_far_behind_the_tail_goes_in_slices_and_the_rest_stays() -> None:
    clock = FakeClock()
    async with running(clock=clock) as broker:
        buffer = await aging(broker, partitions=2)
        old = await asyncio.gather(*(buffer.append(page(b"x")) for _ in range(900)))
        await asyncio.gather(*(append.done for append in old))
        clock.advance(59.0)
        young = await asyncio.gather(*(buffer.append(page(b"x")) for _ in range(700)))
        await asyncio.gather(*(append.done for append in young))
        await fill(buffer, 1, partition=1)
        clock.advance(2.0)

        await broker.expirer.sweep(buffer)

        assert (buffer.logs[0].earliest, buffer.logs[0].records) == (900, 700)
        assert buffer.logs[0].head.dropped == ((DropReason.EXPIRED, 900),)
        assert buffer.logs[1].records == 1
        assert balances(buffer)


@pytest.mark.slow
async def test_all_that_is_loaded_being_in_flight_does_not_hide_what_is_after_it() -> None:
    clock = FakeClock()
    store = MemoryStore()
    async with running(store, clock) as broker:
        buffer = await aging(broker)
        await asyncio.gather(*[append.done for append in [await buffer.append(page(b"x")) for _ in range(900)]])
    async with running(store.reopen(), clock) as broker:
        buffer = broker.sink("orders")
        taker = Taker(buffer.subscription(""))
        taken = [await taker.one() for _ in range(300)]
        clock.advance(61.0)

        await broker.expirer.sweep(buffer)

        assert taken[-1] == [299]
        assert gaps(buffer)[0][0] == 300
        assert gaps(buffer)[-1][1] == 900
        assert buffer.logs[0].records == 300


async def test_a_clock_that_jumps_from_1970_to_today_makes_nothing_older() -> None:
    """The wall clock jumps from 1970 to today: nothing expires. While the broker runs, and over a restart."""
    store = MemoryStore()
    clock = FakeClock(wall=3_600_000_000)
    async with running(store, clock) as broker:
        buffer = await aging(broker)
        await fill(buffer, 2)
        clock.wall = 1_700_000_000_000_000
        await broker.expirer.sweep(buffer)
        assert gaps(buffer) == []
        clock.wall = 3_600_000_000
    clock.wall = 1_700_000_000_000_000
    async with running(store.reopen(), clock) as broker:
        buffer = broker.sink("orders")
        await broker.expirer.sweep(buffer)
        assert gaps(buffer) == []
        clock.advance(61.0)

        await broker.expirer.sweep(buffer)

        assert gaps(buffer) == [(0, 2, DropReason.EXPIRED)]


@pytest.mark.parametrize("ahead_us", [3_600_000_000, -3_600_000_000])
async def test_a_wrong_clock_at_a_restart_makes_nothing_older_or_younger(ahead_us: int) -> None:
    """The broker is down for half a minute, and restarts with the wall clock an hour off; then it is set."""
    store, clock = MemoryStore(), FakeClock()
    async with running(store, clock) as broker:
        await fill(await aging(broker), 2)
        clock.advance(10.0)
    clock.advance(30.0)
    clock.wall += ahead_us
    async with running(store.reopen(), clock) as broker:
        await broker.expirer.sweep(broker.sink("orders"))
        assert gaps(broker.sink("orders")) == []
        clock.wall -= ahead_us
        clock.advance(10.0)
    async with running(store.reopen().reopen(), clock) as broker:
        await broker.expirer.sweep(broker.sink("orders"))
        assert gaps(broker.sink("orders")) == []
        clock.advance(11.0)

        await broker.expirer.sweep(broker.sink("orders"))

        assert gaps(broker.sink("orders")) == [(0, 2, DropReason.EXPIRED)]


async def test_the_time_that_the_broker_was_down_counts() -> None:
    store, clock = MemoryStore(), FakeClock()
    async with running(store, clock) as broker:
        await fill(await aging(broker), 2)
    clock.reboot()
    clock.wall += 2 * MINUTE_US
    async with running(store.reopen(), clock) as broker:
        await broker.expirer.sweep(broker.sink("orders"))

        assert gaps(broker.sink("orders")) == [(0, 2, DropReason.EXPIRED)]


async def test_the_broker_sweeps_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry_module, "EXPIRE_S", 0.01)
    clock = FakeClock()
    async with running(clock=clock) as broker:
        buffer = await aging(broker)
        await fill(buffer, 2)
        dropped = buffer.state.changed.next()
        clock.advance(61.0)
        async with asyncio.timeout(10):
            await dropped.wait()

        assert gaps(buffer) == [(0, 2, DropReason.EXPIRED)]


async def test_a_partition_whose_index_was_damaged_is_repaired_and_swept_as_the_others_are() -> None:
    store, clock = MemoryStore(), FakeClock()
    async with running(store, clock) as broker:
        buffer = await aging(broker, partitions=2)
        await fill(buffer, 1, partition=0)
        await fill(buffer, 1, partition=1)
    store = store.reopen()
    store.damage(Family.INDEX, ENTRY.key(buffer.record.id, 0, 0))
    async with running(store, clock) as broker:
        buffer = broker.sink("orders")
        async with asyncio.timeout(10):
            while not buffer.logs[0].repairs:
                await asyncio.sleep(0)
        clock.advance(61.0)
        await Expirer(lambda: [buffer], broker.pages).sweep(buffer)

        assert [gaps(buffer, partition) for partition in (0, 1)] == [[(0, 1, DropReason.EXPIRED)]] * 2


async def test_a_partition_whose_age_cannot_be_read_is_logged_once_and_again_after_it_was_read(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.ERROR, expiry_module.__name__)
    async with running() as broker:
        buffer = await aging(broker)
        await fill(buffer, 1)
        expirer = Expirer(lambda: [buffer], broker.pages)
        outcomes, load = iter((False, False, True, False)), broker.pages.load_oldest

        async def load_oldest(sink: int, log: PartitionLog) -> None:
            if not next(outcomes, True):
                raise ReadFailed("Input/output error")
            await load(sink, log)

        monkeypatch.setattr(broker.pages, "load_oldest", load_oldest)
        logged = []
        for _ in range(4):
            await expirer.sweep_all()
            logged.append(sum(record.name == expiry_module.__name__ for record in caplog.records))

    assert logged == [1, 1, 1, 2]


async def test_acked_pages_that_are_retained_do_not_expire_and_unsettled_ones_after_them_do() -> None:
    clock = FakeClock()
    async with running(clock=clock) as broker:
        settings = SinkSettings(buffer_page_size=1, max_age_us=MINUTE_US, retain_acked_time_us=60 * MINUTE_US)
        buffer, _ = await broker.create("orders", settings)
        await fill(buffer, 6)
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()
        await taker.ack(0, 3)
        await taker.ack(4, 5)
        buffer.subscription("").leave(taker.consumer)
        clock.advance(61.0)

        await broker.expirer.sweep(buffer)

        assert gaps(buffer) == [(3, 4, DropReason.EXPIRED), (5, 6, DropReason.EXPIRED)]
        cursor = buffer.subscription("").lanes[0].cursor
        assert (cursor.acked, cursor.dropped, cursor.watermark) == (4, 2, 6)
        assert (buffer.logs[0].earliest, buffer.logs[0].records) == (0, 4)
        assert balances(buffer)


async def test_acked_pages_that_are_retained_do_not_expire_when_they_are_met_by_a_delivery() -> None:
    clock = FakeClock()
    async with running(clock=clock) as broker:
        settings = SinkSettings(buffer_page_size=1, max_age_us=MINUTE_US, retain_acked_time_us=60 * MINUTE_US)
        buffer, _ = await broker.create("orders", settings)
        await fill(buffer, 3)
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()
        await taker.ack(1, 3)
        clock.advance(61.0)
        buffer.subscription("").leave(taker.consumer)

        await Taker(buffer.subscription("")).all_offsets()

        assert gaps(buffer) == [(0, 1, DropReason.EXPIRED)]


async def test_records_unsettled_in_one_subscription_expire_although_another_has_acked_them() -> None:
    clock = FakeClock()
    async with running(clock=clock) as broker:
        settings = SinkSettings(buffer_page_size=1, max_age_us=MINUTE_US, retain_acked_time_us=60 * MINUTE_US)
        buffer, _ = await broker.create("orders", settings)
        await buffer.subscribing.create("audit", Position(At.EARLIEST), or_earliest=True)
        await fill(buffer, 2)
        taker = Taker(buffer.subscription(""))
        await taker.all_offsets()
        await taker.ack(0, 2)
        clock.advance(61.0)

        await broker.expirer.sweep(buffer)

        assert gaps(buffer) == [(0, 2, DropReason.EXPIRED)]
        assert buffer.subscription("audit").lanes[0].cursor.dropped == 2
        assert balances(buffer)
