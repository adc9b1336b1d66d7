"""Open replays of a sink: where each one is, and whether memory serves it.

A replay changes nothing in its sink, so this is all that the broker knows of a reader: its next offset, and the path by
which it got its last pages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Reader:
    """One open replay of a partition. Used on the loop."""

    def __init__(self, partition: int, client_id: str, monotonic: Callable[[], float]) -> None:
        self.partition = partition
        self.client_id = client_id
        """Name that the client gave it."""
        self._monotonic = monotonic
        self._since = monotonic()
        self.position: int | None = None
        """Next offset to be sent; None before the first one is known."""
        self.realtime: bool | None = None
        """True if its last pages came from memory, False if the store was read; None before the first page."""
        self.switches = 0
        """Number of switches between memory and the store."""

    @property
    def mode_s(self) -> float:
        """Time since the last switch."""
        return 0.0 if self.realtime is None else self._monotonic() - self._since

    def read_from(self, *, realtime: bool) -> None:
        """Record whether memory or the store served the last pages; counts a switch."""
        if self.realtime == realtime:
            return
        self.switches += self.realtime is not None
        self.realtime, self._since = realtime, self._monotonic()


class Readers:
    """Open replays of one sink. Used on the loop."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._open: dict[int, list[Reader]] = {}
        """Open replays by partition, oldest first; partitions without a replay are missing."""
        self._switches: Counter[int] = Counter()
        """Switches of ended replays, by partition."""

    def __len__(self) -> int:
        return sum(map(len, self._open.values()))

    def of(self, partition: int) -> list[tuple[Reader, int]]:
        """Return the replays of a partition whose position is known, with it."""
        return [(each, each.position) for each in self._open.get(partition, ()) if each.position is not None]

    def switches(self, partition: int) -> int:
        """Return the switches of all replays of a partition so far."""
        return self._switches[partition] + sum(each.switches for each in self._open.get(partition, ()))

    @contextmanager
    def opened(self, partition: int, client_id: str) -> Iterator[Reader]:
        """Register a replay while it is open."""
        reader = Reader(partition, client_id, self._monotonic)
        self._open.setdefault(partition, []).append(reader)
        try:
            yield reader
        finally:
            self._open[partition].remove(reader)
            if not self._open[partition]:
                del self._open[partition]
            if reader.switches:
                self._switches[partition] += reader.switches
