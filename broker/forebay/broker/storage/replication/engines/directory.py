"""Engine in a directory, one file per record: a second disk, or a file system of several machines.

A record is written under a temporary name, synced, and linked to its own name, which fails if that exists. The file
system must have atomic hard links, as local ones and NFS have; `probe` tests it.

The directory is held open. Every call is relative to it, and fails while its path leads to another directory: after an
unmount the path leads to the bare mount point, which no other broker reads.
"""

from __future__ import annotations

import errno
import mmap
import os
import secrets
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from forebay.broker.storage.backup.directory_target import DirectoryTarget
from forebay.broker.storage.backup.target import Target
from forebay.broker.storage.permissions import DIRECTORY_MODE
from forebay.broker.storage.replication.engine import NAME_DIGITS, PROBE_RACES, EngineAway, EngineFull, name_of
from forebay.broker.storage.replication.pieces import Piece
from forebay.broker.storage.replication.record import HEADER_BYTES
from forebay.broker.storage.store.bulk.writer import FileWriter, new_buffer

TEMPORARY: Final = ".new-"
RACES: Final = "races"
FILES: Final = "files"
ABANDONED_S: Final = 3_600.0
"""Age from which a temporary file has no writer."""
DIRECT_BYTES: Final = 1 << 20
"""Size of a record from which on it is written with direct I/O.

The page cache would take twice the processor time, and only a follower on the same machine reads such a record soon.
"""
_HERE: Final = "."
_MODE: Final = 0o666
"""The directory may be shared with other accounts: the umask decides."""
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY


