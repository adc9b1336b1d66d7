"""Directory of a store: its layout, its format number and its single owner.

    FORMAT        the number of the layout, written and synced before anything else; see ``formats``
    migrations.json    report of the migrations from older layouts
    owner.json    process that has the store open; locked while it does
    db/           RocksDB
    bulk/         bulk files, see ``bulk_file``
    ballast       reserved space that a start on a full device releases first; see ``ballast``
    synced        position up to which the log was synced; see ``synced``
    accepted      ends of the records that memory accepted; see ``accepted``
    delivered     ends of the records that were delivered; the same form
    snapshot/     a backup that is being transferred; removed by the next start

The locks are advisory locks of the operating system and end with the process: the file of a dead owner has no effect.
Its content is for people and for the error, never for a decision. There are two locks, on the directory and on
``owner.json``, so that a removed file admits no second owner. On a file system that cannot lock a directory (NFS) only
the lock on the file is used.

The directory and all in it belong to the account that runs the broker; see ``permissions``.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import shutil
import socket
from datetime import UTC, datetime
from errno import EBADF, EINVAL, ENOLCK, ENOTDIR, EOPNOTSUPP
from importlib.metadata import version
from pathlib import Path
from typing import Final

from forebay.broker.storage.ballast import NAME as BALLAST
from forebay.broker.storage.ballast import Ballast
from forebay.broker.storage.errors import StoreCorrupt, StoreDirectoryForeign, StoreFormatUnsupported, StoreLocked
from forebay.broker.storage.file_errors import naming
from forebay.broker.storage.formats import FORMATS, INCOMPLETE, Formats, format_in
from forebay.broker.storage.permissions import DIRECTORY_MODE, FILE_MODE, close_to_others

_log: Final = logging.getLogger(__name__)
SNAPSHOT: Final = "snapshot"
"""Folder of a snapshot; see ``backup.snapshot``."""

_OWN: Final = frozenset(
    {"owner.json", "FORMAT.new", BALLAST, "bulk", "synced", "accepted", "delivered", "verified", "lost+found"}
    | {"owner", "migrations.json", "loading", "replaced", "remote", SNAPSHOT}
)
"""Names that a directory without a store may have: left of a store, or of the file system."""

_NOT_LOCKABLE: Final = {EBADF, EINVAL, ENOLCK, EOPNOTSUPP}
"""Error numbers of file systems that lock files only."""

_REPORT: Final = "migrations.json"
_BLOCK_BYTES: Final = 512
"""Unit of ``st_blocks``, on every file system."""


class StoreDirectory:
    """A directory held by this process until ``release``."""

    def __init__(self, path: Path, *, formats: Formats = FORMATS) -> None:
        """Create what is missing and take the lock; ``OSError`` if the directory does not allow it.

        Raises ``StoreDirectoryForeign``, ``StoreLocked``, ``StoreFormatUnsupported`` or ``StoreCorrupt``, and then
        changes nothing.
        """
        self.path: Final = path
        self.database: Final = path / "db"
        self.bulk: Final = path / "bulk"
        self.synced: Final = path / "synced"
        self.format = formats.current
        """Format of the stored values; the older one until a migration is complete."""
        self.is_incomplete = False
        """True while a checkpoint has bulk files that this directory has not."""
        _refuse_foreign(path)
        make_directory(path)
        self._locks: list[int] = []
        try:
            self._locks += lock_directory(path)
            self._locks.append(_lock_file(path / "owner.json", directory=path))
            with naming(path / "owner.json"):
                writer = read_version(self._locks[-1])
            is_new = self._check_format(writer, formats)
            self._check_database()
            close_to_others(path)
            Ballast(path).release_where_full()
            if is_new:
                self.write_format(f"{formats.current}")
            with naming(path / "owner.json"):
                _sign(self._locks[-1])
            shutil.rmtree(path / SNAPSHOT, ignore_errors=True)
            make_directory(self.database)
            make_directory(self.bulk)
            made = self.database.stat()
            self._opened: Final = (made.st_dev, made.st_ino)
        except BaseException:
            self.release()
            raise

    def live_bytes(self) -> int:
        """Return the bytes allocated to files, each counted once however many names it has."""
        seen: dict[tuple[int, int], int] = {}
        for folder, _, names in os.walk(self.path):
            for name in names:
                if name == BALLAST:
                    continue  # it holds no data
                try:
                    found = os.lstat(os.path.join(folder, name))
                except FileNotFoundError:
                    continue  # RocksDB removes files at any time
                seen[found.st_dev, found.st_ino] = found.st_blocks * _BLOCK_BYTES
        return sum(seen.values())

    def free_bytes(self) -> int:
        """Return the bytes that the file system has left."""
        return shutil.disk_usage(self.path).free

    def is_there(self) -> bool:
        """Return whether the path still leads to the directory that was opened."""
        try:
            found = self.database.stat()
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == self._opened

    def release(self) -> None:
        """Release the locks. A second call has no effect."""
        while self._locks:
            os.close(self._locks.pop())

    def write_format(self, text: str) -> None:
        """Write the number of the format, atomically and durably."""
        incomplete = INCOMPLETE if self.is_incomplete else ""
        write_durably(self.path / "FORMAT", f"{text}{incomplete}\n".encode("ascii"))

    def mark_incomplete(self, *, is_incomplete: bool) -> None:
        """Note durably whether a checkpoint has bulk files that this directory has not."""
        self.is_incomplete = is_incomplete
        self.write_format(f"{self.format}")

    def write_report(self, content: bytes) -> None:
        """Write the report of the migrations, atomically and durably."""
        write_durably(self.path / _REPORT, content)

    def read_report(self) -> bytes:
        """Return the report of the migrations so far; empty without one."""
        try:
            return (self.path / _REPORT).read_bytes()
        except FileNotFoundError:
            return b""

    def _check_format(self, writer: str, formats: Formats) -> bool:
        """Reject a format that cannot be migrated; returns True for a new store.

        ``writer`` is the version of the last owner.
        """
        path = self.path / "FORMAT"
        try:
            text = path.read_text(encoding="ascii", errors="replace").strip()
        except FileNotFoundError:
            if self.database.exists():
                raise StoreFormatUnsupported(
                    self.path, found=None, oldest=formats.oldest, supported=formats.current, writer=writer
                ) from None
            return True
        found = format_in(text)
        if found is None or not formats.oldest <= found <= formats.current:
            raise StoreFormatUnsupported(
                self.path, found=found, oldest=formats.oldest, supported=formats.current, writer=writer
            )
        self.format, self.is_incomplete = found, text.endswith(INCOMPLETE)
        return False

    def _check_database(self) -> None:
        """Reject a directory that RocksDB would take for a new database: it would delete the tables first."""
        held = {path.suffix for path in self.database.glob("*")}
        if held & {".sst", ".log"} and not (self.database / "CURRENT").exists():
            reason = f"{self.database} holds tables or logs, and its file CURRENT is missing"
            raise StoreCorrupt(None, reason, directory=self.path)


def _refuse_foreign(path: Path) -> None:
    """Raise ``StoreDirectoryForeign`` for a directory with files and without a store, as by a wrong path."""
    if not path.is_dir() or (path / "FORMAT").exists() or (path / "db").exists():
        return
    for name in sorted(os.listdir(path)):
        if name not in _OWN and not name.startswith("."):
            raise StoreDirectoryForeign(path, name)


def make_directory(path: Path) -> None:
    """Create ``path`` and its parents, durably. Several threads may create the same ones."""
    if path.is_dir():
        return
    make_directory(path.parent)
    try:
        path.mkdir(DIRECTORY_MODE, exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(ENOTDIR, "It exists and is not a directory", str(path)) from None
    sync_path(path.parent)


def sync_path(path: Path) -> None:
    """Make a file's bytes, or a directory's names, durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        with naming(path):
            os.fsync(handle)
    finally:
        os.close(handle)


