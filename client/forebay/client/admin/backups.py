"""Backups that a running broker makes."""

from __future__ import annotations

from collections.abc import Generator

import grpc

from forebay.client.transport.channel import Channels
from forebay.client.transport.service import Service
from forebay.client.values.backups import Backup, BackupProgress, BackupStatus
from forebay.client.values.convert import value
from forebay.v1 import backup_service_pb2 as pb
from forebay.v1.backup_service_pb2_grpc import BackupServiceStub


class Backups:
    """Backups of the brokers of a client. Thread-safe."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels
        self._service = Service(channels, BackupServiceStub)

    def create(
        self, *, full: bool = False, endpoint: str | None = None
    ) -> Generator[BackupProgress | Backup, None, None]:
        """Make a backup of one broker, and yield its progress; the last value is the complete backup.

        Ending the iteration before stops the backup, which stays incomplete. Raises ``FailedPrecondition`` with the
        reason ``NO_BACKUP_TARGET``, ``BACKUP_RUNNING`` or ``BACKUP_FAILED``.
        """
        stub = self._channels.stub_at(BackupServiceStub, endpoint or self._channels.endpoints[0])
        call = stub.CreateBackup(pb.CreateBackupRequest(full=full))
        try:
            for event in call:
                if event.HasField("backup"):
                    yield value(Backup, event.backup)
                else:
                    yield value(BackupProgress, event.progress)
        except grpc.RpcError as failure:
            raise self._channels.ended(failure) from failure
        finally:
            call.cancel()

    def status(self, *, endpoint: str | None = None) -> BackupStatus:
        """Return target, newest backup and progress of one broker."""
        request = pb.GetBackupStatusRequest()
        response = self._service.call("GetBackupStatus", "", request, endpoint=endpoint or self._channels.endpoints[0])
        return value(BackupStatus, response)
