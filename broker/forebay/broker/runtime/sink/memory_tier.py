"""The memory tier of one sink: pages that only memory holds, and how they come to the disk, or go.

A page goes to memory while there is room and nothing of the sink that stands on the disk is unsettled; once one had to
be written, all that follow are, until readers have caught up. So the order in time is that of the offsets. A page that
moves to the disk keeps its number and its entry: readers notice nothing. What a crash may take back has its offsets
reserved before they are handed out, see ``core.reserve``. Used on the loop only.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from forebay.broker.core.errors import DiskFull, StoreFenced, TooManyWaiting
from forebay.broker.core.partition.log import PartitionLog
from forebay.broker.core.partition.pages import Body, DropReason, Durability, Entry
from forebay.broker.core.partition.reservation import Reserve, held_runs
from forebay.broker.core.publish.limits import Wait, oldest
from forebay.broker.core.settings import BufferMode
from forebay.broker.core.writes import (
    PageWrite,
    PutEntry,
    PutHead,
    PutHeld,
    PutSlot,
    PutTail,
    Write,
)
from forebay.broker.runtime.commit.group import Append, page_of
from forebay.broker.runtime.commit.reservation import Reserving

if TYPE_CHECKING:
    from forebay.broker.runtime.sink.buffer import Buffer, Services

_log: Final = logging.getLogger(__name__)
SPILL_BYTES: Final = 8 << 20
"""Bodies written in one batch when memory is written out, and one page."""


@dataclass(frozen=True, slots=True)
class _HeldPage:
    partition: int
    entry: Entry
    body: Body
    slot: PutSlot | None


class MemoryTier:
    """What of one sink only memory holds."""

    def __init__(self, buffer: Buffer, services: Services, reserves: Mapping[int, Reserve]) -> None:
        self._buffer = buffer
        self._services = services
        self._held: dict[int, _HeldPage] = {}
        """By page number, oldest first."""
        self._leaving: set[int] = set()
        """Page numbers on their way to the disk."""
        self.offsets = Reserving(buffer, services, reserves)
        self._disk_end = {log.number: log.tail.next_offset for log in buffer.logs if log.pages}
        """End of the last page that was sent to the disk, for partitions where it may be unsettled."""
        self._told: set[int] = set()
        """Partitions whose stored tail counts pages that only memory holds."""
        self._writing = asyncio.Lock()
        """Held by whoever writes the tier out; another one waits and finds less."""
        self.slot_is_current: Callable[[PutSlot], bool] = lambda _: False
        """Whether a writer still remembers a page by this."""
        self.records = 0
        """Records that only memory holds."""
        self.size = 0
        """Bytes of their bodies."""

    # -- where a page goes

    @property
    def _mode(self) -> int:
        return self._buffer.settings.buffer_mode

    @property
    def active(self) -> bool:
        """Pages may be held in memory only."""
        return self._mode != BufferMode.DISK

    def takes(self, log: PartitionLog, records: int) -> bool:
        """Whether the next page of a partition, of so many records, goes to memory."""
        if log.next_offset != log.tail.next_offset:
            return False  # what waits for its batch comes first
        if self._mode == BufferMode.MEMORY:
            return True
        if self._mode == BufferMode.DISK or self.pressed:
            return False
        return not self._disk_is_unsettled() and self.records + records <= self._buffer.settings.memory_cache_threshold

    @property
    def pressed(self) -> bool:
        """The process uses too much memory, and the sink is to help."""
        return self._services.memory.overloaded and self._buffer.settings.memory_overload_protection

    def _disk_is_unsettled(self) -> bool:
        for number, end in list(self._disk_end.items()):
            if self._buffer.settled(self._buffer.logs[number]) >= end:
                del self._disk_end[number]
        return bool(self._disk_end)

    def hold(self, log: PartitionLog, append: Append) -> Entry:
        """Take an admitted page into memory: it is confirmed at once. Nothing of its partition waits for a batch."""
        number = self._services.committer.next_number()
        entry, body, tail = page_of([append], log.decided, number=number, bulk=False)
        log.held[entry.base] = entry
        log.decided = tail
        log.confirm(tail, [entry], entry.size)
        self._held[number] = _HeldPage(log.number, entry, body, append.slot)
        self._services.pages.held[number] = body
        self.records += entry.count
        self.size += entry.size
        self.offsets.note(log.number, entry.end)
        append.done.set_result(None)
        return entry

    def admit(self, size: int) -> None:
        """Raise unless there is room for a page to be written, where it may be."""
        fenced = self._services.committer.fenced
        if self._mode != BufferMode.MEMORY:
            self._services.committer.admit(size)
            if self._buffer.settings.memory_overload_protection:
                self._services.memory.admit(self._services.committer.waiting_bytes, size)
        elif fenced is not None:
            raise fenced

    def sent_to_disk(self, log: PartitionLog) -> None:
        """A page was queued for the disk: those behind it follow."""
        if self.active:
            self._disk_end[log.number] = log.next_offset

    def level(self, partition: int, first: int, end: int) -> Durability:
        """How safe records are that were accepted as one page."""
        log = self._buffer.logs[partition]
        if self.active and first < log.earliest:
            return Durability.MEMORY  # gone by now: nobody is told more than what is known
        return log.level(first, end)

    # -- what is stored with what

    def beside(self, log: PartitionLog) -> list[Write]:
        """What is written with a partition's tail: the head as of now, and which pages of the tail are not stored."""
        if not self.active:
            return []
        held = held_runs(entry for entry in log.held.values() if entry.number not in self._leaving)
        sink = self._buffer.record.id
        writes: list[Write] = [PutHead(sink, log.number, log.head)]
        if held or log.number in self._told:
            (self._told.add if held else self._told.discard)(log.number)
            writes.append(PutHeld(sink, log.number, held))
        return writes

    def beside_head(self, log: PartitionLog) -> list[Write]:
        """What is written with a partition's head: the tail that it belongs to, and which pages are not stored."""
        if not self.active:
            return []
        return [PutTail(self._buffer.record.id, log.number, log.decided), *self.beside(log)]

    def is_stored(self, entry: Entry) -> bool:
        """Whether the disk has a page, or will have it in a moment."""
        return entry.number not in self._held or entry.number in self._leaving

    def forget(self, entries: Sequence[Entry]) -> None:
        """Pages left the log."""
        for entry in entries:
            self._let_go(entry.number)

    def _let_go(self, number: int) -> None:
        page = self._held.pop(number, None)
        if page is not None:
            self._services.pages.held.pop(number, None)
            self.records -= page.entry.count
            self.size -= page.entry.size

    # -- to the disk

    async def write_out(self) -> None:
        """Write what memory holds to the disk; from now on pages follow it there.

        Raises ``DiskFull``, with the rest still in memory, and ``StoreFenced``.
        """
        async with self._writing:
            while slice_ := self._slice():
                self._services.committer.admit(sum(page.entry.size for page in slice_))
                await asyncio.shield(self._write(slice_))

    def _slice(self) -> list[_HeldPage]:
        chosen: list[_HeldPage] = []
        size = 0
        for page in self._held.values():
            if size >= SPILL_BYTES:
                break
            chosen.append(page)
            size += page.entry.size
        return chosen

    def _write(self, pages: Sequence[_HeldPage]) -> asyncio.Future[None]:
        sink, logs = self._buffer.record.id, self._buffer.logs
        writes: list[Write] = []
        for page in pages:
            self._leaving.add(page.entry.number)
            writes.append(PutEntry(sink, page.partition, page.entry))
            self._disk_end[page.partition] = max(self._disk_end.get(page.partition, 0), page.entry.end)
            if page.slot is not None and self.slot_is_current(page.slot):
                writes.append(page.slot)
        for number in {page.partition for page in pages}:
            writes += self.beside_head(logs[number])
        bodies = [PageWrite(sink, page.partition, page.entry, page.body) for page in pages]
        written = self._services.committer.write(writes, bodies)

        def done(over: asyncio.Future[None]) -> None:
            if over.exception() is not None:
                return
            for page in pages:
                self._leaving.discard(page.entry.number)
                log = logs[page.partition]
                if log.held.pop(page.entry.base, None) is not None:
                    log.synced = max(log.synced, page.entry.end)
                    self._services.pages.tail.put(page.entry.number, page.body)
                self._let_go(page.entry.number)

        written.add_done_callback(done)
        return written

    async def relieve(self) -> None:
        """The process uses too much memory: a sink that may write does so at once."""
        if self._mode == BufferMode.SPILL and self._held and self.pressed:
            try:
                await self.write_out()
            except (DiskFull, TooManyWaiting) as full:
                _log.warning("memory could not be written out sink=%s cause=%s", self._buffer.name, full)

    def yield_to(self, size: int) -> None:
        """A page of ``size`` bytes comes to a sink that may not write while memory is short: as much goes first."""
        if self._mode != BufferMode.MEMORY or not self.pressed:
            return
        in_flight = [frozenset(self._buffer.in_flight(log.number)) for log in self._buffer.logs]
        found = oldest(self._buffer.logs, in_flight, 0, size)
        if isinstance(found, Wait):
            return
        for log in self._buffer.logs:
            entries = [drop.entry for drop in found if drop.partition == log.number]
            if entries:
                self._buffer.drop(log.number, entries, DropReason.MEMORY_PRESSURE)

    # -- the end

    async def close(self) -> None:
        """A clean stop: write what memory holds, or drop and count it where nothing is ever written."""
        if self._services.committer.fenced is not None or self._buffer.deleted:
            return
        try:
            await self._end()
        except StoreFenced as failure:
            left = (self._buffer.name, self.records, failure)
            _log.error("memory could not be written out and is lost sink=%s records=%d cause=%s", *left)

    async def _end(self) -> None:
        settings = self._buffer.settings
        if self._mode == BufferMode.MEMORY:
            for log in self._buffer.logs:
                if log.held:
                    self._buffer.drop(log.number, list(log.held.values()), DropReason.CLEANED_AT_STOP)
        elif not settings.volatile:
            try:
                await self.write_out()
            except DiskFull as full:
                left = (self._buffer.name, self.records, full)
                _log.error("memory could not be written out and is lost sink=%s records=%d cause=%s", *left)
        writes: list[Write] = []
        for number, put in self.offsets.ended():
            writes += [*self.beside_head(self._buffer.logs[number]), put]
        if writes:
            await self._services.committer.write(writes)

    def clear(self) -> None:
        """The sink is to be deleted: its memory comes back."""
        for number in list(self._held):
            self._let_go(number)
