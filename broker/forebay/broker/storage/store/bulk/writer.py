"""Writer of a new file from start to end, with direct I/O where the file system allows it.

Direct I/O needs whole blocks in aligned memory, so all pieces pass through an aligned buffer. Other file systems get
the same blocks by normal writes.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from errno import EINVAL
from pathlib import Path
from types import TracebackType
from typing import Final

from forebay.broker.storage.permissions import FILE_MODE

BLOCK_BYTES: Final = 4_096
"""Unit of direct I/O, at least the block size of disks. The size of a file is a multiple of it."""
BUFFER_BYTES: Final = 4 << 20
_DIRECT: Final = getattr(os, "O_DIRECT", 0)


def new_buffer() -> mmap.mmap:
    """Return an aligned buffer, which any number of files may use in turn."""
    return mmap.mmap(-1, BUFFER_BYTES)


class FileWriter:
    """File that one thread writes. Other threads run during the I/O."""

    def __init__(self, path: Path, buffer: mmap.mmap) -> None:
        """Create the file, which must not exist, with exclusive use of ``buffer``. Raises ``OSError``."""
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
        try:
            self._handle = os.open(path, flags | _DIRECT, FILE_MODE)
        except OSError as error:
            if error.errno != EINVAL:
                raise
            self._handle = os.open(path, flags & ~os.O_EXCL, FILE_MODE)  # it was created before the flag was rejected
        self._buffer = buffer
        self._filled = 0

    def __enter__(self) -> FileWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._handle)

    def add(self, piece: bytes | memoryview) -> None:
        """Append a piece. Raises ``OSError``."""
        at = 0
        while at < len(piece):
            part = memoryview(piece)[at : at + len(self._buffer) - self._filled]
            self._buffer[self._filled : self._filled + len(part)] = part
            self._filled += len(part)
            at += len(part)
            if self._filled == len(self._buffer):
                self._flush()

    def finish(self) -> None:
        """Sync the file, whose size must be a multiple of ``BLOCK_BYTES``. Raises ``OSError``."""
        self._flush()
        os.fdatasync(self._handle)

    def _flush(self) -> None:
        with memoryview(self._buffer) as whole:
            at = 0
            while at < self._filled:
                with whole[at : self._filled] as rest:
                    at += self._write(rest)
        self._filled = 0

    def _write(self, rest: memoryview) -> int:
        try:
            return os.write(self._handle, rest)
        except OSError as error:
            flags = fcntl.fcntl(self._handle, fcntl.F_GETFL)
            if error.errno != EINVAL or not flags & _DIRECT:
                raise
            fcntl.fcntl(
                self._handle, fcntl.F_SETFL, flags & ~_DIRECT
            )  # some file systems reject it only at the first write
            return os.write(self._handle, rest)
