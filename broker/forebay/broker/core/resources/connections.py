"""Connections of a broker, and the choice of those to close when there are too many.

gRPC refuses new connections at ``total_max`` by itself. Well before that, and when one host has more than its share,
the least useful connections are closed: those that never made an accepted call, the oldest first; then those without an
open call, the least recently used first. A connection with an open call is closed only for the bound of its host.

Requests that are not complete are in memory, whatever becomes of them. So their bytes are bounded too, of all
connections together: those that stopped sending are closed first, then those that complete no request, each time
those of the host with the most first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

HIGH: Final = 7 / 8
"""Part of ``total_max`` above which connections are closed."""

LOW: Final = 3 / 4
"""Part of ``total_max`` down to which they are closed."""

STRANGER_GRACE_S: Final = 1.0
"""Time that a new connection has for its first call while there are too many in all."""

IDLE_GRACE_S: Final = 10.0
"""Time without a call before a connection that made one counts as idle."""


UNREAD_LEAST: Final = 64 << 10
"""Unread bytes of a connection below which it is not closed for them: the count is not exact."""


class Use(IntEnum):
    """Use of a connection, the least useful first."""

    STRANGER = 0
    """No call of it was ever accepted."""

    IDLE = 1
    """It has no open call."""

    BUSY = 2
    """It has an open call."""


class Progress(IntEnum):
    """Progress of the incomplete requests of a connection, the least first."""

    STALLED = 0
    """No byte arrived for a while."""

    ARRIVING = 1
    """Bytes arrive, and no request was complete for a while."""

    READ = 2
    """Requests are read."""


@dataclass(frozen=True, slots=True)
class Connection:
    """One accepted connection."""

    id: int
    host: str
    opened_at: float
    used_at: float | None = None
    """Time of its last accepted call; None when there was none."""

    calls: int = 0
    """Accepted calls that are open."""

    unread: int = 0
    """Bytes held of its incomplete requests, see ``unread``."""

    progress: Progress = Progress.READ

    @property
    def use(self) -> Use:
        """Return its use."""
        if self.calls:
            return Use.BUSY
        return Use.STRANGER if self.used_at is None else Use.IDLE

    def _order(self) -> tuple[int, float]:
        """Return the key that sorts connections of one host, the one to close first at the front."""
        if self.use is Use.BUSY:
            return self.use, -self.opened_at
        return self.use, self.opened_at if self.used_at is None else self.used_at

    def spare(self, now: float) -> bool:
        """Return whether it may be closed for the bound of all connections."""
        if self.used_at is None:
            return self.calls == 0 and now - self.opened_at >= STRANGER_GRACE_S
        return self.calls == 0 and now - self.used_at >= IDLE_GRACE_S


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Bounds of the connections of one broker."""

    total_max: int
    per_host_max: int
    unread_max: int
    """Bytes held of the incomplete requests of all connections."""

    def is_crowded(self, total: int, of_one_host: int) -> bool:
        """Return whether the number of connections calls for closing some."""
        return total > self.total_max * HIGH or of_one_host > self.per_host_max


@dataclass(frozen=True, slots=True)
class Excess:
    """Connections to close, by the exceeded bound."""

    of_hosts: Sequence[Connection]
    of_all: Sequence[Connection]
    of_unread: Sequence[Connection] = ()

    def __bool__(self) -> bool:
        return bool(self.of_hosts or self.of_all or self.of_unread)


def excess(connections: Iterable[Connection], limits: ConnectionLimits, now: float) -> Excess:
    """Return the connections to close now."""
    by_host: dict[str, list[Connection]] = {}
    for connection in connections:
        by_host.setdefault(connection.host, []).append(connection)
    of_hosts: list[Connection] = []
    left: list[Connection] = []
    for found in by_host.values():
        over = max(0, len(found) - limits.per_host_max)
        if over:
            found.sort(key=Connection._order)
        of_hosts += found[:over]
        left += found[over:]
    of_all = _of_all(left, limits, now)
    closed = {connection.id for connection in of_all}
    return Excess(of_hosts, of_all, _of_unread([one for one in left if one.id not in closed], limits.unread_max))


def _of_unread(left: list[Connection], unread_max: int) -> list[Connection]:
    """Return the connections whose requests hold too much, until the rest is within the bound."""
    holding = [connection for connection in left if connection.unread >= UNREAD_LEAST]
    over = sum(connection.unread for connection in holding) - unread_max
    if over <= 0:
        return []
    hosts: Counter[str] = Counter()
    for connection in holding:
        hosts[connection.host] += connection.unread
    holding.sort(key=lambda one: (one.progress, -hosts[one.host], -one.unread))
    chosen: list[Connection] = []
    while over > 0:
        chosen.append(holding[len(chosen)])
        over -= chosen[-1].unread
    return chosen


def _of_all(left: list[Connection], limits: ConnectionLimits, now: float) -> list[Connection]:
    if len(left) <= limits.total_max * HIGH:
        return []
    hosts = Counter(connection.host for connection in left)
    spare = sorted(
        (connection for connection in left if connection.spare(now)),
        key=lambda connection: (connection.use, -hosts[connection.host], connection._order()),
    )
    return spare[: len(left) - int(limits.total_max * LOW)]
