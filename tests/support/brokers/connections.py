"""Connections without sockets: a fake of what finds them, and accepted calls."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final

from forebay.broker.core.resources.unread import Traffic
from forebay.broker.runtime.resources.connections import Caller, Connections
from forebay.broker.runtime.resources.sockets import Accepted

HOST: Final = "192.0.2.1"


class OpenSockets:
    """Open sockets, by inode; those that were shut down go when ``settle`` is called."""

    def __init__(self) -> None:
        self.open: dict[int, Accepted] = {}
        self.shut_down: list[int] = []
        self.sent: dict[int, int] = {}

    def add(self, count: int, *, host: str = HOST) -> None:
        for _ in range(count):
            inode = len(self.open) + len(self.shut_down) + 1
            self.open[inode] = Accepted(inode, inode, host, 1_000 + inode)

    def scan(self, again: Collection[Accepted] | None = None) -> list[Accepted]:
        return list(self.open.values())

    def traffic(self, accepted: Accepted) -> Traffic:
        return Traffic(received=self.sent.get(accepted.inode, 0))

    def shut(self, accepted: Accepted) -> bool:
        self.shut_down.append(accepted.inode)
        return True

    def settle(self) -> None:
        for inode in self.shut_down:
            self.open.pop(inode, None)


@contextmanager
def calling(keeper: Connections, number: int) -> Iterator[Caller]:
    """An accepted call of a connection."""
    with keeper.call((HOST, 1_000 + number)) as caller:
        keeper.enter(caller)
        yield caller
        keeper.leave(caller)
