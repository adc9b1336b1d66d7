"""The keeper of connections closes those that are too many, and knows which of them made calls."""

from __future__ import annotations

import logging

import pytest

from forebay.broker.core.resources.connections import ConnectionLimits, Use
from forebay.broker.runtime.resources.connections import Connections
from forebay.broker.runtime.resources.sockets import Accepted

pytestmark = pytest.mark.anyio
HOST = "192.0.2.1"


class Open:
    """Open sockets, by inode; those that were shut down go when ``settle`` is called."""

    def __init__(self) -> None:
        self.open: dict[int, Accepted] = {}
        self.shut_down: list[int] = []
        self.sent: dict[int, int] = {}

    def add(self, count: int, *, host: str = HOST) -> None:
        for _ in range(count):
            inode = len(self.open) + len(self.shut_down) + 1
            self.open[inode] = Accepted(inode, inode, host, 1_000 + inode)

    def scan(self) -> list[Accepted]:
        return list(self.open.values())

    def received(self, accepted: Accepted) -> int:
        return self.sent.get(accepted.inode, 0)

    def shut(self, accepted: Accepted) -> bool:
        self.shut_down.append(accepted.inode)
        return True

    def settle(self) -> None:
        for inode in self.shut_down:
            self.open.pop(inode, None)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def connections(clock: Clock, closed: list[tuple[str, int]] | None = None) -> Connections:
    return Connections(
        ConnectionLimits(total_max=16, per_host_max=4, unread_max=1_000),
        clock,
        on_closed=lambda reason, count: (closed if closed is not None else []).append((reason, count)),
    )


async def test_strangers_beyond_the_bound_of_their_host_are_closed_and_callers_stay() -> None:
    clock, sockets, closed = Clock(), Open(), list[tuple[str, int]]()
    keeper = connections(clock, closed)
    sockets.add(6)
    keeper.enter((HOST, 1_001))

    assert await keeper.look(sockets)

    assert sockets.shut_down == [2, 3]
    assert closed == [("per_peer", 2)]


async def test_what_is_being_closed_is_neither_counted_nor_closed_again() -> None:
    sockets, closed = Open(), list[tuple[str, int]]()
    keeper = connections(Clock(), closed)
    sockets.add(6)
    await keeper.look(sockets)

    assert not await keeper.look(sockets)

    assert closed == [("per_peer", 2)]
    assert sum(keeper.counts.values()) == 4


async def test_the_use_of_connections_is_counted() -> None:
    sockets, keeper = Open(), connections(Clock())
    sockets.add(3)
    keeper.enter((HOST, 1_001))
    keeper.enter((HOST, 1_002))
    keeper.leave((HOST, 1_002))

    await keeper.look(sockets)

    assert keeper.counts == {Use.STRANGER: 1, Use.IDLE: 1, Use.BUSY: 1}


async def test_a_port_that_another_connection_has_now_is_a_strangers() -> None:
    sockets, keeper = Open(), connections(Clock())
    sockets.add(2)
    keeper.enter((HOST, 1_001))
    keeper.leave((HOST, 1_001))
    first = sockets.open.pop(1)
    await keeper.look(sockets)
    sockets.open[9] = Accepted(9, 9, first.host, first.port)

    await keeper.look(sockets)

    assert keeper.counts[Use.STRANGER] == 2


async def test_a_flood_is_one_line_of_the_log_in_ten_seconds(caplog: pytest.LogCaptureFixture) -> None:
    clock, sockets = Clock(), Open()
    keeper = connections(clock)
    for _ in range(3):
        sockets.add(6)
        await keeper.look(sockets)
        sockets.settle()
        clock.now += 4.0

    told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert told == [f"connections were closed count=2 reason=per_peer peer={HOST} open=6"]


async def test_the_connection_that_sent_the_most_without_a_call_is_closed() -> None:
    sockets, closed = Open(), list[tuple[str, int]]()
    keeper = connections(Clock(), closed)
    sockets.add(3)
    sockets.sent = {1: 300, 2: 500, 3: 300}

    await keeper.look(sockets)

    assert (sockets.shut_down, closed) == ([2], [("unread", 1)])


async def test_what_became_a_call_is_not_unread() -> None:
    clock, sockets = Clock(), Open()
    keeper = connections(clock)
    sockets.add(1)
    sockets.sent = {1: 900}
    await keeper.look(sockets)
    clock.now += 1.0
    keeper.enter((HOST, 1_001))
    keeper.leave((HOST, 1_001))
    sockets.sent = {1: 1_500}
    await keeper.look(sockets)
    assert sockets.shut_down == []

    sockets.sent = {1: 2_501}
    await keeper.look(sockets)

    assert sockets.shut_down == [1]


async def test_what_is_sent_beside_an_open_call_is_not_counted() -> None:
    sockets = Open()
    keeper = connections(Clock())
    sockets.add(1)
    keeper.enter((HOST, 1_001))
    sockets.sent = {1: 5_000}

    await keeper.look(sockets)

    assert sockets.shut_down == []


async def test_a_peer_that_takes_not_even_the_end_of_its_call_is_closed() -> None:
    sockets, closed = Open(), list[tuple[str, int]]()
    keeper = connections(Clock(), closed)
    sockets.add(2)
    keeper.close((HOST, 1_002))

    await keeper.look(sockets)

    assert (sockets.shut_down, closed) == ([2], [("untaken", 1)])
