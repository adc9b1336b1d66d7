"""Checkpoints of an owner beside its running broker: when they are made, repeated, and stopped."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from forebay.broker.runtime.backups import checkpoints as module
from forebay.broker.runtime.backups.checkpoints import Checkpoints
from forebay.broker.runtime.backups.run import JobThread
from forebay.broker.runtime.broker import Broker
from tests.support.brokers.running import running
from tests.support.brokers.scripted_backups import ScriptedEngine, ScriptedJob

pytestmark = pytest.mark.anyio


class DueEngine:
    """Checkpoints that are due some times, and are written down only."""

    def __init__(self, due: int) -> None:
        self.due = due
        self.checks = self.indexes = 0
        self.steps = ScriptedEngine()
        self.size_bytes: int | None = None
        self.remote_bytes = self.resends = 0
        self.journal, self.position, self.epoch = "file:///journal", 7, 2
        self.durability = "synced"

    def index(self) -> None:
        """See ``Checkpointing.index``."""
        self.indexes += 1

    def is_due(self) -> bool:
        """See ``Checkpointing.is_due``."""
        self.checks += 1
        self.size_bytes = 100 * self.checks
        self.due -= 1
        return self.due >= 0

    def job(self, busy: object) -> ScriptedJob:
        """See ``Checkpointing.job``."""
        return self.steps.job(full=False, at_us=0, busy=lambda: False)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHECK_S", 0.001)
    monkeypatch.setattr(module, "RETRY_S", 0.001)


@asynccontextmanager
async def checkpoints_of(broker: Broker, engine: DueEngine) -> AsyncIterator[Checkpoints]:
    thread = JobThread(broker.committer, broker.reclaimer, lambda: 0.0, name="forebay-checkpoint")
    made = Checkpoints(engine, thread, broker.committer)
    work = asyncio.ensure_future(made.run())
    try:
        yield made
    finally:
        await made.close()
        work.cancel()
        with suppress(asyncio.CancelledError):
            await work


async def until_checked(engine: DueEngine, checks: int) -> None:
    async with asyncio.timeout(30.0):
        while engine.checks < checks:
            await asyncio.sleep(0.001)


async def test_a_checkpoint_is_made_each_time_that_one_is_due() -> None:
    async with running() as broker:
        engine = DueEngine(2)
        async with checkpoints_of(broker, engine) as checkpoints:
            await until_checked(engine, 4)

            assert engine.steps.steps.count("finish") == 2
            assert engine.steps.steps.count("remove") == 2
            assert checkpoints.failures == 0
            assert (checkpoints.journal_bytes or 0) >= 400


async def test_an_index_is_written_before_each_look_for_a_checkpoint_that_is_due() -> None:
    async with running() as broker:
        engine = DueEngine(0)
        async with checkpoints_of(broker, engine):
            await until_checked(engine, 3)

            assert engine.indexes >= engine.checks


async def test_a_failed_checkpoint_is_counted_and_made_again() -> None:
    async with running() as broker:
        engine = DueEngine(2)
        engine.steps.fails["finish"] = "the bucket is full"
        async with checkpoints_of(broker, engine) as checkpoints:
            await until_checked(engine, 4)

            assert checkpoints.failures == 2
            assert engine.steps.steps.count("remove") == 2


async def test_a_stop_ends_the_checkpoint_in_progress() -> None:
    async with running() as broker:
        engine = DueEngine(1)
        engine.steps.may_copy.clear()
        async with checkpoints_of(broker, engine):
            await asyncio.to_thread(engine.steps.copying.wait, 30.0)

        assert "finish" not in engine.steps.steps
        assert engine.steps.steps[-1] == "remove"
