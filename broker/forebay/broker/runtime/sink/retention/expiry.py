"""Expiry of unsettled pages older than a sink's `max_age`, once a second.

Pages about to be delivered expire too, see ``removal``. No scan is made: only the first entries of a partition are
checked, and they stay in memory for the next time. A page in flight stays until it is answered or its consumer is gone;
then it is dropped instead of redelivered.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final
from weakref import WeakKeyDictionary

from forebay.broker.core.errors import ReadFailed, StoreFenced
from forebay.broker.core.partition.expiry import expired
from forebay.broker.core.partition.log import PartitionLog
from forebay.broker.core.partition.pages import DropReason
from forebay.broker.runtime.read.pages import EntryReader, Pages
from forebay.broker.runtime.resources.slices import Slices
from forebay.broker.runtime.sink.buffer import Buffer
from forebay.broker.runtime.sink.state import Sink

_log: Final = logging.getLogger(__name__)
EXPIRE_S: Final = 1.0
"""Interval between checks of the partitions' heads."""
STEPS_MAX: Final = 64
"""Drops of one partition per turn, each synced before the next; then the other partitions follow."""


class Expirer:
    """Periodic expiry at the heads of all partitions."""

    def __init__(self, buffers: Callable[[], Iterable[Buffer]], pages: Pages) -> None:
        self._buffers = buffers
        self._pages = pages
        self._damaged: set[tuple[int, int]] = set()
        """Sinks and partitions whose damage was logged, until their age is read again."""
        self._readers: WeakKeyDictionary[PartitionLog, EntryReader] = WeakKeyDictionary()
        """Readers of partitions whose settled pages are retained: they skip these pages at once."""

    async def sweep_all(self) -> None:
        """Sweep each sink."""
        buffers = list(self._buffers())
        if self._damaged:
            standing = {buffer.record.id for buffer in buffers}
            self._damaged = {place for place in self._damaged if place[0] in standing}
        for buffer in buffers:
            await self.sweep(buffer)

    async def sweep(self, buffer: Buffer) -> None:
        """Drop expired pages at the head of each partition, durably."""
        if not buffer.settings.max_age_us:
            return
        slices = Slices()
        for log in list(buffer.logs):
            await slices.turn()
            place = (buffer.record.id, log.number)
            try:
                await self._sweep(buffer, log)
                self._damaged.discard(place)
            except (ReadFailed, StoreFenced) as damage:
                if place not in self._damaged:
                    self._damaged.add(place)
                    _log.error("age could not be read sink=%s partition=%d cause=%s", buffer.name, log.number, damage)

    async def _sweep(self, buffer: Buffer, log: PartitionLog) -> None:
        if buffer.retaining.active:
            await self._sweep_unsettled(buffer, log)
            return
        for _ in range(STEPS_MAX):
            if log.pages == 0 or buffer.state.deleted:
                return
            await self._pages.load_oldest(buffer.record.id, log)
            first, born_before_us = log.first_entry(), _born_before_us(buffer.state)
            if first is None or first.age_us >= born_before_us:
                return
            old = expired(log.iter_first(), born_before_us, buffer.state.in_flight(log.number))
            if old:
                buffer.removal.drop(log.number, old, DropReason.EXPIRED)
                await buffer.removal.drops_durable(log.number)
            elif not log.complete and log.first_entries()[-1].age_us < born_before_us:
                await self._pages.load_more(buffer.record.id, log)
            else:
                return  # the expired pages are in flight

    async def _sweep_unsettled(self, buffer: Buffer, log: PartitionLog) -> None:
        """Drop expired pages from the first unsettled offset on; retained pages expire by their own time."""
        reader = self._readers.get(log)
        if reader is None:
            reader = self._readers[log] = EntryReader(self._pages, buffer.record.id, log)
        at = buffer.state.settled(log)
        for _ in range(STEPS_MAX):
            entries = await reader.upcoming(at)
            if not entries or buffer.state.deleted:
                return
            born_before_us = _born_before_us(buffer.state)
            live = [each for each in entries if each.base >= log.head.earliest and log.gap_at(each.base) is None]
            old = expired(live, born_before_us, buffer.state.in_flight(log.number))
            lost = [entry for entry in old if not buffer.state.is_settled(log.number, entry)]
            if lost:
                buffer.removal.drop(log.number, lost, DropReason.EXPIRED)
                await buffer.removal.drops_durable(log.number)
            if entries[-1].age_us >= born_before_us or entries[-1].end >= log.tail.next_offset:
                return
            at = entries[-1].end


def _born_before_us(sink: Sink) -> int:
    return sink.age.now_us() - sink.settings.max_age_us
