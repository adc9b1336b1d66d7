import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CreateBackupRequest(_message.Message):
    __slots__ = ("full",)
    FULL_FIELD_NUMBER: _ClassVar[int]
    full: bool
    def __init__(self, full: bool = ...) -> None: ...

class CreateBackupResponse(_message.Message):
    __slots__ = ("progress", "backup")
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    BACKUP_FIELD_NUMBER: _ClassVar[int]
    progress: BackupProgress
    backup: Backup
    def __init__(self, progress: _Optional[_Union[BackupProgress, _Mapping]] = ..., backup: _Optional[_Union[Backup, _Mapping]] = ...) -> None: ...

class BackupProgress(_message.Message):
    __slots__ = ("id", "parent", "files", "files_done", "bytes", "bytes_done", "reused_bytes")
    ID_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    FILES_DONE_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    BYTES_DONE_FIELD_NUMBER: _ClassVar[int]
    REUSED_BYTES_FIELD_NUMBER: _ClassVar[int]
    id: str
    parent: str
    files: int
    files_done: int
    bytes: int
    bytes_done: int
    reused_bytes: int
    def __init__(self, id: _Optional[str] = ..., parent: _Optional[str] = ..., files: _Optional[int] = ..., files_done: _Optional[int] = ..., bytes: _Optional[int] = ..., bytes_done: _Optional[int] = ..., reused_bytes: _Optional[int] = ...) -> None: ...

class Backup(_message.Message):
    __slots__ = ("id", "parent", "taken_at", "bytes", "transferred_bytes", "files", "sinks", "duration", "stall")
    ID_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    TAKEN_AT_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    TRANSFERRED_BYTES_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    SINKS_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    STALL_FIELD_NUMBER: _ClassVar[int]
    id: str
    parent: str
    taken_at: _timestamp_pb2.Timestamp
    bytes: int
    transferred_bytes: int
    files: int
    sinks: int
    duration: _duration_pb2.Duration
    stall: _duration_pb2.Duration
    def __init__(self, id: _Optional[str] = ..., parent: _Optional[str] = ..., taken_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., bytes: _Optional[int] = ..., transferred_bytes: _Optional[int] = ..., files: _Optional[int] = ..., sinks: _Optional[int] = ..., duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., stall: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class GetBackupStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetBackupStatusResponse(_message.Message):
    __slots__ = ("target", "interval", "newest", "progress", "failures", "last_failure")
    TARGET_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_FIELD_NUMBER: _ClassVar[int]
    NEWEST_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    LAST_FAILURE_FIELD_NUMBER: _ClassVar[int]
    target: str
    interval: _duration_pb2.Duration
    newest: Backup
    progress: BackupProgress
    failures: int
    last_failure: str
    def __init__(self, target: _Optional[str] = ..., interval: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., newest: _Optional[_Union[Backup, _Mapping]] = ..., progress: _Optional[_Union[BackupProgress, _Mapping]] = ..., failures: _Optional[int] = ..., last_failure: _Optional[str] = ...) -> None: ...
