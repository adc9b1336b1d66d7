"""The keeper of connections closes those that are too many, and knows which of them made calls."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Collection

import pytest

from forebay.broker.core.errors import BrokerError
from forebay.broker.core.resources.connections import ConnectionLimits, Use
from forebay.broker.core.resources.unread import Traffic
from forebay.broker.runtime.resources.connections import ENDING_S, GROWTH_BYTES, Caller, Connections
from forebay.broker.runtime.resources.sockets import Accepted
from forebay.errors.reasons import Reason
from tests.support.brokers.connections import HOST, OpenSockets, calling

pytestmark = pytest.mark.anyio
KIB = 1 << 10


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def connections(clock: Clock, closed: list[tuple[str, int]] | None = None) -> Connections:
    return Connections(
        ConnectionLimits(total_max=16, per_host_max=4, unread_max=1_000 * KIB),
        clock,
        on_closed=lambda reason, count: (closed if closed is not None else []).append((reason, count)),
    )


async def test_strangers_beyond_the_bound_of_their_host_are_closed_and_callers_stay() -> None:
    clock, sockets, closed = Clock(), OpenSockets(), list[tuple[str, int]]()
    keeper = connections(clock, closed)
    sockets.add(6)
    with calling(keeper, 1):
        assert await keeper.check(sockets)

    assert sockets.shut_down == [2, 3]
    assert closed == [("per_peer", 2)]


async def test_a_connection_being_closed_is_neither_counted_nor_closed_again() -> None:
    sockets, closed = OpenSockets(), list[tuple[str, int]]()
    keeper = connections(Clock(), closed)
    sockets.add(6)
    await keeper.check(sockets)

    assert not await keeper.check(sockets)

    assert closed == [("per_peer", 2)]
    assert sum(keeper.counts.values()) == 4


async def test_the_use_of_connections_is_counted() -> None:
    sockets, keeper = OpenSockets(), connections(Clock())
    sockets.add(3)
    with calling(keeper, 1):
        with calling(keeper, 2):
            pass
        await keeper.check(sockets)

    assert keeper.counts == {Use.STRANGER: 1, Use.IDLE: 1, Use.BUSY: 1}


async def test_a_port_that_another_connection_has_now_is_a_strangers() -> None:
    sockets, keeper = OpenSockets(), connections(Clock())
    sockets.add(2)
    with calling(keeper, 1):
        pass
    first = sockets.open.pop(1)
    await keeper.check(sockets)
    sockets.open[9] = Accepted(9, 9, first.host, first.port)

    await keeper.check(sockets)

    assert keeper.counts[Use.STRANGER] == 2


async def test_a_flood_is_one_line_of_the_log_in_ten_seconds(caplog: pytest.LogCaptureFixture) -> None:
    clock, sockets = Clock(), OpenSockets()
    keeper = connections(clock)
    for _ in range(3):
        sockets.add(6)
        await keeper.check(sockets)
        sockets.settle()
        clock.now += 4.0

    messages = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert messages == [f"connections were closed count=2 reason=per_peer peer={HOST} open=6"]


async def test_the_connection_that_sent_the_most_without_a_call_is_closed() -> None:
    sockets, closed = OpenSockets(), list[tuple[str, int]]()
    keeper = connections(Clock(), closed)
    sockets.add(3)
    sockets.sent = {1: 300 * KIB, 2: 500 * KIB, 3: 300 * KIB}

    await keeper.check(sockets)

    assert (sockets.shut_down, closed) == ([2], [("unread", 1)])


async def test_bytes_received_before_a_call_are_not_unread_after_it() -> None:
    clock, sockets = Clock(), OpenSockets()
    keeper = connections(clock)
    sockets.add(1)
    sockets.sent = {1: 900 * KIB}
    await keeper.check(sockets)
    clock.now += 1.0
    with calling(keeper, 1):
        pass
    sockets.sent = {1: 1_500 * KIB}
    await keeper.check(sockets)
    assert sockets.shut_down == []

    sockets.sent = {1: 2_501 * KIB}
    await keeper.check(sockets)

    assert sockets.shut_down == [1]


async def test_bytes_received_beside_an_open_call_count_as_unread_unless_they_are_read() -> None:
    clock, sockets = Clock(), OpenSockets()
    keeper = connections(clock)
    sockets.add(1)
    with calling(keeper, 1) as caller:
        sockets.sent = {1: 5_000 * KIB}
        caller.intake.bytes = 5_000 * KIB
        await keeper.check(sockets)
        assert sockets.shut_down == []

        sockets.sent = {1: 6_001 * KIB}
        await keeper.check(sockets)

    assert sockets.shut_down == [1]


async def receive(caller: Caller, began: asyncio.Event) -> None:
    """Wait for a request that never comes."""
    with caller.reception():
        began.set()
        await asyncio.Event().wait()


async def test_incomplete_requests_are_ended_with_an_error_before_their_connection_is_closed() -> None:
    clock, sockets, began = Clock(), OpenSockets(), asyncio.Event()
    keeper = connections(clock)
    sockets.add(1)
    with calling(keeper, 1) as caller:
        receiving = asyncio.ensure_future(receive(caller, began))
        await began.wait()
        sockets.sent = {1: 2_000 * KIB}
        await keeper.check(sockets)
        with pytest.raises(BrokerError) as ended:
            await receiving

        await keeper.check(sockets)
        early = list(sockets.shut_down)
        clock.now += ENDING_S
        await keeper.check(sockets)

    assert (ended.value.reason, early) == (Reason.REQUEST_TOO_SLOW, [])
    assert sockets.shut_down == [1]


async def test_a_connection_whose_incomplete_requests_were_all_of_its_calls_stays_open() -> None:
    clock, sockets, began = Clock(), OpenSockets(), asyncio.Event()
    keeper = connections(clock)
    sockets.add(1)
    with calling(keeper, 1) as caller:
        receiving = asyncio.ensure_future(receive(caller, began))
        await began.wait()
        sockets.sent = {1: 2_000 * KIB}
        await keeper.check(sockets)
        with pytest.raises(BrokerError):
            await receiving
    clock.now += 2 * ENDING_S

    busy = await keeper.check(sockets)

    assert (busy, sockets.shut_down) == (False, [])


async def test_a_call_that_is_cancelled_otherwise_ends_as_cancelled() -> None:
    keeper, began = connections(Clock()), asyncio.Event()
    with calling(keeper, 1) as caller:
        receiving = asyncio.ensure_future(receive(caller, began))
        await began.wait()

        receiving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await receiving


async def test_free_memory_is_returned_once_most_of_what_was_held_is_gone() -> None:
    clock, sockets, returned = Clock(), OpenSockets(), list[float]()
    keeper = Connections(ConnectionLimits(16, 4, 1_000 * KIB), clock, on_calm=lambda: returned.append(clock.now))
    sockets.add(1)
    with calling(keeper, 1):
        sockets.sent = {1: 900 * KIB}
        clock.now += 10.0
        await keeper.check(sockets)
    for _ in range(3):
        clock.now += 10.0
        await keeper.check(sockets)

    assert returned == [120.0]


async def test_a_process_that_grows_is_examined_before_the_second_is_over() -> None:
    loop, looks = asyncio.get_running_loop(), asyncio.Queue[None]()

    class Counted(OpenSockets):
        def scan(self, again: Collection[Accepted] | None = None) -> list[Accepted]:
            loop.call_soon_threadsafe(looks.put_nowait, None)
            return []

    growing = itertools.count(step=GROWTH_BYTES)
    keeper = Connections(ConnectionLimits(16, 4, 1_000), Clock(), resident=lambda: next(growing))
    running = asyncio.ensure_future(keeper.run(Counted()))

    async with asyncio.timeout(30):
        for _ in range(2):
            await looks.get()  # the clock stands still: a second is never over

    running.cancel()


async def test_a_check_between_full_ones_asks_only_those_with_an_open_call_and_new_ones() -> None:
    asked = list[int]()

    class Asked(OpenSockets):
        def traffic(self, accepted: Accepted) -> Traffic:
            asked.append(accepted.inode)
            return super().traffic(accepted)

    sockets, keeper = Asked(), connections(Clock())
    sockets.add(2)
    with calling(keeper, 1):
        await keeper.check(sockets)
        sockets.add(1)
        asked.clear()

        await keeper.check(sockets, is_full=False)

    assert asked == [1, 3]
    assert keeper.counts == {Use.STRANGER: 2, Use.IDLE: 0, Use.BUSY: 1}


async def test_a_peer_that_takes_not_even_the_end_of_its_call_is_closed() -> None:
    sockets, closed = OpenSockets(), list[tuple[str, int]]()
    keeper = connections(Clock(), closed)
    sockets.add(2)
    keeper.close((HOST, 1_002))

    await keeper.check(sockets)

    assert (sockets.shut_down, closed) == ([2], [("untaken", 1)])


async def test_a_check_between_full_ones_finds_a_caller_whose_descriptor_was_another_connections() -> None:
    class Reused(OpenSockets):
        def scan(self, again: Collection[Accepted] | None = None) -> list[Accepted]:
            """A descriptor that was in use is not checked again, unless all are."""
            self.open[1] = Accepted(9, 1, HOST, 1_009) if again is None else Accepted(1, 1, HOST, 1_001)
            return super().scan()

    sockets, keeper = OpenSockets(), connections(Clock())
    sockets.add(1)
    await keeper.check(sockets)
    reused = Reused()
    with calling(keeper, 9):
        await keeper.check(reused, is_full=False)

    assert keeper.counts == {Use.STRANGER: 0, Use.IDLE: 0, Use.BUSY: 1}


async def test_bytes_of_a_stranger_count_from_the_full_check_that_finds_them() -> None:
    clock, sockets, closed = Clock(), OpenSockets(), list[tuple[str, int]]()
    keeper = connections(clock, closed)
    sockets.add(2)
    await keeper.check(sockets)
    sockets.sent = {2: 2_000 * KIB}
    clock.now += 1.0
    await keeper.check(sockets)

    assert (sockets.shut_down, closed) == ([2], [("unread", 1)])
