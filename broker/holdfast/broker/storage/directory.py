"""The directory of a store: its layout, its format number and its one owner.

    FORMAT        the number of the layout, written and synced before anything else
    owner.json    who has the store open; locked for as long as it is
    db/           RocksDB
    bulk/         files of pages, see ``bulk_file``
    ballast       room that a start on a full device gives up first; see ``ballast``
    synced        how far the log was synced; see ``synced``

The lock is the operating system's and ends with the process, however that ends: a file left behind by
a dead owner says nothing. What the file says is for people and for the error, never for a decision.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
from datetime import UTC, datetime
from errno import ENOTDIR
from typing import TYPE_CHECKING, Final

from holdfast.broker.storage.ballast import NAME as BALLAST
from holdfast.broker.storage.ballast import Ballast
from holdfast.broker.storage.errors import StoreCorrupt, StoreFormatUnsupported, StoreLocked

if TYPE_CHECKING:
    from pathlib import Path

FORMAT: Final = 2
"""The layout this version writes and reads. Changed only with a way to read the one before."""

_BLOCK_BYTES: Final = 512
"""The unit of ``st_blocks``, whatever the file system's blocks are."""


class StoreDirectory:
    """A directory held by this process until ``release``."""

    def __init__(self, path: Path) -> None:
        """Create what is missing and take the lock; ``OSError`` if the directory does not allow it.

        Raises ``StoreLocked``, ``StoreFormatUnsupported`` or ``StoreCorrupt``, and then changes nothing.
        """
        self.path: Final = path
        self.database: Final = path / "db"
        self.bulk: Final = path / "bulk"
        self.synced: Final = path / "synced"
        make_directory(path)
        self._lock: int | None = _lock(path / "owner.json", directory=path)
        try:
            Ballast(path).release_where_full()
            _sign(self._lock)
            self._check_format()
            self._check_database()
            make_directory(self.database)
            make_directory(self.bulk)
        except BaseException:
            self.release()
            raise

    def live_bytes(self) -> int:
        """Return the bytes allocated to files, each counted once however many names it has."""
        seen: dict[tuple[int, int], int] = {}
        for folder, _, names in os.walk(self.path):
            for name in names:
                if name == BALLAST:
                    continue  # it is no data
                try:
                    found = os.lstat(os.path.join(folder, name))
                except FileNotFoundError:
                    continue  # RocksDB removes files at any time
                seen[found.st_dev, found.st_ino] = found.st_blocks * _BLOCK_BYTES
        return sum(seen.values())

    def free_bytes(self) -> int:
        """Return the bytes that the file system has left."""
        return shutil.disk_usage(self.path).free

    def release(self) -> None:
        """Let another process have the directory. Releasing twice does nothing."""
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)

    def _check_format(self) -> None:
        path = self.path / "FORMAT"
        try:
            text = path.read_text(encoding="ascii", errors="replace").strip()
        except FileNotFoundError:
            if self.database.exists():
                raise StoreFormatUnsupported(self.path, found=None, supported=FORMAT) from None
            _write_durably(path, f"{FORMAT}\n".encode("ascii"))
            return
        found = int(text) if text.isdecimal() else None
        if found != FORMAT:
            raise StoreFormatUnsupported(self.path, found=found, supported=FORMAT)

    def _check_database(self) -> None:
        """Refuse what RocksDB would take for a new database: it would begin by deleting the tables."""
        held = {path.suffix for path in self.database.glob("*")}
        if held & {".sst", ".log"} and not (self.database / "CURRENT").exists():
            reason = f"{self.database} holds tables or logs, and its file CURRENT is missing"
            raise StoreCorrupt(None, reason, directory=self.path)


def make_directory(path: Path) -> None:
    """Create ``path`` and what is above it, so that a power loss does not take their names away."""
    if path.is_dir():
        return
    if path.exists():
        raise NotADirectoryError(ENOTDIR, "It is there and is no directory", str(path))
    make_directory(path.parent)
    path.mkdir(exist_ok=True)
    sync_path(path.parent)


def sync_path(path: Path) -> None:
    """Make a file's bytes, or a directory's names, durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write_durably(path: Path, content: bytes) -> None:
    """Write a file that is there as a whole or not at all."""
    draft = path.with_name(f"{path.name}.new")
    draft.write_bytes(content)
    sync_path(draft)
    draft.replace(path)
    sync_path(path.parent)


def _lock(path: Path, *, directory: Path) -> int:
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pid = _owner_pid(os.pread(handle, 4096, 0))
        os.close(handle)
        raise StoreLocked(directory, pid) from None
    except BaseException:
        os.close(handle)
        raise
    return handle


def _sign(handle: int) -> None:
    owner = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    os.ftruncate(handle, 0)
    os.pwrite(handle, json.dumps(owner).encode() + b"\n", 0)


def read_owner(handle: int) -> int | None:
    """The process that has a directory open, as its file says."""
    return _owner_pid(os.pread(handle, 4096, 0))


def _owner_pid(content: bytes) -> int | None:
    try:
        pid = json.loads(content)["pid"]
    except (ValueError, KeyError, TypeError):
        return None  # the owner is only just writing it
    return pid if isinstance(pid, int) else None
