"""Supervision of a broker's background work: started, watched, restarted on failure, and counted.

No background task ends silently. Work that has to run for as long as the broker does is either *kept* (one coroutine
that never returns) or *repeated* (a job per period). A failure or an early return is logged and counted by the name of
the work, and the work is restarted after a pause; a failed job does not delay the others. Work whose failure the broker
cannot survive (the committer) fences the store instead.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, TypeVar

_log: Final = logging.getLogger(__name__)
RESTART_DELAYS_S: Final = (0.1, 1.0, 5.0, 30.0)
"""Pauses before restarts of failed kept work; the last one repeats."""
STEADY_S: Final = 60.0
"""Run time after which kept work restarts with the first pause again."""
LOGGED_AGAIN: Final = 100
"""Interval, in failures, at which a repeated reason is logged again."""
CLOSE_S: Final = 10.0
"""Time that a stop waits for a running job."""

Work = Callable[[], Awaitable[object]]
T = TypeVar("T")
Forever = Callable[[], Coroutine[Any, Any, None]]


@dataclass(slots=True)
class Failures:
    """Failures of one kind of work."""

    count: int = 0
    reason: str = ""
    """Reason of the last one."""


class EndedEarly(Exception):
    """Background work that returned although the broker runs."""


async def outcome(work: Work) -> Exception | None:
    """Run ``work`` to its end and return its exception, or None. Cancelled with its caller."""
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


def detached(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Start work that may outlive its caller; its error is then not logged as unread."""
    task = asyncio.ensure_future(work)
    task.add_done_callback(_retrieve)
    return task


def _retrieve(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()


async def _awaited(work: Work) -> None:
    await work()


class Supervisor:
    """Owner of a broker's background tasks. Used on the loop."""

    def __init__(self, ended: asyncio.Event) -> None:
        """``ended`` is set when the broker drains or is fenced: no work restarts or repeats from then on."""
        self.failures: dict[str, Failures] = {}
        """Failures by the name of the work."""
        self._ended = ended
        self.kept: set[SupervisedWork] = set()
        """Work that is restarted whenever it ends."""
        self._repeated: set[asyncio.Task[None]] = set()

    def keep_running(self, name: str, work: Forever) -> SupervisedWork:
        """Run ``work``, which never returns, until the returned object is stopped, or until ``close``."""
        return SupervisedWork(name, work, self.kept, self.note)

    def repeat(self, name: str, period_s: Callable[[], float], job: Work) -> None:
        """Run ``job`` once per period until the broker ends."""
        task = asyncio.get_running_loop().create_task(self._repeat(name, period_s, job), name=f"forebay-{name}")
        self._repeated.add(task)
        task.add_done_callback(self._repeated.discard)

    async def attempt(self, name: str, job: Work) -> bool:
        """Run ``job`` once; a failure is counted and logged under ``name``, and returns False."""
        error = await outcome(job)
        if error is not None:
            self.note(name, error)
        return error is None

    async def close(self) -> None:
        """End all work; running jobs may finish within a time limit."""
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
        """Count and log a failure; returns False, without effect, if the broker ends anyway."""
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


class SupervisedWork:
    """Work that is restarted whenever it ends, until ``stop``."""

    def __init__(
        self, name: str, work: Forever, kept: set[SupervisedWork], on_failure: Callable[[str, BaseException], bool]
    ) -> None:
        """``kept`` holds it until it stops; ``on_failure`` returns False if it is not to be restarted."""
        self._kept = kept
        self._on_failure = on_failure
        self._name = name
        self._work = work
        self._failed = 0
        self._began = 0.0
        self._stopped = False
        self._timer: asyncio.TimerHandle | None = None
        kept.add(self)
        self._task = self._begin()

    async def stop(self) -> None:
        """End the work. A second stop has no effect."""
        self._stopped = True
        self._kept.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def _begin(self) -> asyncio.Task[None]:
        loop = asyncio.get_running_loop()
        self._began = loop.time()
        task = loop.create_task(self._work(), name=f"forebay-{self._name}")
        task.add_done_callback(self._ended)
        return task

    def _again(self) -> None:
        self._task = self._begin()

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = EndedEarly("it was cancelled") if task.cancelled() else task.exception() or EndedEarly("it returned")
        if self._stopped or not self._on_failure(self._name, error):
            return
        loop = asyncio.get_running_loop()
        if loop.time() - self._began >= STEADY_S:
            self._failed = 0
        delay_s = RESTART_DELAYS_S[min(self._failed, len(RESTART_DELAYS_S) - 1)]
        self._failed += 1
        self._timer = loop.call_later(delay_s, self._again)
