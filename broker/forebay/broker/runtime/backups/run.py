"""Thread of backups or checkpoints, and the steps of a job in it.

held      pages that are due for reclaim stay, from before the snapshot until their files are copied
prepare   what the store has in memory is written out, while appends continue
take      the snapshot, in the commit thread between two groups: appends wait for it
copy      bulk files, then the rest, while appends continue
finish    the accounts and the manifest
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final, TypeVar

from forebay.broker.core.backups.values import BackupSummary
from forebay.broker.runtime.backups.engine import Job
from forebay.broker.runtime.commit.committer import Committer
from forebay.broker.runtime.commit.reclaimer import Reclaimer

_T = TypeVar("_T")


class Traffic:
    """Commits beside a job. Asked by the thread that transfers."""

    def __init__(self, committer: Committer) -> None:
        self._committer = committer
        self._groups = committer.groups

    def is_busy(self) -> bool:
        """Return whether a group was committed since the last call, or appends wait for one."""
        before, self._groups = self._groups, self._committer.groups
        return self._groups != before or self._committer.waiting_bytes > 0


class JobThread:
    """Runs jobs, one at a time. Used on the loop."""

    def __init__(
        self, committer: Committer, reclaimer: Reclaimer, monotonic: Callable[[], float], *, name: str
    ) -> None:
        self._committer: Final = committer
        self._reclaimer: Final = reclaimer
        self._monotonic: Final = monotonic
        self._thread: Final = ThreadPoolExecutor(1, thread_name_prefix=name)

    async def call(self, function: Callable[[], _T]) -> _T:
        """Call a function in the thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, function)

    async def run(self, job: Job, on_progress: Callable[[], None] = lambda: None) -> BackupSummary:
        """Run a job to its end; ``on_progress`` is called by the thread. Raises ``BackupFailed``."""
        began = self._monotonic()
        try:
            await self.call(job.prepare)
            async with self._reclaimer.held():
                taking = self._monotonic()
                await self._committer.call(job.take)
                stall_s = self._monotonic() - taking
                await self.call(lambda: job.copy_bulk(on_progress))
            await self.call(lambda: job.copy_rest(on_progress))
            summary = await self.call(lambda: job.finish(lambda: self._monotonic() - began))
            return replace(summary, stall_s=stall_s)
        finally:
            await self.call(job.remove)

    def shutdown(self) -> None:
        """End the thread after the call in progress."""
        self._thread.shutdown(wait=False)
