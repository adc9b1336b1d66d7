"""A consumer that answers no ping is hung: its partitions move, and nothing of what it had counts as a failed try."""

from __future__ import annotations

import pytest

from forebay.broker.core.errors import BrokerError
from forebay.broker.core.settings import SinkSettings
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.runtime.delivery.events import Pinged
from forebay.broker.runtime.delivery.liveness import StreamLiveness
from forebay.errors.reasons import Reason
from tests.support.brokers.one_sink import fill
from tests.support.brokers.running import running
from tests.support.brokers.taker import Taker

pytestmark = pytest.mark.anyio
TIMEOUT_S = 15.0
DEADLINE_US = 3_000_000


def pings(taker: Taker) -> int:
    return sum(isinstance(event, Pinged) for event in taker.events)


def with_session(taker: Taker, clock: FakeClock) -> Taker:
    taker.consumer.session = StreamLiveness(TIMEOUT_S, clock.now)
    return taker


async def test_a_hung_consumer_loses_its_partition_to_an_idle_one_without_a_failed_try() -> None:
    clock = FakeClock()
    async with running(clock=clock) as broker:
        settings = SinkSettings(buffer_page_size=1, ack_deadline_us=DEADLINE_US, max_attempts=1)
        buffer, _ = await broker.create("orders", settings)
        await fill(buffer, 2)
        subscription = buffer.subscription("")
        hung = with_session(Taker(subscription, "hung"), clock)
        assert await hung.one() == [0]
        idle = with_session(Taker(subscription, "idle"), clock)

        for _ in range(20):  # its kernel receives the ping, no process answers it
            clock.advance(1.0)
            subscription.process_timers()
            if pings(hung) and hung.consumer.session is not None and hung.consumer.session.ends_at is None:
                hung.consumer.session.wrote(clock.now, ping=True)

        assert isinstance(hung.consumer.closed, BrokerError)
        assert hung.consumer.closed.reason is Reason.SESSION_TIMED_OUT
        assert pings(hung) == 1
        assert await idle.all_offsets() == [0, 1]
        assert idle.lane().cursor.attempts == ()
        assert idle.lane().cursor.dead_lettered == 0


async def test_a_consumer_that_answers_pings_may_still_be_too_late_and_that_is_a_failed_try() -> None:
    clock = FakeClock()
    async with running(clock=clock) as broker:
        settings = SinkSettings(buffer_page_size=1, ack_deadline_us=DEADLINE_US)
        buffer, _ = await broker.create("orders", settings)
        await fill(buffer, 1)
        subscription = buffer.subscription("")
        slow = with_session(Taker(subscription), clock)
        assert await slow.one() == [0]

        clock.advance(3.5)
        subscription.process_timers()
        before = (slow.lane().cursor.attempts, pings(slow))
        slow.consumer.note_message()
        subscription.process_timers()

        assert before == ((), 1)
        assert slow.lane().cursor.attempts == ((0, 1),)
        assert slow.consumer.closed is None


async def test_a_consumer_with_nothing_in_flight_is_not_asked() -> None:
    clock = FakeClock()
    async with running(clock=clock) as broker:
        buffer, _ = await broker.create("orders", SinkSettings())
        subscription = buffer.subscription("")
        idle = with_session(Taker(subscription), clock)

        clock.advance(3_600.0)
        subscription.process_timers()

        assert (pings(idle), idle.consumer.closed) == (0, None)


@pytest.mark.parametrize(("orderly", "attempts"), [(True, ()), (False, ((0, 1),))], ids=["goodbye", "vanished"])
async def test_only_a_consumer_that_vanishes_has_failed_what_it_had_in_flight(
    orderly: bool, attempts: tuple[tuple[int, int], ...]
) -> None:
    async with running() as broker:
        buffer, _ = await broker.create("orders", SinkSettings(buffer_page_size=1))
        await fill(buffer, 2)
        subscription = buffer.subscription("")
        taker = Taker(subscription)
        await taker.all_offsets()

        subscription.leave(taker.consumer, orderly=orderly)

        assert subscription.lanes[0].cursor.attempts == attempts
        assert await Taker(subscription, "next").all_offsets() == [0, 1]


def test_a_ping_counts_from_when_it_was_written() -> None:
    session = StreamLiveness(TIMEOUT_S, 0.0)
    assert not session.ping_is_due(4.9)
    assert session.ping_is_due(5.0)
    assert not session.ping_is_due(6.0)

    ends = [session.ends_at]
    session.wrote(60.0, ping=True)
    ends.append(session.ends_at)
    session.note_message(61.0)
    ends.append(session.ends_at)

    assert ends == [None, 75.0, None]
    assert session.next_timer() == 66.0


def test_a_peer_that_reads_nothing_is_hung_after_some_time_outs_and_one_that_reads_slowly_is_not() -> None:
    session = StreamLiveness(TIMEOUT_S, 0.0)
    session.writes(10.0)
    ends = [session.ends_at]

    session.wrote(40.0, ping=False)
    ends.append(session.ends_at)

    assert ends == [70.0, None]
    assert session.heard_at == 40.0
