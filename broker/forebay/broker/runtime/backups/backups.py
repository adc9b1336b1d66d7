"""Backups of a running broker: one at a time, by request or by schedule.

Their steps are those of ``run``. A backup gives way to appends: it pauses between its pieces while groups are
committed, and is stopped when the device has no room left for them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from forebay.broker.core.backups.values import BackupSummary, Progress
from forebay.broker.core.errors import BrokerError
from forebay.broker.runtime.backups.engine import BackupFailed, Engine, Job
from forebay.broker.runtime.backups.run import JobThread, Traffic
from forebay.broker.runtime.clock import Clock
from forebay.broker.runtime.commit.committer import Committer
from forebay.broker.runtime.commit.pulse import Pulse
from forebay.broker.runtime.commit.reclaimer import Reclaimer
from forebay.errors.reasons import Reason

_log: Final = logging.getLogger(__name__)
SECOND_US: Final = 1_000_000
PROGRESS_S: Final = 0.2
"""Interval at which readers of the progress are notified."""
RETRY_S: Final = 60.0
"""Delay of a scheduled backup after a failed one, at most its interval."""
OVERDUE_INTERVALS: Final = 2
"""Intervals without a complete backup after which a warning is given."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Times of automatic backups."""

    interval_s: float = 0.0
    """Time between two backups; 0 for none."""


@dataclass(slots=True)
class _Running:
    """The backup in progress."""

    job: Job
    task: asyncio.Task[BackupSummary]


