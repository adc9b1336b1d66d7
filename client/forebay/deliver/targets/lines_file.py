r"""File of JSON lines that contains each record once and complete.

A line is an envelope of `forebay.deliver.targets.encoding`; it begins with the record's key, and from these keys
the file itself says what it holds. The rules:

- A batch is written, then synced, and only then may it be acked. So a line that is torn, having no line
  end, was never acked.
- Before a file is used, what another process (or this one, before it was killed) left at its end is read:
  a torn line is cut off, whole lines count as written once they have been synced. What is written already
  is not written again.
- A failed write is cut off again; a failed sync too, since a later sync would succeed without having
  written anything. What cannot be cut off, because it was found there, is written again before the next sync.
- A file that is opened does not tell whether its last sync failed. Every `SYNC_BYTES` are synced, so only so many
  at its end may be missing on the disk; they are written again before the first sync.
- Nothing else is ever cut off: a file that does not begin with a line of ours is refused, a strange line
  further on is reported and left.

The file is locked (flock) while it is written, so that several processes and several deliveries of one can take
turns, and may be renamed away at any time (log rotation): a new one is begun.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from forebay.deliver.targets.offset_set import OffsetSet

_log = logging.getLogger("forebay.deliver")

_KEY: Final = re.compile(rb'\{"key":"([^"]+)-\d+-(\d+)",')
_SLICE_BYTES: Final = 1 << 20
SYNC_BYTES: Final = 4 << 20
"""Most bytes that one sync covers, and that are written again when a file is opened."""
WAIT_S: Final = 5.0
"""Time limit of waiting for another writer, below the ack deadline of a sink."""
POLL_S: Final = 0.01
"""Interval between two tries of the lock, since a wait for it has no time limit."""


class ForeignFile(OSError):
    """The file has other contents. Move it away, or choose another path."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} does not begin with a line of this target: move it away, or choose another path")


