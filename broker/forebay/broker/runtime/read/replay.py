"""Replay of a partition from a position, without any change of state."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from forebay.broker.core.delivery.message_builder import MessageBuilder
from forebay.broker.core.errors import BrokerError, OffsetAhead, OffsetTrimmed
from forebay.broker.core.partition.log import PartitionLog
from forebay.broker.core.partition.pages import Body, DropReason, Entry, Gap
from forebay.broker.runtime.read.pages import EntryReader, Pages
from forebay.broker.runtime.read.read_ahead import ReadAhead
from forebay.broker.runtime.read.readers import Reader
from forebay.broker.runtime.resources.stream_memory import Share
from forebay.broker.runtime.sink.retention.removal import Removal
from forebay.broker.runtime.sink.state import Sink
from forebay.errors.reasons import Reason


@dataclass(frozen=True, slots=True)
class Batch:
    """Whole pages by rising offset."""

    pages: tuple[tuple[Entry, Body], ...]

    @property
    def size(self) -> int:
        """Return the bytes of its pages."""
        return sum(entry.size for entry, _ in self.pages)


class Replay:
    """Replay of one partition."""

    def __init__(
        self,
        sink: Sink,
        partition: int,
        pages: Pages,
        removal: Removal,
        memory: Share | None = None,
        *,
        ahead: bool = False,
        reader: Reader | None = None,
    ) -> None:
        """``memory`` counts the pages that are read; the receiver of a step releases it.

        ``reader`` notes the progress.

        ``ahead``: the next step is read while the current one is used, see ``ReadAhead``. The first step is then one
        page, for a low latency.
        """
        self._memory = memory or Share()
        self._sink = sink
        self._log: PartitionLog = sink.logs[partition]
        self._pages = pages
        self._removal = removal
        self._ahead = ReadAhead[Batch | Gap](pages, sink.id, partition) if ahead else None
        self._noted = reader
        self._reader = EntryReader(pages, sink.id, self._log)

    async def start_at(self, *, offset: int | None, time_us: int | None) -> int:
        """Return the first offset of the replay.

        Raises:
            OffsetTrimmed: it was settled and trimmed.
            OffsetAhead: it is beyond the end.
        """
        log = self._log
        await self._pages.load_oldest(self._sink.id, log)
        if time_us is not None:
            return await self._first_since(time_us)
        if offset is None:
            return log.earliest
        if offset > log.tail.next_offset:
            raise OffsetAhead(offset, log.earliest, log.tail.next_offset)
        if offset < log.earliest and log.gap_at(offset) is None:
            raise OffsetTrimmed(offset, log.earliest, log.tail.next_offset)
        return offset

    async def _first_since(self, time_us: int) -> int:
        position = self._log.earliest
        low, high = position, self._log.tail.next_offset
        while low < high:
            middle = (low + high) // 2
            entries = await self._reader.upcoming(middle)
            if not entries:
                high = middle
            elif entries[0].parts[-1].accepted_at_us < time_us:
                low = max(entries[0].end, middle + 1)
            elif entries[0].base <= middle:
                high = min(entries[0].base, middle)
            else:
                high = middle
        entries = await self._reader.upcoming(low)
        if not entries:
            return self._log.tail.next_offset
        return next((p.first for p in entries[0].parts if p.accepted_at_us >= time_us), entries[0].base)

    async def read(self, start: int, end: int | None, *, follow: bool) -> AsyncGenerator[Batch | Gap]:
        """Yield pages and gaps from ``start`` up to ``end``; with ``follow`` it waits for more at the end.

        Raises:
            OffsetTrimmed: the next records were settled and trimmed.
            ReadFailed: the disk does not answer; nothing is lost, and the same position may be read later.
            SinkNotFound: the sink was deleted.
        """
        if end is not None and end < start:
            raise BrokerError(Reason.INVALID_RANGE, f"the end {end} is below the start {start}", field="end_offset")
        position = start
        self._note_position(position)
        stop = end if end is not None or follow else self._log.tail.next_offset
        ahead = self._ahead
        try:
            while stop is None or position < stop:
                moment = self._sink.changed.next()
                self._sink.check_alive()
                step = await ahead.result() if ahead is not None else None
                if step is None:  # also where there was nothing when it was read ahead: ``moment`` is younger
                    step = await self._next(position, stop, is_first=position == start)
                if step is None:
                    if not follow:
                        return
                    await moment.wait()
                    continue
                position = step.end if isinstance(step, Gap) else step.pages[-1][0].end
                if ahead is not None and (stop is None or position < stop):
                    ahead.begin(self._next(position, stop))
                yield step
                self._note_position(position)
                await asyncio.sleep(0)  # everything may have come from memory: let others run
        finally:
            if ahead is not None:
                await ahead.close()

    def _note_position(self, position: int) -> None:
        if self._noted is not None:
            self._noted.position = position

    async def _next(self, position: int, stop: int | None, *, is_first: bool = False) -> Batch | Gap | None:
        log = self._log
        entries = await self._reader.upcoming(position)
        if position >= log.head.earliest and log.hole_at(position, entries[0] if entries else None):
            await self._removal.repair(log)
            entries = await self._reader.upcoming(position)
        gap = log.next_gap(position)
        if gap is not None and (not entries or gap.first <= max(entries[0].base, position)):
            if position < min(gap.first, log.head.earliest):
                raise OffsetTrimmed(position, log.earliest, log.tail.next_offset)
            return await self._told(gap, position)
        if position < (entries[0].base if entries else log.head.earliest):
            raise OffsetTrimmed(position, log.earliest, log.tail.next_offset)
        if not entries:
            return None
        filling = MessageBuilder(
            pages_max=1 if self._ahead is not None and is_first else None, bytes_left=self._memory.step_bytes
        )
        chosen = filling.entries
        for entry in entries:
            beyond = (stop is not None and entry.base >= stop) or (gap is not None and entry.base >= gap.first)
            if chosen and entry.base != chosen[-1].end:
                break  # what is missing is looked for when its turn comes
            if beyond or not filling.fits(entry):
                break
            filling.add(entry, entry.count)
        if self._ahead is not None:
            self._ahead.hint(entries, chosen[-1].end, stop)
        await self._memory.room(filling.size)
        step = await self._read(position, chosen)
        self._memory.release_pages(filling.size - (step.size if isinstance(step, Batch) else 0))
        return step

    async def _read(self, position: int, chosen: list[Entry]) -> Batch | Gap | None:
        log = self._log
        bodies, from_memory = await self._pages.bodies(self._sink.id, log.number, chosen)
        if self._noted is not None:
            self._noted.read_from(realtime=from_memory)
        found = zip(chosen, bodies, strict=False)  # bodies end where a read failed; the next step raises its error
        pages = [(entry, body) for entry, body in found if body is not None]
        if len(pages) < len(chosen):
            return await self._around_damage(position, chosen[0], pages)
        return Batch(tuple(pages))

    async def _around_damage(self, position: int, first: Entry, pages: list[tuple[Entry, Body]]) -> Batch | Gap | None:
        """Handle a missing page: it was trimmed or dropped since, or it is damaged."""
        readable = []
        at = first.base
        for entry, body in pages:
            if entry.base != at:
                break
            readable.append((entry, body))
            at = entry.end
        if readable:
            return Batch(tuple(readable))
        log = self._log
        self._sink.check_alive()
        at = max(position, first.base)
        if log.gap_at(at) is None and first.base < log.head.earliest:
            raise OffsetTrimmed(position, log.earliest, log.tail.next_offset)
        if log.gap_at(at) is None:
            self._removal.drop(log.number, [first], DropReason.CORRUPT)
        gap = log.gap_at(at)
        return await self._told(gap, position) if gap is not None else None

    async def _told(self, gap: Gap, position: int) -> Gap:
        """Return the gap from ``position`` on, once it is durable; raises ``StoreFenced`` if it never is."""
        await self._removal.drops_durable(self._log.number)
        return gap.cut(position)