class DirectoryEngine:
    """``Engine`` in a directory."""

    def __init__(self, directory: Path, *, creates: bool = True) -> None:
        """Create the directory if it does not exist, unless ``creates`` is False: then it must hold a journal.

        Raises ``OSError`` where it cannot be created, and ``FileNotFoundError`` where it holds none.
        """
        if not creates and not any((directory / name).exists() for name in (RACES, name_of(0))):
            raise FileNotFoundError(errno.ENOENT, "There is no journal, it may not be mounted", str(directory))
        (directory / RACES).mkdir(DIRECTORY_MODE, parents=creates, exist_ok=True)
        self._directory: Final = directory
        self.address: Final = f"file://{directory.absolute()}"
        self.durability: Final = "synced to the file system of the directory"
        self.races: Final = PROBE_RACES
        self._handle: Final = os.open(directory, _DIRECTORY)
        self._buffers: Final[deque[mmap.mmap]] = deque()
        """Buffers that no record uses now, at most one for each that was created at the same time as others."""
        weakref.finalize(self, os.close, self._handle).atexit = False
        opened = os.fstat(self._handle)
        self._opened: Final = (opened.st_dev, opened.st_ino)
        for path in directory.glob(f"{TEMPORARY}*"):
            with suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime > ABANDONED_S:
                    path.unlink()

    def create(self, position: int, pieces: Sequence[Piece]) -> bool:
        """See ``Engine.create``."""
        with self._answering():
            return self._create(name_of(position), _HERE, pieces)

    def _create(self, name: str, folder: str, pieces: Sequence[Piece]) -> bool:
        created = self._link(name, pieces)
        # Also the name of another writer, or of a call before whose sync failed: a caller may confirm what it finds.
        self._sync(folder)
        return created

    def _link(self, name: str, pieces: Sequence[Piece]) -> bool:
        temporary = self._draft(pieces)
        try:
            os.link(temporary, name, src_dir_fd=self._handle, dst_dir_fd=self._handle)
        except FileExistsError:
            return False
        finally:
            self._remove(temporary)
        return True

    def _draft(self, pieces: Sequence[Piece]) -> str:
        temporary = f"{TEMPORARY}{secrets.token_hex(8)}"
        try:
            if sum(map(len, pieces)) >= DIRECT_BYTES:
                self._write_directly(temporary, pieces)
            else:
                self._write(temporary, pieces)
        except BaseException:
            self._remove(temporary)
            raise
        return temporary

    def _write(self, name: str, pieces: Sequence[Piece]) -> None:
        with self._open(name, "xb") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())

    def _write_directly(self, name: str, pieces: Sequence[Piece]) -> None:
        try:
            buffer = self._buffers.pop()
        except IndexError:
            buffer = new_buffer()
        try:
            with FileWriter(name, buffer, mode=_MODE, folder=self._handle) as writing:
                for piece in pieces:
                    writing.add(piece)
                writing.finish()
        finally:
            self._buffers.append(buffer)

    def read(self, position: int) -> bytes | None:
        """See ``Engine.read``."""
        return self._read(name_of(position))

    def peek(self, position: int) -> bytes | None:
        """See ``Engine.peek``."""
        return self._read(name_of(position), HEADER_BYTES)

    def _read(self, name: str, size: int = -1) -> bytes | None:
        with self._answering():
            try:
                with self._open(name, "rb") as file:
                    return file.read(size)
            except FileNotFoundError:
                self._check()  # the directory may have been deleted: then no record is missing
                return None

    def sizes(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """See ``Engine.sizes``."""
        found: list[tuple[int, int]] = []
        with self._answering(), self._opened_folder(_HERE) as handle, os.scandir(handle) as entries:
            for entry in entries:
                if len(entry.name) == NAME_DIGITS and first <= int(entry.name) < end:
                    with suppress(FileNotFoundError):
                        found.append((int(entry.name), entry.stat().st_size))
            self._check()
        yield from sorted(found)

    def replace(self, position: int, pieces: Sequence[Piece]) -> None:
        """See ``Engine.replace``."""
        with self._answering():
            temporary = self._draft(pieces)
            os.replace(temporary, name_of(position), src_dir_fd=self._handle, dst_dir_fd=self._handle)
            self._sync(_HERE)

    def delete(self, positions: Sequence[int]) -> None:
        """See ``Engine.delete``."""
        with self._answering():
            for position in positions:
                self._remove(name_of(position))
            self._sync(_HERE)

    def reclaim(self, stop: threading.Event) -> None:
        """Do nothing: a deletion releases the space; see ``Engine.reclaim``."""

    def index(self) -> None:
        """Do nothing: names are listed; see ``Engine.index``."""

    def create_named(self, name: str, content: bytes) -> bool:
        """See ``Engine.create_named``."""
        folder = name.rpartition("/")[0]
        with self._answering():
            with suppress(FileExistsError):
                os.mkdir(folder, DIRECTORY_MODE, dir_fd=self._handle)
            self._sync(_HERE)
            return self._create(name, folder, (content,))

    def read_named(self, name: str) -> bytes | None:
        """See ``Engine.read_named``."""
        return self._read(name)

    def put_named(self, name: str, content: bytes) -> None:
        """See ``Engine.put_named``."""
        with self._answering():
            with suppress(FileExistsError):
                os.mkdir(name.rpartition("/")[0], DIRECTORY_MODE, dir_fd=self._handle)
            os.replace(self._draft((content,)), name, src_dir_fd=self._handle, dst_dir_fd=self._handle)

    def delete_named(self, name: str) -> None:
        """See ``Engine.delete_named``."""
        with self._answering():
            self._remove(name)

    def names(self, folder: str) -> list[str]:
        """See ``Engine.names``."""
        with self._answering():
            try:
                with self._opened_folder(folder) as handle:
                    return sorted(f"{folder}/{name}" for name in os.listdir(handle))
            except FileNotFoundError:
                return []

    def files(self) -> Target:
        """See ``Engine.files``. Raises ``EngineAway``."""
        with self._answering():
            return DirectoryTarget(self._directory / FILES, self._check, role="journal")

    def free_bytes(self) -> int | None:
        """See ``Engine.free_bytes``."""
        with self._answering():
            found = os.fstatvfs(self._handle)
            return found.f_bavail * found.f_frsize if found.f_blocks else None  # some file systems do not count

    def race(self, name: str) -> bool:
        """See ``Engine.race``."""
        with self._answering():
            won = self._link(f"{RACES}/{name}", ())
            if won:
                self._sync(RACES)
            return won

    def end_races(self, names: Sequence[str]) -> None:
        """See ``Engine.end_races``."""
        with self._answering():
            for name in names:
                self._remove(f"{RACES}/{name}")

    # -- the directory

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """Raise ``EngineAway`` for errors of the file system, and for another directory at the path."""
        try:
            self._check()
            yield
        except OSError as error:
            kind = EngineFull if error.errno in {errno.ENOSPC, errno.EDQUOT} else EngineAway
            raise kind(str(error)) from error

    def _check(self) -> None:
        """Raise ``OSError`` unless the path leads to the directory that was opened."""
        try:
            found = self._directory.stat()
        except FileNotFoundError as error:
            raise OSError(errno.ESTALE, "The directory is gone, it may be unmounted", str(self._directory)) from error
        if (found.st_dev, found.st_ino) != self._opened:
            raise OSError(errno.ESTALE, "Another directory is in its place, it may be unmounted", str(self._directory))

    def _open(self, name: str, mode: str) -> IO[bytes]:
        return open(name, mode, opener=lambda path, flags: os.open(path, flags, _MODE, dir_fd=self._handle))

    @contextmanager
    def _opened_folder(self, folder: str) -> Iterator[int]:
        handle = os.open(folder, _DIRECTORY, dir_fd=self._handle)
        try:
            yield handle
        finally:
            os.close(handle)

    def _sync(self, folder: str) -> None:
        """Make the names in a folder durable."""
        with self._opened_folder(folder) as handle:
            os.fsync(handle)

    def _remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._handle)
