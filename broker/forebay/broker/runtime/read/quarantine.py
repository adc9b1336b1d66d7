"""Quarantine: damaged pages whose bytes are kept for inspection.

It is bounded: the oldest page is evicted first, and each eviction is counted and logged.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from forebay.broker.core.partition.pages import Entry
from forebay.broker.core.writes import DropQuarantine, Due, PutDue, PutQuarantine, Write

_log: Final = logging.getLogger(__name__)
PAGES_MAX: Final = 1_000
BYTES_MAX: Final = 256 << 20


class Quarantine:
    """Quarantined pages of one broker. Used on the loop."""

    def __init__(self, kept: Iterable[PutQuarantine] = (), *, pages_max: int = PAGES_MAX) -> None:
        self._kept = deque(kept)
        self._pages_max = pages_max
        self.size = sum(one.entry.size for one in self._kept)
        """Bytes of their bodies."""
        self.evicted = 0
        """Pages evicted by this process."""

    def __iter__(self) -> Iterator[PutQuarantine]:
        """Yield the quarantined pages, the oldest first."""
        return iter(tuple(self._kept))

    @property
    def pages(self) -> int:
        """Number of quarantined pages."""
        return len(self._kept)

    def keep(self, sink: int, partition: int, entries: Sequence[Entry]) -> tuple[list[Write], list[Due]]:
        """Quarantine more pages; returns the writes, and the evicted pages to reclaim."""
        writes: list[Write] = []
        due: list[Due] = []
        for entry in entries:
            self._kept.append(PutQuarantine(sink, partition, entry))
            writes.append(self._kept[-1])
            self.size += entry.size
        while len(self._kept) > self._pages_max or (self.size > BYTES_MAX and len(self._kept) > 1):
            oldest = self._kept.popleft()
            page = oldest.entry
            self.size -= page.size
            self.evicted += 1
            place = (oldest.sink, oldest.partition, page.base, page.end, page.size)
            _log.error(
                "quarantined page was evicted for newer ones sink=%d partition=%d first=%d end=%d bytes=%d", *place
            )
            due.append(Due(oldest.sink, oldest.partition, page.bulk, page.number, page.number, page.size))
            writes += [DropQuarantine(oldest.sink, oldest.partition, page.number), PutDue(due[-1])]
        return writes, due

    def remove_sink(self, sink: int) -> None:
        """Remove the pages of a deleted sink."""
        self._kept = deque(one for one in self._kept if one.sink != sink)
        self.size = sum(one.entry.size for one in self._kept)