def write_durably(path: Path, content: bytes) -> None:
    """Write a file atomically and durably."""
    draft = path.with_name(f"{path.name}.new")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE)
    try:
        with naming(draft):
            left = memoryview(content)
            while left:  # a disk that is nearly full takes a part of it
                left = left[os.write(handle, left) :]
            os.fsync(handle)
    finally:
        os.close(handle)
    draft.replace(path)
    sync_path(path.parent)


def lock_directory(path: Path) -> list[int]:
    """Lock a directory itself; empty where the file system cannot do that. Raises ``StoreLocked``."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise StoreLocked(path, _pid_in(path / "owner.json")) from None
    except OSError as error:
        os.close(handle)
        if error.errno not in _NOT_LOCKABLE:
            error.filename = str(path)
            raise
        _log.warning("directory itself cannot be locked here directory=%s cause=%s", path, error)
        return []
    return [handle]


def _lock_file(path: Path, *, directory: Path) -> int:
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, FILE_MODE)
        try:
            with naming(path):
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(handle, path):
                return handle
        except BlockingIOError:
            pid = read_owner(handle)
            os.close(handle)
            raise StoreLocked(directory, pid) from None
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # it was removed before it was locked: another one may exist


def _is_at(handle: int, path: Path) -> bool:
    try:
        found = path.stat()
    except FileNotFoundError:
        return False
    opened = os.fstat(handle)
    return (found.st_dev, found.st_ino) == (opened.st_dev, opened.st_ino)


def _pid_in(path: Path) -> int | None:
    try:
        return _owner_pid(path.read_bytes()[:4096])
    except OSError:
        return None


def _sign(handle: int) -> None:
    owner = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "version": version("forebay"),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    os.ftruncate(handle, 0)
    os.pwrite(handle, json.dumps(owner).encode() + b"\n", 0)


def read_owner(handle: int) -> int | None:
    """Return the process that has a directory open, according to its file."""
    return _owner_pid(os.pread(handle, 4096, 0))


def read_version(handle: int) -> str:
    """Return the version of Forebay that opened a directory last; empty if it is not known."""
    found = _owner(os.pread(handle, 4096, 0)).get("version")
    return found if isinstance(found, str) else ""


def _owner(content: bytes) -> dict[str, object]:
    try:
        found = json.loads(content)
    except ValueError:
        return {}  # the owner is writing it at this moment
    return found if isinstance(found, dict) else {}


def _owner_pid(content: bytes) -> int | None:
    pid = _owner(content).get("pid")
    return pid if isinstance(pid, int) else None
