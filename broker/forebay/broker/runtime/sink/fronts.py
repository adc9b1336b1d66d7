"""Fronts of a sink: the first entry of a partition above a position, from which a lag is computed.

Subscriptions at one position share a front. Fronts that are not in memory are read from the index, all positions of a
partition at once, and kept while a subscription is at that position.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from forebay.broker.core.errors import ReadFailed
from forebay.broker.core.partition.log import PartitionLog
from forebay.broker.core.partition.pages import Entry
from forebay.broker.runtime.commit.store import Journal
from forebay.broker.runtime.read.pages import Pages

KEPT_MAX: Final = 16_384
"""Fronts kept per sink; further ones are read again each time."""


class Fronts:
    """Fronts of one sink. Used on the loop."""

    def __init__(self, pages: Pages, sink: int) -> None:
        self._pages = pages
        self._sink = sink
        self._read: dict[int, dict[int, Entry]] = {}
        """Entries by partition and position."""
        self._kept = 0
        self._repairs: dict[int, int] = {}
        """Number of repairs of a partition when its fronts were read."""

    def known(self, log: PartitionLog, position: int) -> tuple[bool, Entry | None]:
        """Return True if the front is known without a read, and the front.

        The front is None if no entry ends above ``position``.
        """
        recent = log.recent_from(position)
        if recent is not None:
            return True, recent[0] if recent else None
        if self._repairs.get(log.number) != log.repairs:
            return False, None
        front = self._read.get(log.number, {}).get(position)
        return front is not None, front

    async def read(self, log: PartitionLog, positions: Collection[int]) -> dict[int, Entry]:
        """Read fronts of a partition by position.

        A position without an entry is left out, as all positions are when reads fail. Raises ``StoreFenced``.
        """
        earliest, end, repairs = log.head.earliest, log.tail.next_offset, log.repairs
        wanted = sorted(positions)
        # As held in memory now: the index read may miss pages that are written meanwhile.
        held = [log.held_in(max(position, earliest), end)[:1] for position in wanted]
        journal, sink, number = self._pages.journal, self._sink, log.number
        try:
            found = await self._pages.index(sink, number, lambda: _fronts(journal, sink, number, earliest, wanted, end))
        except ReadFailed:
            return {}  # only sizes and ages are unknown, and the reason is reported
        fronts: dict[int, Entry] = {}
        for position, in_memory, entry in zip(wanted, held, found, strict=True):
            front = min((*in_memory, *([entry] if entry is not None else ())), key=_base, default=None)
            if front is not None:
                fronts[position] = front
                self._keep(log, position, front, repairs)
        return fronts

    def keep_only(self, partition: int, positions: Iterable[int]) -> None:
        """Remove the fronts of a partition at positions that no subscription has any more."""
        read = self._read.get(partition)
        if read:
            left = {position: read[position] for position in positions if position in read}
            self._kept += len(left) - len(read)
            self._read[partition] = left

    def _keep(self, log: PartitionLog, position: int, front: Entry, repairs: int) -> None:
        if self._repairs.get(log.number) != repairs:
            self._kept -= len(self._read.pop(log.number, {}))
            self._repairs[log.number] = repairs
        read = self._read.setdefault(log.number, {})
        if position not in read and self._kept < KEPT_MAX:
            self._kept += 1
            read[position] = front


def _fronts(
    journal: Journal, sink: int, partition: int, earliest: int, positions: Sequence[int], end: int
) -> list[Entry | None]:
    """Read fronts of a partition. In a read thread."""
    return [_front(journal, sink, partition, earliest, position, end) for position in positions]


def _front(journal: Journal, sink: int, partition: int, earliest: int, position: int, end: int) -> Entry | None:
    if position > earliest:
        before = journal.entry_before(sink, partition, earliest, min(position + 1, end))
        if before is not None and before.end > position:
            return before
    first = max(position, earliest)
    found = journal.entries(sink, partition, first, end, 1) if first < end else []
    return found[0] if found else None


def _base(entry: Entry) -> int:
    return entry.base
