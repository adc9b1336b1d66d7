"""Lookup of pages: entries from memory or the index, bodies from the read cache or the store.

Reads run in four threads of their own; everything else happens on the loop. A reader asks for one position at a time
and gets the next item there: a page, a gap, or nothing yet.

A failed read is retried after short pauses. If that does not help, the caller gets ``ReadFailed`` and retries later,
and the partition is recorded in ``holds``. A read error is never taken for a missing or damaged page.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Final, ParamSpec, TypeVar

from forebay.broker.core.errors import BrokerError, ReadFailed, StoreFenced
from forebay.broker.core.partition.log import RECENT_MAX, PartitionLog, in_order
from forebay.broker.core.partition.pages import Body, Entry, Gap
from forebay.broker.core.partition.repair import IndexDamaged, Survey
from forebay.broker.runtime.clock import Clock
from forebay.broker.runtime.commit.store import Journal
from forebay.broker.runtime.read.read_cache import ReadCache
from forebay.broker.runtime.read.read_holds import ReadHolds
from forebay.errors.reasons import Reason

_log: Final = logging.getLogger(__name__)
READ_THREADS: Final = 4
REMOTE_THREADS: Final = 4
"""Threads of their own for reads that wait for a transfer: no other read waits for it."""
RETRY_DELAYS_S: Final = (0.02, 0.1, 0.3)
"""Pauses before retries of a failed read, unless the partition is known to fail."""
PROBED_MAX: Final = 16
"""Pages of a partition that are read again at once, to check if reads work."""
_END: Final = (1 << 64) - 1
DECODE_THREADS: Final = 2
"""Pages decoded at the same time: each may become 64 MiB of rows, and as much again of text."""
LOOKS_MAX: Final = 64
"""Display reads that run or wait, for one of as many threads of their own."""
WINDOW: Final = 256
"""Entries that are loaded at once."""
PARTS_MAX: Final = 2_048
"""Parts of entries that a reader or a load keeps, about 300 kB: a page has one per append."""

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Pages:
    """Reads of one store."""

    def __init__(
        self,
        journal: Journal,
        read_cache: ReadCache,
        in_commit_thread: Callable[[Callable[[], object]], Awaitable[object]],
        clock: Clock,
    ) -> None:
        self.journal = journal
        self.holds = ReadHolds()
        self._clock = clock
        self.read_cache = read_cache
        self._in_commit_thread = in_commit_thread
        self._rewriting = asyncio.Lock()
        """Held while the index is rewritten."""
        self.rewritten = 0
        """Number of rewrites of the index."""
        self.held: dict[int, Body] = {}
        """Bodies that are only in memory, by page number."""
        self._threads = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="forebay-read")
        self._remote_threads = ThreadPoolExecutor(REMOTE_THREADS, thread_name_prefix="forebay-remote")
        self._decoders = ThreadPoolExecutor(DECODE_THREADS, thread_name_prefix="forebay-decode")
        self._shown = ThreadPoolExecutor(DECODE_THREADS, thread_name_prefix="forebay-show")
        self._looks = 0

    async def call(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run a blocking read in a read thread; raises ``ReadFailed`` if its retries fail too."""
        return await self._patiently(RETRY_DELAYS_S, lambda: function(*args, **kwargs))

    async def _patiently(
        self, delays_s: Sequence[float], read: Callable[[], _T], threads: ThreadPoolExecutor | None = None
    ) -> _T:
        loop, threads = asyncio.get_running_loop(), threads or self._threads
        for delay_s in delays_s:
            try:
                return await loop.run_in_executor(threads, read)
            except ReadFailed:
                self.holds.failures += 1
            await asyncio.sleep(delay_s)
        try:
            return await loop.run_in_executor(threads, read)
        except ReadFailed:
            self.holds.failures += 1
            raise

    def _delays_s(self, sink: int, partition: int) -> Sequence[float]:
        """Return the pauses between retries: none where reads are known to fail, as the caller retries."""
        return RETRY_DELAYS_S if self.holds.at(sink, partition) is None else ()

    async def decode(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Decode a page in a thread of its own kind, so that no read waits for it."""
        return await asyncio.get_running_loop().run_in_executor(self._decoders, lambda: function(*args, **kwargs))

    async def show(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Decode a page for display, as ``decode``. Raises ``TOO_MANY_STREAMS`` for too many."""
        if self._looks >= LOOKS_MAX:
            raise BrokerError(Reason.TOO_MANY_STREAMS, "displays of records at the same time", bound=LOOKS_MAX)
        self._looks += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._shown, lambda: function(*args, **kwargs))
        finally:
            self._looks -= 1

    async def _index(self, sink: int, partition: int, read: Callable[[], _T]) -> _T:
        try:
            found = await self._patiently(self._delays_s(sink, partition), read)
        except ReadFailed as failure:
            self.holds.failed(sink, partition, None, failure, self._clock.wall_us())
            raise
        self.holds.index_worked(sink, partition)
        return found

    async def index(self, sink: int, partition: int, read: Callable[[], _T]) -> _T:
        """Read a partition's index; a damaged part is excluded by a rewrite. Raises ``ReadFailed``."""
        seen = self.rewritten
        try:
            return await self._index(sink, partition, read)
        except IndexDamaged as damage:
            async with self._rewriting:
                if seen == self.rewritten:
                    _log.error("index cannot be read, it is rewritten cause=%s", damage)
                    await self._in_commit_thread(self.journal.rewrite_index)
                    self.rewritten += 1
        try:
            return await self._index(sink, partition, read)
        except IndexDamaged as damage:
            raise StoreFenced(str(damage)) from damage

    async def survey(
        self, sink: int, partition: int, earliest: int, end: int, gaps: Sequence[Gap], known: Sequence[Entry]
    ) -> Survey:
        """Survey a partition."""
        survey = self.journal.survey
        return await self.index(sink, partition, lambda: survey(sink, partition, earliest, end, gaps, known))

    async def load_oldest(self, sink: int, log: PartitionLog) -> None:
        """Load the first entries of a partition, if they are needed."""
        first = log.head.earliest
        while log.needs_oldest:
            held, end = _held(log, first, log.tail.next_offset)
            found, end = await self._slice(sink, log, first, end)
            log.offer_oldest(_with(held, found, first, end), end)
            first = end

    async def load_more(self, sink: int, log: PartitionLog) -> None:
        """Load further first entries, where those in memory are not enough."""
        if log.needs_oldest:
            await self.load_oldest(sink, log)
        elif not log.complete:
            first = log.loaded_to
            held, end = _held(log, first, log.tail.next_offset)
            found, end = await self._slice(sink, log, first, end)
            log.offer_more(_with(held, found, first, end), first, end)

    async def _slice(self, sink: int, log: PartitionLog, first: int, end: int) -> tuple[list[Entry], int]:
        """Return entries in ``[first, end)``, and the offset below which they are complete."""
        entries, window = self.journal.entries, _window_at(log)
        found = await self.index(sink, log.number, lambda: entries(sink, log.number, first, end, window))
        found = found[: _fitting(found)]
        return found, found[-1].end if found else end

    async def bodies(self, sink: int, partition: int, entries: Sequence[Entry]) -> tuple[list[Body | None], bool]:
        """Return bodies in order, None for a missing or damaged page; and True if all came from memory.

        They end before the page of a failed read. Raises ``ReadFailed`` if that is the first one.
        """
        numbers = [entry.number for entry in entries]
        found = self.read_cache.found(sink, numbers)
        if self.held:
            found = [self.held.get(number, body) for number, body in zip(numbers, found, strict=True)]
        missing = [index for index, body in enumerate(found) if body is None]
        if not missing:
            return found, True
        try:
            bodies = await self._bodies(sink, partition, [entries[index] for index in missing])
        except ReadFailed:
            if len(entries) == 1:
                raise
            return await self._one_by_one(sink, partition, entries, found), False
        for index, body in zip(missing, bodies, strict=True):
            found[index] = body
        return found, False

    async def all_bodies(self, sink: int, partition: int, entries: Sequence[Entry]) -> list[Body | None]:
        """Return the bodies of all entries, None for a missing or damaged page. Raises ``ReadFailed``."""
        found: list[Body | None] = []
        while len(found) < len(entries):  # where a read failed, it is the first of the rest, and raises
            more, _ = await self.bodies(sink, partition, entries[len(found) :])
            found += more
        return found

    async def _bodies(self, sink: int, partition: int, entries: Sequence[Entry]) -> list[Body | None]:
        read_pages = self.journal.read_pages
        delays_s = self._delays_s(sink, partition)
        threads = self._remote_threads if self.journal.is_remote(sink, partition, entries) else self._threads
        try:
            found = await self._patiently(delays_s, lambda: read_pages(sink, partition, entries), threads)
        except ReadFailed as failure:
            if len(entries) == 1:  # else it is not known yet which of them it was
                self.holds.failed(sink, partition, entries[0], failure, self._clock.wall_us())
            raise
        self.holds.worked(sink, partition, [entry.number for entry in entries])
        return found

    async def _one_by_one(
        self, sink: int, partition: int, entries: Sequence[Entry], known: Sequence[Body | None]
    ) -> list[Body | None]:
        """Return the bodies up to the first failed read, after a read of all together failed."""
        found: list[Body | None] = []
        for entry, body in zip(entries, known, strict=True):
            try:
                found.append(body if body is not None else (await self._bodies(sink, partition, [entry]))[0])
            except ReadFailed:
                if not found:
                    raise
                break
        return found

    async def probe(self) -> None:
        """Retry failed reads once each, so that a partition without readers recovers too."""
        for sink, partition, hold in self.holds:
            with suppress(ReadFailed, StoreFenced):
                if hold.index:
                    entries = self.journal.entries
                    await self.index(sink, partition, partial(entries, sink, partition, 0, _END, 1))
                for entry in list(hold.pages.values())[:PROBED_MAX]:
                    await self._bodies(sink, partition, [entry])

    def close(self) -> None:
        """End the read threads."""
        self._threads.shutdown()
        self._remote_threads.shutdown()
        self._decoders.shutdown()
        self._shown.shutdown()