class FileInUse(OSError):
    """Another process or delivery has been writing the file for `WAIT_S`. Retry later."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is being written by another process, or by another delivery of this one")


class LinesFile:
    """File of one partition. Not thread-safe, except ``close``."""

    def __init__(
        self,
        path: Path,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._path = path
        self._clock, self._sleep = clock, sleep
        self._descriptor: int | None = None
        self._busy = threading.Lock()
        """Held by an append: a descriptor that is closed under it could be that of another file by then."""
        self._is_closed = False
        # Up to here the file is complete and synced, and `_written` has its records.
        self._length = 0
        self._written: dict[str, OffsetSet] = {}
        self._is_unsynced = False
        """A sync has failed, and what is beyond `_length` has not been written since."""
        self._is_new = True
        """No sync of the open file has succeeded; the last one of another process may have failed."""

    def append(self, incarnation: str, lines: Sequence[tuple[int, bytes]]) -> int:
        """Append the missing ones of the lines, given by offset, and sync; return the number of written lines.

        Raises `OSError`, including `ForeignFile` and `FileInUse`; then none of the lines counts as written.
        """
        try:
            with self._busy:
                return self._append(incarnation, lines)
        finally:
            if self._is_closed:
                self._close_unless_busy()

    def _append(self, incarnation: str, lines: Sequence[tuple[int, bytes]]) -> int:
        with self._locked() as descriptor:
            self._catch_up(descriptor)
            written = self._written.setdefault(incarnation, OffsetSet())
            new = [(offset, line) for offset, line in lines if offset not in written]
            if new:
                self._write(descriptor, b"".join(line + b"\n" for _, line in new))
                for offset, _ in new:
                    written.add(offset)
            return len(new)

    def close(self) -> None:
        """Close the file; an append that is in progress closes it at its end. From any thread."""
        self._is_closed = True
        self._close_unless_busy()

    def _close_unless_busy(self) -> None:
        if self._busy.acquire(blocking=False):
            try:
                self._close()
            finally:
                self._busy.release()

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """Open the file if the path has another one, and hold its lock."""
        until = self._clock() + WAIT_S
        while True:
            if self._descriptor is None:
                self._descriptor = _open(self._path)
                self._length, self._is_unsynced, self._is_new = 0, False, True
            descriptor = self._descriptor
            self._lock(descriptor, until)
            try:
                if _same_file(descriptor, self._path):
                    yield descriptor
                    return
            finally:
                fcntl.flock(descriptor, fcntl.LOCK_UN)
            self._close()  # it was renamed: its records stay known

    def _lock(self, descriptor: int, until: float) -> None:
        """Lock the file, waiting for another writer. Raises `FileInUse` then, or when the target is closed."""
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                if self._is_closed or self._clock() >= until:
                    raise FileInUse(self._path) from error
                self._sleep(POLL_S)
            else:
                return

    def _catch_up(self, descriptor: int) -> None:
        """Read the file after the known part, and cut off a torn line."""
        size = os.fstat(descriptor).st_size
        if size == self._length:
            self._is_unsynced = False  # it was cut off
            return
        if size < self._length:
            _log.warning(
                "file was truncated by another process path=%s length=%d known=%d", self._path, size, self._length
            )
            self._length = 0
            self._written.clear()
        whole, found = self._scan(descriptor)
        if whole < size:
            _log.warning("torn line cut off path=%s position=%d bytes=%d", self._path, whole, size - whole)
            os.ftruncate(descriptor, whole)
        if self._is_unsynced:
            _write_again(descriptor, self._length, whole)
        elif self._is_new:
            _write_again(descriptor, max(self._length, whole - SYNC_BYTES), whole)
        self._sync(descriptor)
        for incarnation, offsets in found.items():
            self._written.setdefault(incarnation, OffsetSet()).update(offsets)
        self._length = whole

    def _scan(self, descriptor: int) -> tuple[int, dict[str, OffsetSet]]:
        """Return the end of the last complete line, and the keys of all lines from `_length` on."""
        found: dict[str, OffsetSet] = {}
        position, rest = self._length, b""
        strange = 0
        while data := os.pread(descriptor, _SLICE_BYTES, position + len(rest)):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                if (key := _KEY.match(line)) is not None:
                    found.setdefault(key[1].decode(), OffsetSet()).add(int(key[2]))
                elif position == 0:
                    raise ForeignFile(self._path)
                else:
                    strange += 1
                position += len(line) + 1
        if position == 0 and rest and not _could_begin(rest):
            raise ForeignFile(self._path)
        if strange:
            _log.error("foreign lines left in place path=%s lines=%d", self._path, strange)
        return position, found

    def _write(self, descriptor: int, data: bytes) -> None:
        try:
            position = self._length
            for first in range(0, len(data), SYNC_BYTES):
                view = memoryview(data)[first : first + SYNC_BYTES]
                while view:
                    count = os.pwrite(descriptor, view, position)
                    position += count
                    view = view[count:]
                self._sync(descriptor)
        except OSError:
            os.ftruncate(descriptor, self._length)
            self._is_unsynced = False
            raise
        self._length = position

    def _sync(self, descriptor: int) -> None:
        self._is_unsynced = True
        os.fsync(descriptor)
        self._is_unsynced = self._is_new = False


def _open(path: Path) -> int:
    """Open or create a file and make its name durable."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    with ExitStack() as undo:
        undo.callback(os.close, descriptor)
        folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        undo.pop_all()
    return descriptor


def _write_again(descriptor: int, first: int, end: int) -> None:
    """Write bytes in place, so that the next sync writes them: a failed one has marked them as written."""
    while first < end:
        data = os.pread(descriptor, min(_SLICE_BYTES, end - first), first)
        if not data:
            raise OSError(errno.EIO, "the file became shorter while it was read")
        first += os.pwrite(descriptor, data, first)


def _same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _could_begin(torn: bytes) -> bool:
    """Return True if a torn first line may be one of this target; a power loss leaves zeros."""
    beginning = b'{"key":"'
    return torn.startswith(beginning) or beginning.startswith(torn) or not torn.strip(b"\0")
