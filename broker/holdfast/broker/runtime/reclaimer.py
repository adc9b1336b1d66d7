"""Giving disk space back: one range at a time, exact deletes, then a compaction over just that range.

A partition's pages are reclaimed when ``BATCH_BYTES`` of them are due or nothing new became due for a while. The next
range is not deleted before the last one is compacted: two tombstones side by side make the store rewrite live files.
The ledger forgets a range only then, so that a crash in between leaves no file that nobody would ever look at again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from holdfast.broker.core.errors import StoreFenced
from holdfast.broker.core.writes import Due, Reclaim, Reclaimed
from holdfast.broker.runtime.committer import Committer
from holdfast.broker.runtime.store import Journal

_log: Final = logging.getLogger(__name__)
BATCH_BYTES: Final = 64 << 20
LOOSE_BYTES: Final = 4 << 20
"""Small pages deleted before the store is asked for their room: less than this stays in its log and buffers anyway."""
IDLE_S: Final = 1.0
DELETES_MAX: Final = 4_096
"""Single deletes of small pages in one batch."""


class Reclaimer:
    """Owns the reclaim thread and the ledger of due pages whose batch has been synced."""

    def __init__(self, journal: Journal, committer: Committer, due: Iterable[Due]) -> None:
        self._journal = journal
        self._committer = committer
        self._due: dict[tuple[int, int, bool], list[Due]] = {}
        self._sizes: dict[tuple[int, int, bool], int] = {}
        self._loose_bytes = 0
        """Small pages deleted since the last compaction of theirs."""
        self._event = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="holdfast-reclaim")
        self._task: asyncio.Task[None] | None = None
        self.reclaimed_bytes = 0
        """Bytes of bodies reclaimed by this process."""
        self.add(due)

    def start(self) -> None:
        """Begin to reclaim."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="holdfast-reclaimer")

    async def close(self) -> None:
        """Stop after the range that is under way; the ledger goes on at the next start."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await asyncio.get_running_loop().run_in_executor(None, self._thread.shutdown)

    def add(self, due: Iterable[Due]) -> None:
        """Take in ledger entries whose batch has been synced."""
        for item in due:
            key = (item.sink, item.partition, item.bulk)
            runs = self._due.setdefault(key, [])
            runs.append(item)
            self._sizes[key] = self._sizes.get(key, 0) + item.size
        self._event.set()

    async def _run(self) -> None:
        try:
            while True:
                ripe = [key for key in self._due if self._sizes[key] >= BATCH_BYTES]
                if ripe:
                    await self._reclaim(ripe[0])
                    continue
                self._event.clear()
                try:
                    async with asyncio.timeout(IDLE_S if self._due else None):
                        await self._event.wait()
                except TimeoutError:
                    await self._reclaim(next(iter(self._due)))
        except StoreFenced as failure:
            _log.error("reclaiming stopped cause=%s", failure)

    async def _reclaim(self, key: tuple[int, int, bool]) -> None:
        sink, partition, bulk = key
        runs = self._due.pop(key)
        self._sizes.pop(key)
        if not bulk and len(runs) > DELETES_MAX:
            self.add(runs[DELETES_MAX:])
            runs = runs[:DELETES_MAX]
        deletes, ends = [Reclaim(run) for run in runs], [Reclaimed(run) for run in runs]
        size = sum(run.size for run in runs)
        first, last = min(run.first for run in runs), max(run.last for run in runs)
        self._loose_bytes += 0 if bulk else size
        if bulk or self._loose_bytes >= LOOSE_BYTES:
            self._loose_bytes = self._loose_bytes if bulk else 0
            await self._committer.write(deletes)
            if not await self._compacted(Due(sink, partition, bulk, first, last, size)):
                return
            await self._committer.write(ends)
        else:
            await self._committer.write([*deletes, *ends])
        self.reclaimed_bytes += size
        _log.debug("pages were reclaimed sink=%d partition=%d bytes=%d", sink, partition, size)

    async def _compacted(self, due: Due) -> bool:
        """Compact a range; where that fails the others go on, and the ledger keeps this one for the next start."""
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._journal.compact, due)
        except StoreFenced as failure:
            place = (due.sink, due.partition, due.size)
            _log.error("space of pages did not come back sink=%d partition=%d bytes=%d cause=%s", *place, failure)
            return False
        return True
