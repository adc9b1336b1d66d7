"""Background work of a broker: started, watched, restarted when it fails, and counted.

No background task ends in silence. Work that has to run for as long as the broker does is either *kept* (one coroutine
that never returns) or *repeated* (a job per period). Where it fails, or returns early, that is logged and counted by
the name of the work, and it begins again after a pause; one job that fails keeps no other from its turn. Work whose
failure the broker cannot survive (the committer) fences the store instead.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

_log: Final = logging.getLogger(__name__)
RESTART_DELAYS_S: Final = (0.1, 1.0, 5.0, 30.0)
"""Pauses before kept work that failed begins again; the last one holds from then on."""
STEADY_S: Final = 60.0
"""Kept work that ran for so long begins at the first pause again."""
LOGGED_AGAIN: Final = 100
"""A failure for the same reason is logged the first time, and then once per so many."""
CLOSE_S: Final = 10.0
"""How long a stop waits for a job that is under way."""

Work = Callable[[], Awaitable[object]]
Forever = Callable[[], Coroutine[Any, Any, None]]


@dataclass(slots=True)
class Failures:
    """Failures of one kind of work."""

    count: int = 0
    reason: str = ""
    """Of the last one."""


class EndedEarly(Exception):
    """Background work returned although the broker runs."""


async def outcome(work: Work) -> Exception | None:
    """Run ``work`` to its end and return what it failed of; None where it did not. Cancelled with its caller."""
    task = asyncio.ensure_future(_awaited(work))
    try:
        await asyncio.wait([task])
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
    if task.cancelled():
        return EndedEarly("it was cancelled")
    error = task.exception()
    if error is not None and not isinstance(error, Exception):
        raise error  # the process is to end
    return error


async def _awaited(work: Work) -> None:
    await work()


class Supervisor:
    """Owner of a broker's background tasks. Used on the loop."""

    def __init__(self, ended: asyncio.Event) -> None:
        """``ended`` is set when the broker drains or is fenced: nothing is restarted or repeated from then on."""
        self.failures: dict[str, Failures] = {}
        """By the name of the work."""
        self._ended = ended
        self.kept: set[Kept] = set()
        """Work that is begun again whenever it ends."""
        self._repeated: set[asyncio.Task[None]] = set()

    def keep(self, name: str, work: Forever) -> Kept:
        """Run ``work``, which never returns, until what is returned is stopped, or ``close`` is called."""
        return Kept(self, name, work)

    def repeat(self, name: str, period_s: Callable[[], float], job: Work) -> None:
        """Run ``job`` once per period until the broker ends."""
        task = asyncio.get_running_loop().create_task(self._repeat(name, period_s, job), name=f"forebay-{name}")
        self._repeated.add(task)
        task.add_done_callback(self._repeated.discard)

    async def attempt(self, name: str, job: Work) -> bool:
        """Run ``job`` once; a failure is counted and logged under ``name``, and answered with False."""
        error = await outcome(job)
        if error is not None:
            self.note(name, error)
        return error is None

    async def close(self) -> None:
        """End all: jobs that are under way are brought to their end, for a while."""
        if self._repeated:
            await asyncio.wait(self._repeated, timeout=CLOSE_S)
        for task in list(self._repeated):
            task.cancel()
        await asyncio.gather(*self._repeated, return_exceptions=True)
        await asyncio.gather(*(kept.stop() for kept in list(self.kept)), return_exceptions=True)

    async def _repeat(self, name: str, period_s: Callable[[], float], job: Work) -> None:
        while not self._ended.is_set():
            try:
                async with asyncio.timeout(period_s()):
                    await self._ended.wait()
            except TimeoutError:
                await self.attempt(name, job)

    def note(self, name: str, error: BaseException) -> bool:
        """Count and log a failure; False, and nothing, where the broker ends anyway."""
        if self._ended.is_set():
            return False
        known = self.failures.setdefault(name, Failures())
        reason = f"{type(error).__name__}: {error}"
        repeated = known.reason == reason
        known.count += 1
        known.reason = reason
        if not repeated or known.count % LOGGED_AGAIN == 0:
            _log.error("background work failed, it is restarted work=%s count=%d", name, known.count, exc_info=error)
        return True


class Kept:
    """Work that is begun again whenever it ends, until ``stop``."""

    def __init__(self, supervisor: Supervisor, name: str, work: Forever) -> None:
        self._supervisor = supervisor
        self._name = name
        self._work = work
        self._failed = 0
        self._began = 0.0
        self._stopped = False
        self._timer: asyncio.TimerHandle | None = None
        supervisor.kept.add(self)
        self._task = self._begin()

    async def stop(self) -> None:
        """End it. Stopping twice does nothing."""
        self._stopped = True
        self._supervisor.kept.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def _begin(self) -> asyncio.Task[None]:
        loop = asyncio.get_running_loop()
        self._began = loop.time()
        task = loop.create_task(self._work(), name=f"forebay-{self._name}")
        task.add_done_callback(self._over)
        return task

    def _again(self) -> None:
        self._task = self._begin()

    def _over(self, task: asyncio.Task[None]) -> None:
        error = EndedEarly("it was cancelled") if task.cancelled() else task.exception() or EndedEarly("it returned")
        if self._stopped or not self._supervisor.note(self._name, error):
            return
        loop = asyncio.get_running_loop()
        if loop.time() - self._began >= STEADY_S:
            self._failed = 0
        delay_s = RESTART_DELAYS_S[min(self._failed, len(RESTART_DELAYS_S) - 1)]
        self._failed += 1
        self._timer = loop.call_later(delay_s, self._again)
