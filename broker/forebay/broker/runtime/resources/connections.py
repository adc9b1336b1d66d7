"""Keeper of a broker's connections: tracks their accepted calls, and closes those beyond the bounds.

See ``core.resources.connections`` for the choice. A connection that never makes a call is a stranger, whatever it
sends. A connection whose incomplete requests hold too much is given an error for each of them, and is closed if that
frees nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol

from forebay.broker.core.errors import BrokerError
from forebay.broker.core.resources.connections import Connection, ConnectionLimits, Use, excess
from forebay.broker.core.resources.unread import Intake, Traffic, Unread
from forebay.broker.runtime.resources.sockets import Accepted
from forebay.errors.reasons import Reason

_log: Final = logging.getLogger(__name__)
LOOK_S: Final = 1.0
"""Interval between two checks."""

BUSY_LOOK_S: Final = 0.1
"""Interval after a check that found too many."""

GROWTH_BYTES: Final = 32 << 20
"""Growth of the process since the last check that causes one at once."""

ENDING_S: Final = 0.5
"""Time that the end of its incomplete requests has to free the memory of a connection."""

CALM_PARTS: Final = 4
"""Fraction of their peak to which unread bytes fall before free memory is returned to the system."""

CALM_S: Final = 10.0
"""Time without too many unread bytes before free memory is returned, which delays all other work."""

TOLD_S: Final = 10.0
"""Interval between log lines about closed connections, each with their number."""

Address = tuple[str, int]
"""Host and port of a peer."""


class FindsSockets(Protocol):
    """Finds and closes accepted connections."""

    def scan(self) -> Sequence[Accepted]:
        """Return the connections that are open. Runs in a thread of its own."""
        ...

    def traffic(self, accepted: Accepted) -> Traffic:
        """Return the bytes of a connection so far; none where that is not known."""
        ...

    def shut(self, accepted: Accepted) -> bool:
        """Close a connection; false when it was gone."""
        ...


@dataclass(slots=True)
class Caller:
    """Calls of one connection."""

    used_at: float | None = None
    """Time of the last accepted call; None before the first."""

    calls: int = 0
    """Accepted calls that are open."""

    open: int = 0
    """Calls that are open, with those of which no request was read yet."""

    intake: Intake = field(default_factory=Intake)
    """Requests so far."""

    receiving: dict[asyncio.Task[object], BrokerError | None] = field(default_factory=dict)
    """Calls that wait for their request, each with the error that ends it."""

    @contextmanager
    def reception(self) -> Iterator[None]:
        """Let the broker end this call while its request is incomplete. Raises ``REQUEST_TOO_SLOW``."""
        task = asyncio.current_task()
        assert task is not None
        self.receiving[task] = None
        error = None
        try:
            yield
        except asyncio.CancelledError:
            error = self.receiving[task]
            if error is None or task.uncancel():
                raise
            raise error from None
        finally:
            del self.receiving[task]

    def end(self, error: BrokerError) -> bool:
        """End the calls whose requests are incomplete; false if there is none."""
        for task, before in self.receiving.items():
            if before is None:
                self.receiving[task] = error
                task.cancel()
        return bool(self.receiving)


_STRANGER: Final = Caller()
"""Calls of a connection that made none."""


class Connections:
    """The connections of one broker. Used on one loop."""

    def __init__(
        self,
        limits: ConnectionLimits,
        clock: Callable[[], float],
        *,
        on_closed: Callable[[str, int], None] = lambda reason, count: None,
        on_calm: Callable[[], None] = lambda: None,
        resident: Callable[[], int] = lambda: 0,
    ) -> None:
        """``clock`` is monotonic, in seconds. ``on_closed`` gets the number of closed connections.

        The reason is ``per_peer``, ``total`` or ``unread``, a bound, or ``untaken``: the peer did not even read the end
        of a call. ``on_calm`` is called in a thread after unread requests freed much memory; ``resident`` returns the
        resident bytes of the process, 0 where they are not known.
        """
        self.limits = limits
        self.counts: dict[Use, int] = dict.fromkeys(Use, 0)
        """Open connections by their use, as of the last check."""
        self._clock = clock
        self._on_closed = on_closed
        self._on_calm = on_calm
        self._resident = resident
        self._callers: dict[Address, Caller] = {}
        self._opened: dict[int, float] = {}
        self._unread: dict[int, Unread] = {}
        """Held bytes of incomplete requests, by inode."""
        self._last: dict[int, Connection] = {}
        """Connections as of the last check, by inode."""
        self._ended: dict[int, float] = {}
        """Time at which the incomplete requests of a connection were ended for the bound, by inode."""
        self._peak = 0
        """Most unread bytes since free memory was last returned."""
        self._calmed_at = clock()
        self._closing: set[int] = set()
        """Inodes of connections that were shut down and still exist."""
        self._told_at: float | None = None
        self._untold = 0
        self._doomed: set[Address] = set()
        """Peers to close at the next check."""
        self._hurry = asyncio.Event()

    @contextmanager
    def call(self, address: Address | None) -> Iterator[Caller]:
        """Count a call from its headers on, whether it is accepted or not."""
        caller = Caller() if address is None else self._caller(address)
        caller.open += 1
        try:
            yield caller
        finally:
            caller.open -= 1
            caller.intake.calls += 1

    def enter(self, caller: Caller) -> None:
        """Count an accepted call."""
        caller.used_at = self._clock()
        caller.calls += 1

    def leave(self, caller: Caller) -> None:
        """Count the end of an accepted call."""
        caller.used_at = self._clock()
        caller.calls -= 1

    def _caller(self, address: Address) -> Caller:
        caller = self._callers.get(address)
        if caller is None:
            caller = self._callers[address] = Caller()
        return caller

    def close(self, address: Address) -> None:
        """Close a connection whose peer reads nothing, at an immediate check."""
        self._doomed.add(address)
        self._hurry.set()

    async def run(self, sockets: FindsSockets) -> None:
        """Check until it is cancelled: once a second, and soon if there were too many or the process grows."""
        full_at = self._clock() - LOOK_S
        while True:
            now = self._clock()
            is_full = now - full_at >= LOOK_S
            full_at = now if is_full else full_at
            busy = await self.look(sockets, is_full=is_full)
            self._hurry.clear()
            until = self._clock() + (BUSY_LOOK_S if busy else LOOK_S)
            grown = self._resident() + GROWTH_BYTES
            while self._clock() < until and self._resident() < grown:
                try:
                    async with asyncio.timeout(BUSY_LOOK_S):
                        await self._hurry.wait()
                        break
                except TimeoutError:
                    continue

    async def look(self, sockets: FindsSockets, *, is_full: bool = True) -> bool:
        """Check once; True if there were too many.

        Unless it is full, known connections without an open call are as they were: of thousands of idle ones nothing
        is asked while a flood is kept down.
        """
        before = set(self._callers)
        busy = {address for address, caller in self._callers.items() if caller.open}
        known = frozenset[int]() if is_full else frozenset(self._last)
        found, traffic = await asyncio.to_thread(_asked, sockets, known, busy)
        now = self._clock()
        self._forget(before, found)
        self._opened = {accepted.inode: self._opened.get(accepted.inode, now) for accepted in found}
        self._closing &= self._opened.keys()
        by_inode = {accepted.inode: accepted for accepted in found if accepted.inode not in self._closing}
        self._unread = {inode: self._unread.get(inode) or Unread() for inode in by_inode}
        self._last = {
            inode: self._connection(each, traffic[inode], now) if inode in traffic else self._last[inode]
            for inode, each in by_inode.items()
        }
        connections = list(self._last.values())
        self.counts = {use: sum(connection.use is use for connection in connections) for use in Use}
        if self._doomed:
            doomed, self._doomed = self._doomed, set()
            unread = [accepted for accepted in by_inode.values() if (accepted.host, accepted.port) in doomed]
            if unread:
                self._close(sockets, "untaken", unread)
        chosen = excess(connections, self.limits, now)
        for reason, over in (("per_peer", chosen.of_hosts), ("total", chosen.of_all)):
            if over:
                self._close(sockets, reason, [by_inode[connection.id] for connection in over])
        self._relieve(sockets, [by_inode[connection.id] for connection in chosen.of_unread], now)
        await self._calm(sum(connection.unread for connection in connections), now)
        return bool(chosen) or len(connections) >= self.limits.total_max

    def _forget(self, before: set[Address], found: Sequence[Accepted]) -> None:
        """Remove callers that were known before the check and whose connection it did not find."""
        if found:
            gone = before - {(accepted.host, accepted.port) for accepted in found}
            for address in gone:
                if self._callers[address].open <= 0:
                    del self._callers[address]

    def _connection(self, accepted: Accepted, traffic: Traffic, now: float) -> Connection:
        inode, host = accepted.inode, accepted.host
        caller = self._callers.get((host, accepted.port), _STRANGER)
        unread = self._unread[inode]
        held = unread.check(traffic, caller.intake, now, is_open=caller.open > 0)
        return Connection(inode, host, self._opened[inode], caller.used_at, caller.calls, held, unread.progress(now))

    def _relieve(self, sockets: FindsSockets, over: Sequence[Accepted], now: float) -> None:
        """End the incomplete requests of connections that hold too much; close those that still do."""
        if over:
            self._calmed_at = now
        self._ended = {one.inode: self._ended[one.inode] for one in over if one.inode in self._ended}
        closed: list[Accepted] = []
        for accepted in over:
            caller = self._callers.get((accepted.host, accepted.port), _STRANGER)
            held = self._unread[accepted.inode].bytes
            if accepted.inode not in self._ended and caller.end(
                BrokerError(Reason.REQUEST_TOO_SLOW, held=held, bound=self.limits.unread_max)
            ):
                self._ended[accepted.inode] = now
            elif now - self._ended.get(accepted.inode, -ENDING_S) >= ENDING_S:
                closed.append(accepted)
        if closed:
            self._close(sockets, "unread", closed)

    async def _calm(self, unread: int, now: float) -> None:
        """Return free memory to the system after most of the unread bytes are gone."""
        self._peak = max(self._peak, unread)
        high = self._peak >= self.limits.unread_max // CALM_PARTS
        if high and unread <= self._peak // CALM_PARTS and now - self._calmed_at >= CALM_S:
            self._peak, self._calmed_at = unread, now
            await asyncio.to_thread(self._on_calm)

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


def _asked(
    sockets: FindsSockets, known: Set[int], busy: Set[Address]
) -> tuple[Sequence[Accepted], Mapping[int, Traffic]]:
    """Return the open connections, and the bytes of new and busy ones. Runs in a thread of its own."""
    found = sockets.scan()
    asked = [one for one in found if one.inode not in known or (one.host, one.port) in busy]
    return found, {accepted.inode: sockets.traffic(accepted) for accepted in asked}
