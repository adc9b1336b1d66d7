from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from forebay.broker.runtime.resources import supervision
from forebay.broker.runtime.resources.supervision import LOGGED_AGAIN, EndedEarly, Supervisor, outcome

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin again at once."""
    monkeypatch.setattr(supervision, "RESTART_DELAYS_S", (0.0, 0.001))


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.001)


async def happened(event: asyncio.Event) -> None:
    async with asyncio.timeout(10):
        await event.wait()


class Worker:
    """Work that fails a number of times and runs on then."""

    def __init__(self, *failures: Exception | None) -> None:
        self._failures = list(failures)
        self.begun = 0
        self.runs = asyncio.Event()

    async def __call__(self) -> None:
        self.begun += 1
        if self._failures:
            error = self._failures.pop(0)
            if error is not None:
                raise error
            return
        self.runs.set()
        await asyncio.Event().wait()


async def test_work_that_fails_or_returns_is_begun_again_and_counted_with_its_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    supervisor = Supervisor(asyncio.Event())
    worker = Worker(OSError("statvfs failed"), None, OSError("statvfs failed"))

    supervisor.keep_running("sweeper", worker.__call__)
    await happened(worker.runs)

    assert (worker.begun, supervisor.failures["sweeper"].count) == (4, 3)
    assert supervisor.failures["sweeper"].reason == "OSError: statvfs failed"
    assert len([record for record in caplog.records if "work=sweeper" in record.message]) == 3
    await supervisor.close()
    assert supervisor.kept == set()


async def test_work_that_is_cancelled_is_begun_again_and_work_that_is_stopped_is_not() -> None:
    supervisor = Supervisor(asyncio.Event())
    worker = Worker()
    kept = supervisor.keep_running("trim", worker.__call__)
    await happened(worker.runs)

    [task] = [task for task in asyncio.all_tasks() if task.get_name() == "forebay-trim"]
    task.cancel()
    await until(lambda: worker.begun == 2)
    await kept.stop()
    await kept.stop()
    await asyncio.sleep(0.01)

    assert worker.begun == 2
    assert supervisor.failures["trim"].reason == "EndedEarly: it was cancelled"


async def test_a_job_that_fails_keeps_neither_itself_nor_others_from_the_next_turn(
    caplog: pytest.LogCaptureFixture,
) -> None:
    supervisor = Supervisor(asyncio.Event())
    runs: list[str] = []

    async def failing() -> None:
        runs.append("failing")
        raise ValueError("always")

    async def working() -> None:
        runs.append("working")

    supervisor.repeat("failing", lambda: 0.001, failing)
    supervisor.repeat("working", lambda: 0.001, working)
    await until(lambda: min(runs.count("failing"), runs.count("working")) > 5)

    assert supervisor.failures["failing"].count >= 5
    assert len(caplog.records) <= 1 + len(runs) // LOGGED_AGAIN, "the same reason is not logged each time"
    assert "working" not in supervisor.failures


async def test_a_broker_that_ends_restarts_nothing_and_counts_nothing() -> None:
    ended = asyncio.Event()
    supervisor = Supervisor(ended)
    release = asyncio.Event()
    begun: list[int] = []

    async def work() -> None:
        begun.append(1)
        await release.wait()
        raise ValueError("the store is fenced")

    supervisor.keep_running("reclaimer", work)
    supervisor.repeat("sweep", lambda: 1_000.0, work)
    await until(lambda: bool(begun))
    ended.set()
    release.set()
    await supervisor.close()

    assert (begun, supervisor.failures) == ([1], {})


async def test_a_job_under_way_is_brought_to_its_end_by_a_stop() -> None:
    ended = asyncio.Event()
    supervisor = Supervisor(ended)
    began, release, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def job() -> None:
        began.set()
        await release.wait()
        done.set()

    supervisor.repeat("spill", lambda: 0.0, job)
    await happened(began)
    ended.set()
    closing = asyncio.ensure_future(supervisor.close())
    await asyncio.sleep(0)
    release.set()
    await closing

    assert done.is_set()


async def test_an_outcome_is_the_error_or_nothing() -> None:
    async def cancelled() -> None:
        raise asyncio.CancelledError

    async def failed() -> None:
        raise KeyError("x")

    assert await outcome(lambda: asyncio.sleep(0)) is None
    assert isinstance(await outcome(failed), KeyError)
    assert isinstance(await outcome(cancelled), EndedEarly)
