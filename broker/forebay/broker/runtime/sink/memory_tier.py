"""Memory tier of one sink: pages that are only in memory, and their spill to disk or removal.

A page goes to memory while there is room and every page of the sink on disk is settled. Once a page had to be written,
all later ones are written too, until readers have caught up: so the order in time is that of the offsets. A page that
is spilled keeps its number and its entry; readers notice nothing. Offsets that a crash may lose are reserved before
they are assigned, see ``core.partition.reservation``. Used on the loop only.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from forebay.broker.core.errors import CommitsBehind, StorageFull, StoreFenced
from forebay.broker.core.partition.log import PartitionLog
from forebay.broker.core.partition.pages import Body, Durability, Entry
from forebay.broker.core.partition.reservation import HeldRuns
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
from forebay.broker.runtime.commit.committer import Committer
from forebay.broker.runtime.commit.group import Append, page_of
from forebay.broker.runtime.commit.reservations import Reservations
from forebay.broker.runtime.read.pages import Pages
from forebay.broker.runtime.resources.memory import MemoryGuard
from forebay.broker.runtime.sink.state import Sink

_log: Final = logging.getLogger(__name__)
SLOTS_MIN: Final = 1_024
"""Writers and partitions from which on those that are gone are removed."""
SPILL_BYTES: Final = 8 << 20
"""Bytes of bodies written per batch of a spill, plus one page."""


@dataclass(frozen=True, slots=True)
class _HeldPage:
    partition: int
    entry: Entry
    body: Body
    slot: PutSlot | None


class MemoryTier:
    """Pages of one sink that are only in memory."""

    def __init__(
        self, sink: Sink, offsets: Reservations, *, committer: Committer, pages: Pages, memory: MemoryGuard
    ) -> None:
        self._sink = sink
        self._offsets = offsets
        self._committer = committer
        self._pages = pages
        self._memory = memory
        self._held: dict[int, _HeldPage] = {}
        """Pages by page number, oldest first."""
        self._runs: dict[int, HeldRuns] = {}
        """Those that are not being written to disk, by partition."""
        self._leaving: set[int] = set()
        """Numbers of pages that are being written to disk."""
        self._disk_end = {log.number: log.tail.next_offset for log in sink.logs if log.pages}
        """End of the last page sent to disk, for partitions where it may be unsettled."""
        self._notified: set[int] = set()
        """Partitions whose stored tail counts pages that are only in memory."""
        self._writing = asyncio.Lock()
        """Held by the task that spills the tier; another one waits and finds fewer pages."""
        self.slot_is_current: Callable[[PutSlot], bool] = lambda _: False
        """Return whether a writer's window still has the page of this slot."""
        self._last_slots: dict[tuple[str, int], PutSlot] = {}
        """Last held page of each writer, by its ID and the partition; stored at a stop."""
        self._prune_at = SLOTS_MIN
        self.records = 0
        """Number of records that are only in memory."""
        self.size = 0
        """Bytes of their bodies."""

    # -- where a page goes

    @property
    def _mode(self) -> int:
        return self._sink.settings.buffer_mode

    @property
    def active(self) -> bool:
        """True if pages may be held in memory only."""
        return self._mode != BufferMode.DISK

    def accepts(self, log: PartitionLog, records: int) -> bool:
        """Return whether the next page of a partition, with ``records`` records, goes to memory."""
        if log.next_offset != log.tail.next_offset:
            return False  # pages that wait for their batch come first
        if self._mode == BufferMode.MEMORY:
            return True
        if self._mode == BufferMode.DISK or self.pressed:
            return False
        return not self._disk_is_unsettled() and self.records + records <= self._sink.settings.memory_cache_threshold

    @property
    def pressed(self) -> bool:
        """True if the process uses too much memory and the sink is to give some up."""
        return self._memory.overloaded and self._sink.settings.memory_overload_protection

    def _disk_is_unsettled(self) -> bool:
        for number, end in list(self._disk_end.items()):
            if self._sink.settled(self._sink.logs[number]) >= end:
                del self._disk_end[number]
        return bool(self._disk_end)

    def hold(self, log: PartitionLog, append: Append) -> Entry:
        """Take an admitted page into memory: it is confirmed at once.

        No page of its partition may wait for a batch.
        """
        number = self._committer.next_number()
        entry, body, tail = page_of([append], log.decided, number=number, bulk=False)
        log.held[entry.base] = entry
        self._runs.setdefault(log.number, HeldRuns()).add(entry)
        log.decided = tail
        log.confirm(tail, [entry], entry.size)
        self._held[number] = _HeldPage(log.number, entry, body, append.slot)
        if append.slot is not None:
            self._note_slot(append.slot)
        self._pages.held[number] = body
        self.records += entry.count
        self.size += entry.size
        self._offsets.note(log.number, entry.end)
        append.done.set_result(None)
        return entry

    def _note_slot(self, slot: PutSlot) -> None:
        self._last_slots[slot.writer_id, slot.partition] = slot
        if len(self._last_slots) >= self._prune_at:  # writers that are gone
            self._last_slots = {key: each for key, each in self._last_slots.items() if self.slot_is_current(each)}
            self._prune_at = max(SLOTS_MIN, 2 * len(self._last_slots))

    def sent_to_disk(self, log: PartitionLog) -> None:
        """Record that a page was queued for the disk: later pages follow it."""
        if self.active:
            self._disk_end[log.number] = log.next_offset

    def level(self, partition: int, first: int, end: int) -> Durability:
        """Return the durability of records that were accepted as one page."""
        log = self._sink.logs[partition]
        if self.active and first < log.earliest:
            return Durability.MEMORY  # removed by now: report only what is certain
        return log.level(first, end)

    # -- what is stored with what

    def beside(self, log: PartitionLog) -> list[Write]:
        """Return the writes beside a partition's tail: the current head, and the pages only in memory."""
        if not self.active:
            return []
        runs = self._runs.get(log.number)
        held = runs.held() if runs is not None else ()
        sink = self._sink.id
        writes: list[Write] = [PutHead(sink, log.number, log.head)]
        if held or log.number in self._notified:
            (self._notified.add if held else self._notified.discard)(log.number)
            writes.append(PutHeld(sink, log.number, held))
        return writes

    def beside_head(self, log: PartitionLog) -> list[Write]:
        """Return the writes beside a partition's head: its tail, and the pages only in memory."""
        if not self.active:
            return []
        return [PutTail(self._sink.id, log.number, log.decided), *self.beside(log)]

    def is_stored(self, entry: Entry) -> bool:
        """Return whether a page is on disk, or about to be."""
        return entry.number not in self._held or entry.number in self._leaving

    def remove(self, entries: Sequence[Entry]) -> None:
        """Release the memory of pages that left the log."""
        for entry in entries:
            self._release(entry.number)

    def _release(self, number: int) -> None:
        page = self._held.pop(number, None)
        if page is not None:
            self._pages.held.pop(number, None)
            self._runs[page.partition].remove(page.entry)
            self.records -= page.entry.count
            self.size -= page.entry.size

    # -- to the disk

    async def write_out(self) -> None:
        """Spill all pages to disk; from now on later pages follow them there.

        Raises ``StorageFull``, with the rest still in memory, and ``StoreFenced``.
        """
        async with self._writing:
            while slice_ := self._slice():
                self._committer.admit(sum(page.entry.size for page in slice_))
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
        sink, logs = self._sink.id, self._sink.logs
        writes: list[Write] = []
        for page in pages:
            self._leaving.add(page.entry.number)
            self._runs[page.partition].remove(page.entry)
            writes.append(PutEntry(sink, page.partition, page.entry))
            self._disk_end[page.partition] = max(self._disk_end.get(page.partition, 0), page.entry.end)
            if page.slot is not None and self.slot_is_current(page.slot):
                writes.append(page.slot)
        for number in {page.partition for page in pages}:
            writes += self.beside_head(logs[number])
        bodies = [PageWrite(sink, page.partition, page.entry, page.body) for page in pages]
        written = self._committer.write(writes, bodies)

        def done(over: asyncio.Future[None]) -> None:
            if over.exception() is not None:
                return
            for page, stored in zip(pages, bodies, strict=True):
                self._leaving.discard(page.entry.number)
                log = logs[page.partition]
                if log.held.pop(page.entry.base, None) is not None:
                    log.synced = max(log.synced, page.entry.end)
                    self._pages.read_cache.add([stored])
                self._release(page.entry.number)

        written.add_done_callback(done)
        return written

    async def relieve(self) -> None:
        """Spill at once if the process uses too much memory and the sink may write."""
        if self._mode == BufferMode.SPILL and self._held and self.pressed:
            try:
                await self.write_out()
            except (StorageFull, CommitsBehind) as full:
                _log.warning("memory could not be written out sink=%s cause=%s", self._sink.name, full)

    # -- the end

    async def close(self) -> None:
        """Spill at a clean stop, and end the reservations."""
        if self._committer.fenced is not None or self._sink.deleted:
            return
        try:
            await self._end()
        except StoreFenced as failure:
            left = (self._sink.name, self.records, failure)
            _log.error("memory could not be written out and is lost sink=%s records=%d cause=%s", *left)

    async def _end(self) -> None:
        writes: list[Write] = []
        if self._mode != BufferMode.MEMORY and not self._sink.settings.volatile:
            try:
                await self.write_out()
            except StorageFull as full:
                left = (self._sink.name, self.records, full)
                _log.error("memory could not be written out and is lost sink=%s records=%d cause=%s", *left)
            else:  # a page that was settled in memory was never stored, and its writer may send it again
                writes += [slot for slot in self._last_slots.values() if self.slot_is_current(slot)]
        for number, put in self._offsets.final():
            writes += [*self.beside_head(self._sink.logs[number]), put]
        if writes:
            await self._committer.write(writes)

    def clear(self) -> None:
        """Release all memory of a sink that is being deleted."""
        for number in list(self._held):
            self._release(number)
        self._last_slots.clear()
