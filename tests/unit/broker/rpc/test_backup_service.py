"""Backups on the wire: every field of a progress, a summary and a status."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from forebay.broker.core.errors import BrokerError
from forebay.broker.rpc.backup_service import BackupServicer
from forebay.errors.reasons import Reason
from forebay.v1 import backup_service_pb2 as pb
from tests.support.brokers.running import running
from tests.support.brokers.scripted_backups import ScriptedEngine, backups_of

pytestmark = pytest.mark.anyio
CONTEXT: Any = SimpleNamespace(peer=lambda: "ipv4:127.0.0.1:1")


async def test_a_backup_is_a_stream_of_its_progress_with_the_summary_as_the_last_message() -> None:
    async with running() as broker:
        broker.backups = backups_of(broker, ScriptedEngine())
        call = BackupServicer(broker).CreateBackup(pb.CreateBackupRequest(full=False), CONTEXT)

        answers = []
        async for answer in call:
            assert len(broker.streams) == 1
            answers.append(answer)

        assert len(broker.streams) == 0
        assert [answer.WhichOneof("event") for answer in answers[-2:]] == ["progress", "backup"]
        progress, backup = answers[0].progress, answers[-1].backup
        assert (progress.id, progress.parent, progress.files, progress.bytes) == ("b1", "parent", 2, 100)
        assert (backup.id, backup.bytes, backup.transferred_bytes, backup.files, backup.sinks) == ("b1", 100, 40, 2, 1)
        assert backup.duration.ToMilliseconds() == 1_500
        assert backup.taken_at.ToMicroseconds() == broker.clock.wall_us()
        await broker.backups.close()


async def test_a_status_has_the_target_the_interval_and_what_became_of_the_last_backup() -> None:
    engine = ScriptedEngine(fails={"finish": "the target is full"})
    async with running() as broker:
        broker.backups = backups_of(broker, engine, interval_s=3_600)
        servicer = BackupServicer(broker)
        request = pb.CreateBackupRequest(full=True)
        with pytest.raises(BrokerError):
            [answer async for answer in servicer.CreateBackup(request, CONTEXT)]
        failed = await servicer.GetBackupStatus(pb.GetBackupStatusRequest(), CONTEXT)
        engine.fails.clear()
        [answer async for answer in servicer.CreateBackup(request, CONTEXT)]
        made = await servicer.GetBackupStatus(pb.GetBackupStatusRequest(), CONTEXT)

        assert (failed.target, failed.interval.ToSeconds()) == ("memory://backups", 3_600)
        assert (failed.failures, failed.last_failure, failed.HasField("newest")) == (1, "the target is full", False)
        assert (made.failures, made.last_failure, made.newest.id) == (1, "", "b2")
        assert not made.HasField("progress")
        await broker.backups.close()


async def test_a_refused_backup_is_no_open_stream() -> None:
    async with running() as broker:
        with pytest.raises(BrokerError) as refused:
            [answer async for answer in BackupServicer(broker).CreateBackup(pb.CreateBackupRequest(), CONTEXT)]

        assert refused.value.reason is Reason.NO_BACKUP_TARGET
        assert len(broker.streams) == 0
        status = await BackupServicer(broker).GetBackupStatus(pb.GetBackupStatusRequest(), CONTEXT)
        assert (status.target, status.HasField("newest")) == ("", False)
