"""Keeper of a broker's connections: tracks their accepted calls, and closes those beyond the bounds.

See ``core.resources.connections`` for the choice. A connection that never makes a call is a stranger, whatever it
sends.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from forebay.broker.core.resources.connections import Connection, ConnectionLimits, Use, excess
from forebay.broker.runtime.resources.sockets import Accepted

_log: Final = logging.getLogger(__name__)
LOOK_S: Final = 1.0
"""Interval between two checks."""

BUSY_LOOK_S: Final = 0.1
"""Interval after a check that found too many."""

TOLD_S: Final = 10.0
"""Interval between log lines about closed connections, each with their number."""

Address = tuple[str, int]
"""Host and port of a peer."""


class FindsSockets(Protocol):
    """Finds and closes accepted connections."""

    def scan(self) -> Sequence[Accepted]:
        """Return the connections that are open. Runs in a thread of its own."""
        ...

    def received(self, accepted: Accepted) -> int:
        """Return the bytes that a connection has sent so far; 0 where that is not known."""
        ...

    def shut(self, accepted: Accepted) -> bool:
        """Close a connection; false when it was gone."""
        ...


@dataclass(slots=True)
class _Caller:
    """Accepted calls of one connection."""

    used_at: float
    calls: int = 0


class Connections:
    """The connections of one broker. Used on one loop."""

    def __init__(
        self,
        limits: ConnectionLimits,
        clock: Callable[[], float],
        *,
        on_closed: Callable[[str, int], None] = lambda reason, count: None,
    ) -> None:
        """``clock`` is monotonic, in seconds. ``on_closed`` gets the number of closed connections.

        The reason is ``per_peer``, ``total`` or ``unread``, a bound, or ``untaken``: the peer did not even read the end
        of a call.
        """
        self.limits = limits
        self.counts: dict[Use, int] = dict.fromkeys(Use, 0)
        """Open connections by their use, as of the last check."""
        self._clock = clock
        self._on_closed = on_closed
        self._callers: dict[Address, _Caller] = {}
        self._opened: dict[int, float] = {}
        self._read: dict[int, tuple[float | None, int]] = {}
        """Last observed call and the bytes received by then, by inode."""
        self._closing: set[int] = set()
        """Inodes of connections that were shut down and still exist."""
        self._told_at: float | None = None
        self._untold = 0
        self._doomed: set[Address] = set()
        """Peers to close at the next check."""
        self._hurry = asyncio.Event()

    def enter(self, address: Address) -> None:
        """Count an accepted call."""
        caller = self._callers.get(address)
        if caller is None:
            caller = self._callers[address] = _Caller(self._clock())
        caller.used_at = self._clock()
        caller.calls += 1

    def leave(self, address: Address) -> None:
        """Count the end of a call."""
        caller = self._callers.get(address)
        if caller is not None:
            caller.used_at = self._clock()
            caller.calls -= 1

    def close(self, address: Address) -> None:
        """Close a connection whose peer reads nothing, at an immediate check."""
        self._doomed.add(address)
        self._hurry.set()

    async def run(self, sockets: FindsSockets) -> None:
        """Check until it is cancelled."""
        while True:
            busy = await self.look(sockets)
            self._hurry.clear()
            try:
                async with asyncio.timeout(BUSY_LOOK_S if busy else LOOK_S):
                    await self._hurry.wait()
            except TimeoutError:
                continue

    async def look(self, sockets: FindsSockets) -> bool:
        """Check once; True if there were too many."""
        before = set(self._callers)
        found, received = await asyncio.to_thread(_asked, sockets)
        now = self._clock()
        self._forget(before, found)
        self._opened = {accepted.inode: self._opened.get(accepted.inode, now) for accepted in found}
        self._closing &= self._opened.keys()
        by_inode = {accepted.inode: accepted for accepted in found if accepted.inode not in self._closing}
        connections = [self._connection(each, received[each.inode]) for each in by_inode.values()]
        self._read = {inode: read for inode, read in self._read.items() if inode in by_inode}
        self.counts = {use: sum(connection.use is use for connection in connections) for use in Use}
        if self._doomed:
            doomed, self._doomed = self._doomed, set()
            unread = [accepted for accepted in by_inode.values() if (accepted.host, accepted.port) in doomed]
            if unread:
                self._close(sockets, "untaken", unread)
        chosen = excess(connections, self.limits, now)
        for reason, over in (("per_peer", chosen.of_hosts), ("total", chosen.of_all), ("unread", chosen.of_unread)):
            if over:
                self._close(sockets, reason, [by_inode[connection.id] for connection in over])
        return bool(chosen) or len(connections) >= self.limits.total_max

    def _forget(self, before: set[Address], found: Sequence[Accepted]) -> None:
        """Remove callers that were known before the check and whose connection it did not find."""
        if found:
            gone = before - {(accepted.host, accepted.port) for accepted in found}
            for address in gone:
                if self._callers[address].calls <= 0:
                    del self._callers[address]

    def _connection(self, accepted: Accepted, received: int) -> Connection:
        inode, host = accepted.inode, accepted.host
        caller = self._callers.get((host, accepted.port))
        used_at = None if caller is None else caller.used_at
        before, read = self._read.get(inode, (None, 0))
        if used_at != before or (caller is not None and caller.calls):  # what it sent has become calls
            read = received
        self._read[inode] = used_at, read
        calls = 0 if caller is None else caller.calls
        return Connection(inode, host, self._opened[inode], used_at, calls, max(0, received - read))

    def _close(self, sockets: FindsSockets, reason: str, over: Sequence[Accepted]) -> None:
        for accepted in over:
            sockets.shut(accepted)
            self._closing.add(accepted.inode)
        self._on_closed(reason, len(over))
        self._tell(reason, over)

    def _tell(self, reason: str, over: Sequence[Accepted]) -> None:
        self._untold += len(over)
        now = self._clock()
        if self._told_at is None or now - self._told_at >= TOLD_S:
            _log.warning(
                "connections were closed count=%d reason=%s peer=%s open=%d",
                self._untold,
                reason,
                over[0].host,
                sum(self.counts.values()),
            )
            self._told_at, self._untold = now, 0


def _asked(sockets: FindsSockets) -> tuple[Sequence[Accepted], dict[int, int]]:
    """Return the open connections, and what each has sent. Runs in a thread of its own."""
    found = sockets.scan()
    return found, {accepted.inode: sockets.received(accepted) for accepted in found}