class Backups:
    """Backups of one broker. Used on the loop."""

    def __init__(
        self,
        engine: Engine | None,
        clock: Clock,
        committer: Committer,
        reclaimer: Reclaimer,
        *,
        schedule: Schedule,
        disk_reserve_bytes: int,
    ) -> None:
        """Without an ``engine`` there is no target, and every request is rejected."""
        self._engine = engine
        self._clock = clock
        self._committer = committer
        self._schedule = schedule
        self._disk_reserve_bytes = disk_reserve_bytes
        self._thread = JobThread(committer, reclaimer, clock.monotonic, name="forebay-backup")
        self._running: _Running | None = None
        self._progressed = Pulse()
        self._closed = False
        self.newest: BackupSummary | None = None
        """Newest complete backup, as far as it is known."""
        self.failures = 0
        """Backups that failed since the process started."""
        self.last_failure = ""
        """Cause of the last failure, empty after a success."""
        self._started_at_us = clock.wall_us()

    @property
    def target(self) -> str:
        """Target of backups; empty if there is none."""
        return self._engine.target if self._engine is not None else ""

    @property
    def progress(self) -> Progress | None:
        """Progress of the backup in progress."""
        return self._running.job.progress if self._running is not None else None

    @property
    def interval_s(self) -> float:
        """Time between two scheduled backups; 0 for none."""
        return self._schedule.interval_s if self._engine is not None else 0.0

    def age_s(self) -> float | None:
        """Return the age of the newest complete backup, or None if none is known."""
        if self.newest is None:
            return None
        return max(0.0, (self._clock.wall_us() - self.newest.taken_at_us) / SECOND_US)

    def behind_s(self) -> float:
        """Return the age of the newest complete backup, or the time since the start if there is none."""
        age = self.age_s()
        return (self._clock.wall_us() - self._started_at_us) / SECOND_US if age is None else age

    def overdue_s(self) -> float:
        """Return the time since the newest backup became too old; 0 if it is not, or without a schedule."""
        return max(0.0, self.behind_s() - self.interval_s * OVERDUE_INTERVALS) if self.interval_s else 0.0

    def warnings(self) -> list[str]:
        """Return a sentence if the newest backup is too old."""
        if not self.overdue_s():
            return []
        age = self.age_s()
        state = "there is no complete backup" if age is None else f"the newest backup is {age:.0f} s old"
        cause = f"; the last one failed: {self.last_failure}" if self.last_failure else ""
        return [f"{state}, with an interval of {self.interval_s:.0f} s, in {self.target}{cause}"]

    async def create(self, *, full: bool) -> AsyncGenerator[Progress | BackupSummary, None]:
        """Make a backup; yields its progress, at last its summary. It is stopped when the iterator is closed.

        Raises ``NO_BACKUP_TARGET``, ``BACKUP_RUNNING`` or ``BACKUP_FAILED``.
        """
        running = self._begin(full=full)
        try:
            while not running.task.done():
                progressed = self._progressed.next()
                yield replace(running.job.progress)
                waiting = asyncio.ensure_future(progressed.wait())
                await asyncio.wait([running.task, waiting], return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
            try:
                yield running.task.result()
            except BackupFailed as failure:
                raise BrokerError(Reason.BACKUP_FAILED, str(failure)) from failure
        finally:
            if not running.task.done():
                running.job.stop("its caller is gone")

    def _begin(self, *, full: bool) -> _Running:
        if self._engine is None or self._closed:
            raise BrokerError(Reason.NO_BACKUP_TARGET)
        if self._running is not None:
            raise BrokerError(Reason.BACKUP_RUNNING, backup=self._running.job.progress.backup)
        job = self._engine.job(full=full, at_us=self._clock.wall_us(), busy=Traffic(self._committer).is_busy)
        task = asyncio.get_running_loop().create_task(self._run(job), name="forebay-backup-run")
        task.add_done_callback(self._ended)
        self._running = _Running(job, task)
        return self._running

    def _ended(self, task: asyncio.Task[BackupSummary]) -> None:
        self._running = None
        self._progressed.fire()
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is None:
            self.newest, self.last_failure = task.result(), ""
            found = task.result()
            _log.info(
                "backup was completed backup=%s bytes=%d transferred=%d seconds=%.1f stall_s=%.3f",
                *(found.id, found.size, found.transferred_bytes, found.seconds, found.stall_s),
            )
        else:
            self.failures += 1
            self.last_failure = str(error) or type(error).__name__
            known = isinstance(error, BackupFailed)
            _log.error("backup failed cause=%s", self.last_failure, exc_info=None if known else error)

    async def _run(self, job: Job) -> BackupSummary:
        loop = asyncio.get_running_loop()
        notified_at = self._clock.monotonic()

        def progressed() -> None:
            nonlocal notified_at
            now = self._clock.monotonic()
            if now - notified_at >= PROGRESS_S:
                notified_at = now
                loop.call_soon_threadsafe(self._report_progress, job)

        return await self._thread.run(job, progressed)

    def _report_progress(self, job: Job) -> None:
        """Notify the readers of the progress, and stop the backup where appends need its room."""
        free = self._committer.free_bytes
        if self._disk_reserve_bytes and free < self._disk_reserve_bytes:
            job.stop(f"the device has {free} bytes left, and appends need them")
        self._progressed.fire()

    # -- schedule

    async def run(self) -> None:
        """Make backups at their times, until cancelled."""
        assert self._engine is not None
        engine = self._engine
        try:
            self.newest = await self._thread.call(engine.newest)
        except BackupFailed as failure:
            self.last_failure = str(failure)
            _log.error("backups could not be listed target=%s cause=%s", self.target, failure)
        while True:
            if not self.interval_s:
                await asyncio.Event().wait()
            await asyncio.sleep(self._due_in_s())
            if self._running is not None:  # one by request, which serves as well
                await asyncio.wait([self._running.task])
                continue
            task = self._begin(full=False).task
            await asyncio.wait([task])
            if not task.cancelled() and task.exception() is None:
                await self._prune(engine)

    def _due_in_s(self) -> float:
        if self.last_failure:
            return min(RETRY_S, self.interval_s)
        age = self.age_s()
        return 0.0 if age is None else max(0.0, self.interval_s - age)

    async def _prune(self, engine: Engine) -> None:
        now_us = self._clock.wall_us()
        try:
            count = await self._thread.call(lambda: engine.prune(now_us))
        except BackupFailed as failure:
            _log.error("old backups were not deleted target=%s cause=%s", self.target, failure)
        else:
            if count:
                _log.info("old backups were deleted target=%s backups=%d", self.target, count)

    async def close(self) -> None:
        """Stop the backup in progress."""
        self._closed = True
        if self._running is not None:
            running = self._running
            running.job.stop("the broker is stopping")
            with suppress(Exception):
                await asyncio.wait([running.task])
        self._thread.shutdown()