class EntryReader:
    """Entries of one partition from a position on, for one reader."""

    def __init__(self, pages: Pages, sink: int, log: PartitionLog) -> None:
        self._pages = pages
        self._sink = sink
        self._log = log
        self._ahead: list[Entry] = []
        self._window = WINDOW
        self._repairs = log.repairs

    async def upcoming(self, position: int) -> list[Entry]:
        """Return confirmed entries that end above ``position``, by offset; some may be removed already."""
        recent = self._log.recent_from(position)
        if recent is not None:
            self._ahead = []
            return recent
        if self._repairs != self._log.repairs:
            self._ahead, self._repairs = [], self._log.repairs
        ahead = self._ahead[bisect_right(self._ahead, position, key=lambda entry: entry.end) :]
        if not ahead or (ahead[0].base > position and not self._follows(position)):
            ahead = await self._load(position)
        self._ahead = ahead
        return ahead

    def _follows(self, position: int) -> bool:
        """Return whether the loaded entries begin below ``position``, so that none is missing."""
        return bool(self._ahead) and self._ahead[0].base <= position

    async def _load(self, position: int) -> list[Entry]:
        log = self._log
        while True:
            end = log.tail.next_offset
            found = await self._read(position, log.head.earliest, end)
            if found or end == log.tail.next_offset:  # else something came while it was read
                return found

    async def _read(self, position: int, earliest: int, end: int) -> list[Entry]:
        log, journal = self._log, self._pages.journal
        # As memory has them now: what is written while the index is read may be missed there.
        held, end = _held(log, max(position, earliest), end)
        found: list[Entry] = []
        if position > earliest:
            upper = min(position + 1, end)
            before = await self._pages.index(
                self._sink, log.number, lambda: journal.entry_before(self._sink, log.number, earliest, upper)
            )
            if before is not None and before.end > position:
                found.append(before)
        first = found[0].end if found else max(position, earliest)
        if first < end:
            upper = end
            window = self._window
            more = await self._pages.index(
                self._sink, log.number, lambda: journal.entries(self._sink, log.number, first, upper, window)
            )
            if len(more) == window:
                end = more[-1].end
            found += more
        return self._kept(in_order(found, [entry for entry in held if entry.base < end]))

    def _kept(self, found: list[Entry]) -> list[Entry]:
        """Return the first entries that fit; the next load is as large as that."""
        fitting = _fitting(found)
        self._window = fitting if fitting < len(found) else min(WINDOW, 2 * self._window)
        return found[:fitting]


def _fitting(found: Sequence[Entry]) -> int:
    """Return the number of first entries with up to ``PARTS_MAX`` parts, or one."""
    parts = 0
    for number, entry in enumerate(found):
        parts += 1 + len(entry.parts)
        if parts > PARTS_MAX and number:
            return number
    return len(found)


def _window_at(log: PartitionLog) -> int:
    """Return the number of first entries to load at once; those in memory tell their usual parts."""
    known = log.oldest or log.recent
    return min(WINDOW, max(1, PARTS_MAX // (1 + len(known[-1].parts)))) if known else WINDOW


def _held(log: PartitionLog, first: int, end: int) -> tuple[list[Entry], int]:
    """Return the held entries in ``[first, end)``, and the offset below which they are complete."""
    held = log.held_in(first, end)
    return held, min(end, held[-1].end) if len(held) == RECENT_MAX else end


def _with(held: list[Entry], found: list[Entry], first: int, end: int) -> list[Entry]:
    """Return the index entries in ``[first, end)``, merged with those held in memory at the read."""
    return in_order(found, [entry for entry in held if first <= entry.base < end])
