"""Backups that a running broker makes."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from forebay.client.transport.channel import Channels
from forebay.client.transport.operations import Blocking, operation, stream
from forebay.client.transport.service import Service
from forebay.client.values.backups import Backup, BackupProgress, BackupStatus
from forebay.client.values.convert import value
from forebay.v1 import backup_service_pb2 as pb
from forebay.v1.backup_service_pb2_grpc import BackupServiceStub


class BackupCalls:
    """Backups of the brokers of a client."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels
        self._service = Service(channels, BackupServiceStub)

    @stream
    async def create(
        self, *, full: bool = False, endpoint: str | None = None
    ) -> AsyncGenerator[BackupProgress | Backup, None]:
        """Make a backup of one broker, and yield its progress; the last value is the complete backup.

        Ending the iteration before stops the backup, which stays incomplete. Raises ``FailedPrecondition`` with the
        reason ``NO_BACKUP_TARGET``, ``BACKUP_RUNNING`` or ``BACKUP_FAILED``.
        """
        request = pb.CreateBackupRequest(full=full)
        endpoint = endpoint or (await self._channels.brokers())[0]
        async with aclosing(self._service.responses("CreateBackup", "", request, endpoint=endpoint)) as events:
            async for event in events:
                if event.HasField("backup"):
                    yield value(Backup, event.backup)
                else:
                    yield value(BackupProgress, event.progress)

    @operation
    async def status(self, *, endpoint: str | None = None) -> BackupStatus:
        """Return target, newest backup and progress of one broker."""
        request = pb.GetBackupStatusRequest()
        endpoint = endpoint or (await self._channels.brokers())[0]
        response = await self._service.call("GetBackupStatus", "", request, endpoint=endpoint)
        return value(BackupStatus, response)


class Backups(BackupCalls, Blocking):
    """Backups of the brokers of a client. Thread-safe."""
