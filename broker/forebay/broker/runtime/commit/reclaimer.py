"""Reclaim of disk space: unreferenced pages are deleted, then their space is released.

Bulk pages are reclaimed together, when ``BATCH_BYTES`` of them are due or nothing new became due for a while. Small
ones are reclaimed one partition at a time. The ledger keeps a range until its space is released, so that a crash in
between leaves no orphaned file. It keeps a deleted sink until no page is remote any more, since only a file that is
here tells whether it has pages of the sink: none is fetched for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Final, ParamSpec, TypeVar

from forebay.broker.core.errors import ReadFailed, StoreFenced
from forebay.broker.core.writes import WHOLE_SINK, Due, Reclaim, Reclaimed
from forebay.broker.runtime.commit.committer import Committer
from forebay.broker.runtime.commit.store import Journal
from forebay.broker.runtime.resources.supervision import SupervisedWork, Supervisor

_log: Final = logging.getLogger(__name__)
BATCH_BYTES: Final = 64 << 20
LOOSE_BYTES: Final = 4 << 20
"""Bytes of small pages deleted before the store is compacted: less stays in its buffers anyway."""
IDLE_S: Final = 1.0
ARRIVAL_S: Final = 5.0
"""Interval at which it is looked whether all pages are here, for sinks that were deleted before."""
DELETES_MAX: Final = 4_096
"""Runs of pages deleted in one batch."""
FAILURES_MAX: Final = 256
"""Runs whose space cannot be released, after which the others of their batch wait for the next start."""

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Reclaimer:
    """Owner of the reclaim thread and of the ledger of due pages whose batch was synced."""

    def __init__(self, journal: Journal, committer: Committer, due: Iterable[Due], supervisor: Supervisor) -> None:
        self._journal = journal
        self._committer = committer
        self._supervisor = supervisor
        self._bulk: list[Due] = []
        self._small: dict[tuple[int, int], list[Due]] = {}
        self._sizes: dict[bool, int] = {True: 0, False: 0}
        self._remote: list[Due] = []
        """Deleted sinks, the pages of which were reclaimed but for those that are remote, if any."""
        self._loose_bytes = 0
        """Bytes of small pages deleted since their last compaction."""
        self._event = asyncio.Event()
        self._bulk_lock = asyncio.Lock()
        """Held while bulk pages are reclaimed, and while they must not be."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="forebay-reclaim")
        self._running: SupervisedWork | None = None
        self.reclaimed_bytes = 0
        """Bytes of bodies reclaimed by this process."""
        self.add(due)

    def start(self) -> None:
        """Begin to reclaim."""
        self._running = self._supervisor.keep_running("reclaimer", self._run)

    async def close(self) -> None:
        """Stop after the current range; the ledger continues at the next start."""
        if self._running is not None:
            await self._running.stop()
        await asyncio.get_running_loop().run_in_executor(None, self._thread.shutdown)

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Reclaim no bulk page, from the end of the range in progress on. The ledger keeps them."""
        try:
            async with self._bulk_lock:
                yield
        finally:
            self._event.set()

    def add(self, due: Iterable[Due]) -> None:
        """Add ledger entries whose batch was synced."""
        for item in due:
            runs = self._bulk if item.bulk else self._small.setdefault((item.sink, item.partition), [])
            runs.append(item)
            self._sizes[item.bulk] += item.size
        self._event.set()

    async def _run(self) -> None:
        while True:
            self._event.clear()
            if self._remote and not self._journal.has_remote():
                self._bulk += self._remote
                self._remote.clear()
            bulk = bool(self._bulk) and not self._bulk_lock.locked()
            if max(self._sizes[True] if bulk else 0, self._sizes[False]) < BATCH_BYTES:
                try:
                    async with asyncio.timeout(self._pause_s(bulk=bulk)):
                        await self._event.wait()
                    continue
                except TimeoutError:
                    pass
            await self._reclaim_all()

    def _pause_s(self, *, bulk: bool) -> float | None:
        """Return the time after which the next pass begins without a new due; None for none."""
        if bulk or self._small:
            return IDLE_S
        return ARRIVAL_S if self._remote else None

    async def _reclaim_all(self) -> None:
        """Reclaim everything due. A part that cannot be read stays due, and the others do not wait for it."""
        bulk: list[Due] = []
        if not self._bulk_lock.locked():
            bulk, self._bulk = self._bulk, []
            self._sizes[True] = 0
        small, self._small = self._small, {}
        self._sizes[False] = 0
        slices = [*_slices(bulk), *(slice_ for runs in small.values() for slice_ in _slices(runs))]
        held: list[Sequence[Due]] = []
        unread: ReadFailed | None = None
        try:
            while slices:
                if slices[0][0].bulk and self._bulk_lock.locked():
                    held.append(slices.pop(0))  # the small ones do not wait for a backup
                    continue
                reclaim = self._reclaim_bulk if slices[0][0].bulk else self._reclaim_small
                try:
                    await reclaim(slices[0])
                except ReadFailed as failure:
                    held.append(slices[0])
                    unread = failure
                del slices[0]
        finally:
            for left in (*held, *slices):
                self.add(left)
        if unread is not None:
            raise unread

    async def _reclaim_bulk(self, dues: Sequence[Due]) -> None:
        async with self._bulk_lock:
            await self._reclaim_files(dues)

    async def _reclaim_files(self, dues: Sequence[Due]) -> None:
        runs = [due for due in dues if due.partition != WHOLE_SINK]
        remote: list[Due] = []
        for due in dues:
            if due.partition == WHOLE_SINK:
                if self._journal.has_remote():  # what arrives meanwhile is found by the next pass
                    remote.append(due)
                runs += await self._call(self._journal.bulk_of_sink, due.sink)
        kept: list[Due] = []
        for part in _slices(runs):
            await self._committer.write([Reclaim(run) for run in part])
            kept += await self._unreleased(part)
        left, sinks = {*kept, *remote}, {run.sink for run in kept}
        done = [due for due in dues if due not in left and not (due.partition == WHOLE_SINK and due.sink in sinks)]
        if done:
            await self._committer.write([Reclaimed(due) for due in done])
            self._done(done)
        self._remote += (due for due in remote if due.sink not in sinks)

    async def _unreleased(self, runs: Sequence[Due]) -> list[Due]:
        """Release space; returns the runs that stay due. One damaged file does not keep all others due."""
        parts, kept = [runs], list[Due]()
        while parts:
            part = parts.pop()
            if len(kept) == FAILURES_MAX:
                kept += [run for left in (part, *parts) for run in left]
                break
            if await self._compacted(part, quietly=bool(kept)):
                continue
            if len(part) == 1:
                kept += part
            else:
                middle = len(part) // 2
                parts += [part[middle:], part[:middle]]
        return kept

    async def _reclaim_small(self, runs: Sequence[Due]) -> None:
        deletes, ends = [Reclaim(run) for run in runs], [Reclaimed(run) for run in runs]
        self._loose_bytes += sum(run.size for run in runs)
        if self._loose_bytes >= LOOSE_BYTES:
            self._loose_bytes = 0
            await self._committer.write(deletes)
            if not await self._compacted(runs):
                return
            await self._committer.write(ends)
        else:
            await self._committer.write([*deletes, *ends])
        self._done(runs)

    def _done(self, dues: Sequence[Due]) -> None:
        size = sum(due.size for due in dues)
        self.reclaimed_bytes += size
        _log.debug("pages were reclaimed runs=%d bytes=%d", len(dues), size)

    async def _compacted(self, runs: Sequence[Due], *, quietly: bool = False) -> bool:
        """Release space; after a failure the ledger keeps the entries for the next start.

        Logged unless ``quietly``.
        """
        try:
            await self._call(self._journal.compact, runs)
        except StoreFenced as failure:
            place = (runs[0].sink, runs[0].partition, sum(run.size for run in runs))
            if not quietly:
                _log.error("space of pages was not released sink=%d partition=%d bytes=%d cause=%s", *place, failure)
            return False
        return True

    async def _call(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: function(*args, **kwargs))


def _slices(dues: Sequence[Due]) -> list[Sequence[Due]]:
    """Return parts for one batch each; a deleted sink is one of its own, because its pages are looked up."""
    sinks = [due for due in dues if due.partition == WHOLE_SINK]
    runs = [due for due in dues if due.partition != WHOLE_SINK]
    return [*(runs[at : at + DELETES_MAX] for at in range(0, len(runs), DELETES_MAX)), *([due] for due in sinks)]
