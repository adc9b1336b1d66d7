"""BackupService: backups of this broker."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, Final

from forebay.broker.core.backups.values import BackupSummary, Progress
from forebay.broker.rpc.convert import duration, timestamp
from forebay.broker.rpc.streams import open_stream
from forebay.broker.runtime.broker import Broker
from forebay.broker.runtime.resources.streams import StreamKind
from forebay.v1 import backup_service_pb2 as pb
from forebay.v1 import backup_service_pb2_grpc as pb_grpc

SECOND_US: Final = 1_000_000


class BackupServicer(pb_grpc.BackupServiceServicer):
    """Backups over gRPC."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def CreateBackup(
        self, request: pb.CreateBackupRequest, context: Any
    ) -> AsyncIterator[pb.CreateBackupResponse]:
        with open_stream(self._broker, StreamKind.BACKUP, context):
            async with aclosing(self._broker.backups.create(full=request.full)) as events:
                async for event in events:
                    if isinstance(event, Progress):
                        yield pb.CreateBackupResponse(progress=_progress(event))
                    else:
                        yield pb.CreateBackupResponse(backup=_backup(event))

    async def GetBackupStatus(self, request: pb.GetBackupStatusRequest, context: Any) -> pb.GetBackupStatusResponse:
        backups = self._broker.backups
        return pb.GetBackupStatusResponse(
            target=backups.target,
            interval=duration(round(backups.interval_s * SECOND_US)),
            newest=_backup(backups.newest) if backups.newest is not None else None,
            progress=_progress(backups.progress) if backups.progress is not None else None,
            failures=backups.failures,
            last_failure=backups.last_failure,
        )


def _progress(progress: Progress) -> pb.BackupProgress:
    return pb.BackupProgress(
        id=progress.backup,
        parent=progress.parent,
        files=progress.files,
        files_done=progress.files_done,
        bytes=progress.bytes,
        bytes_done=progress.bytes_done,
        reused_bytes=progress.reused_bytes,
    )


def _backup(backup: BackupSummary) -> pb.Backup:
    return pb.Backup(
        id=backup.id,
        parent=backup.parent,
        taken_at=timestamp(backup.taken_at_us),
        bytes=backup.size,
        transferred_bytes=backup.transferred_bytes,
        files=backup.files,
        sinks=backup.sinks,
        duration=duration(round(backup.seconds * SECOND_US)),
        stall=duration(round(backup.stall_s * SECOND_US)),
    )
