"""Backups beside a running broker: their order, their end, their schedule."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress

import pytest

from forebay.broker.core.backups.values import BackupSummary, Progress
from forebay.broker.core.errors import BrokerError
from forebay.broker.runtime.backups.backups import Backups
from forebay.broker.runtime.broker import Broker
from forebay.broker.runtime.clock import FakeClock
from forebay.errors.reasons import Reason
from tests.support.brokers.one_sink import fill
from tests.support.brokers.running import running
from tests.support.brokers.scripted_backups import ScriptedEngine, backups_of, summary

pytestmark = pytest.mark.anyio
HOUR_S = 3_600.0


async def made(backups: Backups, *, full: bool = False) -> BackupSummary:
    *_, last = [event async for event in backups.create(full=full)]
    assert isinstance(last, BackupSummary)
    return last


async def refused(backups: Backups) -> BrokerError:
    with pytest.raises(BrokerError) as caught:
        await made(backups)
    return caught.value


@asynccontextmanager
async def scheduled(broker: Broker, backups: Backups) -> AsyncIterator[None]:
    """Run the schedule, beside a test."""
    running = asyncio.ensure_future(backups.run())
    try:
        yield
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        await backups.close()


async def test_the_snapshot_is_taken_between_two_groups_and_removed_at_the_end() -> None:
    engine = ScriptedEngine()
    async with running() as broker:
        backups = backups_of(broker, engine)

        first = await made(backups)

        assert engine.steps == ["prepare", "take", "copy bulk", "copy rest", "finish", "remove"]
        assert engine.threads["take"].startswith("forebay-commit")
        assert all(engine.threads[step].startswith("forebay-backup") for step in ("prepare", "copy bulk", "finish"))
        assert backups.newest is not None
        assert (backups.newest.id, backups.progress, backups.failures) == (first.id, None, 0)
        await backups.close()


async def test_appends_continue_while_files_are_copied_and_pages_stay_until_then() -> None:
    engine = ScriptedEngine()
    engine.may_copy.clear()
    async with running() as broker:
        buffer, _ = await broker.create("orders", broker.sink_defaults)
        backups = backups_of(broker, engine)
        async with aclosing(backups.create(full=True)) as events:
            begun = await anext(events)
            assert isinstance(begun, Progress)
            assert (begun.backup, begun.parent) == ("b1", "")
            await asyncio.get_running_loop().run_in_executor(None, engine.copying.wait)

            await fill(buffer, 3)

            assert broker.reclaimer._bulk_lock.locked()
            engine.may_copy.set()
            assert isinstance([event async for event in events][-1], BackupSummary)
        assert not broker.reclaimer._bulk_lock.locked()
        await backups.close()


async def test_there_is_one_backup_at_a_time() -> None:
    engine = ScriptedEngine()
    engine.may_copy.clear()
    async with running() as broker:
        backups = backups_of(broker, engine)
        async with aclosing(backups.create(full=False)) as events:
            await anext(events)

            error = await refused(backups)

            assert (error.reason, error.facts) == (Reason.BACKUP_RUNNING, {"backup": "b1"})
            engine.may_copy.set()
            assert [event async for event in events]
        assert (await made(backups)).id == "b2"
        await backups.close()


async def test_without_a_target_or_after_the_end_every_request_is_refused() -> None:
    async with running() as broker:
        ended = backups_of(broker, ScriptedEngine())
        await ended.close()
        without = backups_of(broker, None, interval_s=HOUR_S)

        assert (await refused(without)).reason is Reason.NO_BACKUP_TARGET
        assert (await refused(ended)).reason is Reason.NO_BACKUP_TARGET
        assert (without.target, without.interval_s, without.overdue_s(), without.warnings()) == ("", 0.0, 0.0, [])
        await without.close()


@pytest.mark.parametrize("step", ["prepare", "take", "copy bulk", "copy rest", "finish"])
async def test_a_failed_step_is_counted_and_named_and_the_snapshot_removed(step: str) -> None:
    engine = ScriptedEngine(fails={step: "the target is full"})
    async with running() as broker:
        backups = backups_of(broker, engine)

        error = await refused(backups)

        assert error.reason is Reason.BACKUP_FAILED
        assert "the target is full" in str(error)
        assert engine.steps[-1] == "remove"
        assert (backups.failures, backups.last_failure, backups.newest) == (1, "the target is full", None)
        engine.fails.clear()
        await made(backups)
        assert (backups.failures, backups.last_failure) == (1, "")
        await backups.close()


async def test_a_backup_ends_with_its_caller() -> None:
    engine = ScriptedEngine()
    engine.may_copy.clear()
    async with running() as broker:
        backups = backups_of(broker, engine)
        async with aclosing(backups.create(full=False)) as events:
            await anext(events)
            await asyncio.get_running_loop().run_in_executor(None, engine.copying.wait)
        while backups.progress is not None:
            await asyncio.sleep(0)

        assert backups.last_failure == "its caller is gone"
        await backups.close()


async def test_a_backup_gives_way_where_the_device_has_no_room_for_appends() -> None:
    clock = FakeClock()
    engine = ScriptedEngine()
    engine.may_copy.clear()
    async with running(clock=clock) as broker:
        backups = backups_of(broker, engine, disk_reserve_bytes=broker.committer.free_bytes + 1)
        waiting = asyncio.ensure_future(refused(backups))
        await asyncio.get_running_loop().run_in_executor(None, engine.copying.wait)
        assert backups._running is not None
        backups._report_progress(backups._running.job)

        error = await waiting

        assert "appends need them" in str(error)
        await backups.close()


async def test_the_schedule_waits_for_the_interval_since_the_newest_backup_and_then_prunes() -> None:
    clock = FakeClock()
    engine = ScriptedEngine(found=summary("old", clock.wall_us() - 2 * 3_600_000_000))
    async with running(clock=clock) as broker:
        backups = backups_of(broker, engine, interval_s=HOUR_S)
        async with scheduled(broker, backups):
            while "prune" not in engine.steps:
                await asyncio.sleep(0)

        assert engine.steps[0] == "newest"
        assert backups.newest is not None
        assert (backups.newest.id, engine.made) == ("b1", 1)
        assert backups._due_in_s() == HOUR_S


async def test_a_late_backup_is_a_warning_with_the_cause() -> None:
    clock = FakeClock()
    engine = ScriptedEngine(fails={"take": "the target is full"})
    async with running(clock=clock) as broker:
        backups = backups_of(broker, engine, interval_s=HOUR_S)
        assert backups.warnings() == []
        await refused(backups)
        clock.advance(2.5 * HOUR_S)

        assert (backups.age_s(), backups.behind_s(), backups._due_in_s()) == (None, 2.5 * HOUR_S, 60.0)
        assert backups.overdue_s() == 0.5 * HOUR_S
        [warning] = backups.warnings()
        assert warning == (
            "there is no complete backup, with an interval of 3600 s, in memory://backups; "
            "the last one failed: the target is full"
        )
        engine.fails.clear()
        await made(backups)
        assert (backups.age_s(), backups.overdue_s(), backups.warnings()) == (0.0, 0.0, [])
        await backups.close()
