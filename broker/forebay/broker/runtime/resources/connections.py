"""Keeper of a broker's connections: tracks their accepted calls, and closes those beyond the bounds.

See ``core.resources.connections`` for the choice. A connection that never makes a call is a stranger, whatever it
sends. A connection whose incomplete requests hold too much is given an error for each of them, and is closed if that
frees nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol

from forebay.broker.core.errors import BrokerError
from forebay.broker.core.resources.connections import Connection, ConnectionLimits, Progress, Use, excess
from forebay.broker.core.resources.unread import Intake, Traffic, Unread
from forebay.broker.runtime.resources.sockets import Accepted
from forebay.errors.reasons import Reason

_log: Final = logging.getLogger(__name__)
CHECK_S: Final = 1.0
"""Interval between two checks."""

BUSY_CHECK_S: Final = 0.1
"""Interval after a check that found too many."""

GROWTH_BYTES: Final = 32 << 20
"""Growth of the process since the last check that causes one at once."""

ENDING_S: Final = 0.5
"""Time that the end of its incomplete requests has to free the memory of a connection."""

CALM_PARTS: Final = 4
"""Fraction of their peak to which unread bytes fall before free memory is returned to the system."""

CALM_S: Final = 10.0
"""Time without too many unread bytes before free memory is returned, which delays all other work."""

LOG_INTERVAL_S: Final = 10.0
"""Interval between log lines about closed connections, each with their number."""

Address = tuple[str, int]
"""Host and port of a peer."""


class FindsSockets(Protocol):
    """Finds and closes accepted connections."""

    def scan(self, again: Collection[Accepted] | None = None) -> Sequence[Accepted]:
        """Return the connections that are open. Runs in a thread of its own.

        Checks descriptors that are new and those of ``again``; all of them if it is None.
        """
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


@dataclass(frozen=True, slots=True)
class ConnectionState:
    """State of one connection as of the last check; times are monotonic."""

    host: str
    port: int
    opened_at: float
    used_at: float | None
    """End of its last accepted call; None if there was none."""

    calls: int
    """Accepted calls that are open."""

    open: int
    """Calls that are open."""

    traffic: Traffic
    unread: int
    """Bytes of incomplete requests."""


@dataclass(frozen=True, slots=True)
class _Scan:
    """Changes of the open connections since the last check."""

    opened: Sequence[Accepted]
    gone: Sequence[int]
    """Inodes."""

    traffic: Mapping[int, Traffic]
    """Bytes of connections by inode, where they changed or may be held."""


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
        self._open: dict[int, Accepted] = {}
        """Open connections as of the last check, by inode, without those that were shut down."""
        self._by_address: dict[Address, Accepted] = {}
        self._hosts: Counter[str] = Counter()
        """Number of open connections by host."""
        self._opened: dict[int, float] = {}
        self._traffic: dict[int, Traffic] = {}
        """Bytes of connections as of the last check that asked for them, by inode."""
        self._unread: dict[int, Unread] = {}
        """Held bytes of incomplete requests, by inode."""
        self._holding: set[int] = set()
        """Inodes of connections that hold some."""
        self._ended: dict[int, float] = {}
        """Time at which the incomplete requests of a connection were ended for the bound, by inode."""
        self._peak = 0
        """Most unread bytes since free memory was last returned."""
        self._calmed_at = clock()
        self._closing: dict[int, Accepted] = {}
        """Connections that were shut down and still exist, by inode."""
        self._logged_at: float | None = None
        self._unlogged = 0
        self._doomed: set[Address] = set()
        """Peers to close at the next check."""
        self._hurry = asyncio.Event()

    def __iter__(self) -> Iterator[ConnectionState]:
        """Return the states of the open connections."""
        for inode, accepted in list(self._open.items()):
            caller = self._callers.get((accepted.host, accepted.port), _STRANGER)
            unread = self._unread.get(inode)
            yield ConnectionState(
                accepted.host,
                accepted.port,
                self._opened[inode],
                caller.used_at,
                caller.calls,
                caller.open,
                self._traffic.get(inode, Traffic()),
                0 if unread is None else unread.bytes,
            )

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
        full_at = self._clock() - CHECK_S
        while True:
            now = self._clock()
            is_full = now - full_at >= CHECK_S
            full_at = now if is_full else full_at
            busy = await self.check(sockets, is_full=is_full)
            self._hurry.clear()
            until = self._clock() + (BUSY_CHECK_S if busy else CHECK_S)
            grown = self._resident() + GROWTH_BYTES
            while self._clock() < until and self._resident() < grown:
                try:
                    async with asyncio.timeout(BUSY_CHECK_S):
                        await self._hurry.wait()
                        break
                except TimeoutError:
                    continue

    async def check(self, sockets: FindsSockets, *, is_full: bool = True) -> bool:
        """Check once; True if there were too many.

        Unless it is full, known connections without an open call are as they were. Of thousands of idle connections
        a full check costs the loop only their changes: the system is asked in a thread.
        """
        before = set(self._callers)
        busy = [address for address, caller in self._callers.items() if caller.open]
        scan = await asyncio.to_thread(self._scan, sockets, busy, is_full=is_full)
        now = self._clock()
        self._update(scan, now)
        self._remove_callers(before)
        self._count()
        if self._doomed:
            doomed, self._doomed = self._doomed, set()
            unread = [self._by_address[address] for address in doomed if address in self._by_address]
            if unread:
                self._close(sockets, "untaken", unread)
        total = len(self._open)
        is_crowded = self.limits.is_crowded(total, max(self._hosts.values(), default=0))
        considered = [self._connection(inode, now) for inode in (self._open if is_crowded else self._holding)]
        chosen = excess(considered, self.limits, now)
        over_unread = [self._open[connection.id] for connection in chosen.of_unread]
        for reason, over in (("per_peer", chosen.of_hosts), ("total", chosen.of_all)):
            if over:
                self._close(sockets, reason, [self._open[connection.id] for connection in over])
        self._relieve(sockets, over_unread, now)
        await self._calm(sum(self._unread[inode].bytes for inode in self._holding), now)
        return bool(chosen) or total >= self.limits.total_max

    def _scan(self, sockets: FindsSockets, busy: Collection[Address], *, is_full: bool) -> _Scan:
        """Return the changes since the last check.

        Runs in a thread, while the loop changes none of what it reads.
        """
        again = None if is_full else list(self._closing.values())
        found = {accepted.inode: accepted for accepted in sockets.scan(again)}
        if again is not None and busy:
            addresses = {(accepted.host, accepted.port) for accepted in found.values()}
            if not addresses.issuperset(busy):  # a descriptor was closed and is in use again
                found = {accepted.inode: accepted for accepted in sockets.scan()}
        opened = [one for one in found.values() if one.inode not in self._open and one.inode not in self._closing]
        gone = [inode for inode in (*self._open, *self._closing) if inode not in found]
        calling = set(busy)
        changed: dict[int, Traffic] = {}
        for inode, accepted in found.items():
            is_asked = inode in self._holding or (accepted.host, accepted.port) in calling
            if inode in self._closing or not (is_asked or is_full or inode not in self._open):
                continue
            traffic = sockets.traffic(accepted)
            if is_asked or traffic != self._traffic.get(inode):
                changed[inode] = traffic
        return _Scan(opened, gone, changed)

    def _update(self, scan: _Scan, now: float) -> None:
        for accepted in scan.opened:
            self._open[accepted.inode] = self._by_address[accepted.host, accepted.port] = accepted
            self._hosts[accepted.host] += 1
            self._opened[accepted.inode] = now
        for inode in scan.gone:
            self._closing.pop(inode, None)
            self._remove(inode)
        for inode, traffic in scan.traffic.items():
            if inode not in self._open:
                continue
            self._traffic[inode] = traffic
            accepted = self._open[inode]
            caller = self._callers.get((accepted.host, accepted.port), _STRANGER)
            unread = self._unread.setdefault(inode, Unread())
            held = unread.check(traffic, caller.intake, now, is_open=caller.open > 0)
            (self._holding.add if held else self._holding.discard)(inode)

    def _remove(self, inode: int) -> None:
        """Remove a connection that is gone, or was shut down."""
        accepted = self._open.pop(inode, None)
        if accepted is None:
            return
        address = accepted.host, accepted.port
        if self._by_address.get(address) is accepted:
            del self._by_address[address]
        self._hosts[accepted.host] -= 1
        if not self._hosts[accepted.host]:
            del self._hosts[accepted.host]
        for state in (self._opened, self._traffic, self._unread):
            state.pop(inode, None)
        self._holding.discard(inode)

    def _remove_callers(self, before: set[Address]) -> None:
        """Remove callers that were known before the check and whose connection it did not find."""
        if self._open:
            for address in before - self._by_address.keys():
                if self._callers[address].open <= 0:
                    del self._callers[address]

    def _count(self) -> None:
        found = [caller for address, caller in self._callers.items() if address in self._by_address]
        busy = sum(caller.calls > 0 for caller in found)
        idle = sum(caller.used_at is not None and not caller.calls for caller in found)
        self.counts = {Use.STRANGER: len(self._open) - busy - idle, Use.IDLE: idle, Use.BUSY: busy}

    def _connection(self, inode: int, now: float) -> Connection:
        accepted = self._open[inode]
        caller = self._callers.get((accepted.host, accepted.port), _STRANGER)
        unread = self._unread.get(inode)
        held, progress = (0, Progress.READ) if unread is None else (unread.bytes, unread.progress(now))
        return Connection(inode, accepted.host, self._opened[inode], caller.used_at, caller.calls, held, progress)

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
            self._closing[accepted.inode] = accepted
            self._remove(accepted.inode)
        self._on_closed(reason, len(over))
        self._log_closed(reason, over)

    def _log_closed(self, reason: str, over: Sequence[Accepted]) -> None:
        self._unlogged += len(over)
        now = self._clock()
        if self._logged_at is None or now - self._logged_at >= LOG_INTERVAL_S:
            _log.warning(
                "connections were closed count=%d reason=%s peer=%s open=%d",
                self._unlogged,
                reason,
                over[0].host,
                sum(self.counts.values()),
            )
            self._logged_at, self._unlogged = now, 0
