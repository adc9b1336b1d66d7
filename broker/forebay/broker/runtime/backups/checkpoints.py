"""Checkpoints of the journal of a shard by its owner, where no follower makes them."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from forebay.broker.core.backups.values import BackupSummary
from forebay.broker.core.errors import StoreFenced
from forebay.broker.runtime.backups.engine import BackupFailed, Checkpointing, Job
from forebay.broker.runtime.backups.run import JobThread, Traffic
from forebay.broker.runtime.commit.committer import Committer

_log: Final = logging.getLogger(__name__)
CHECK_S: Final = 5.0
"""Interval at which it is looked whether one is due."""
RETRY_S: Final = 60.0
"""Pause after a failure."""


class Checkpoints:
    """Checkpoints of one owner. Used on the loop."""

    def __init__(self, source: Checkpointing, thread: JobThread, committer: Committer) -> None:
        self._source = source
        self._thread = thread
        self._committer = committer
        self._job: Job | None = None
        self._task: asyncio.Task[BackupSummary] | None = None
        self._closed = False
        self.failures = 0
        """Checkpoints that failed since this process owns the journal."""

    @property
    def journal_bytes(self) -> int | None:
        """Bytes of the journal as of the last check, None before the first."""
        return self._source.size_bytes

    @property
    def remote_bytes(self) -> int:
        """Bytes of pages that this broker has still to read from the checkpoint that it started from."""
        return self._source.remote_bytes

    @property
    def journal(self) -> str:
        """Address of the journal, without credentials."""
        return self._source.journal

    @property
    def journal_durability(self) -> str:
        """Meaning of a confirmation of the journal, in words."""
        return self._source.durability

    @property
    def journal_position(self) -> int:
        """Next position of the journal."""
        return self._source.position

    @property
    def journal_resends(self) -> int:
        """Requests to the journal that failed and were or will be repeated, since this process owns it."""
        return self._source.resends

    @property
    def owner_epoch(self) -> int:
        """Epoch of this owner."""
        return self._source.epoch

    async def run(self) -> None:
        """Make checkpoints as they are due, until cancelled."""
        while True:
            await asyncio.sleep(CHECK_S)
            if self._closed:
                continue
            try:
                await self._thread.call(self._source.index)
                if await self._thread.call(self._source.is_due):
                    await self._make()
            except (BackupFailed, StoreFenced) as failure:
                self._note(failure)
                await asyncio.sleep(RETRY_S)

    async def _make(self) -> None:
        if self._closed:
            return
        self._job = self._source.job(Traffic(self._committer).is_busy)
        self._task = asyncio.get_running_loop().create_task(self._thread.run(self._job), name="forebay-checkpoint")
        await asyncio.wait([self._task])
        found = self._task.result()
        _log.info(
            "checkpoint was completed checkpoint=%s bytes=%d transferred=%d seconds=%.1f stall_s=%.3f",
            *(found.id, found.size, found.transferred_bytes, found.seconds, found.stall_s),
        )

    def _note(self, failure: Exception) -> None:
        """Count and log a failure; the end of the broker is none."""
        if not self._closed:
            self.failures += 1
            _log.warning("checkpoint was not completed cause=%s", failure)

    async def close(self) -> None:
        """Stop the checkpoint in progress."""
        self._closed = True
        if self._job is not None and self._task is not None:
            self._job.stop("the broker is stopping")
            await asyncio.wait([self._task])
        self._thread.shutdown()
