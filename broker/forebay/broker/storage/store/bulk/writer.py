"""Writer of a new file from start to end, with direct I/O where the file system allows it.

Direct I/O needs whole blocks in aligned memory, so all pieces pass through an aligned buffer. What is left of the last
block, and everything where the file system has no direct I/O, is written normally.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from contextlib import suppress
from errno import EINVAL
from pathlib import Path
from types import TracebackType
from typing import Final

from forebay.broker.storage.permissions import FILE_MODE

BLOCK_BYTES: Final = 4_096
"""Unit of direct I/O, at least the block size of disks. The size of a file is a multiple of it."""
BUFFER_BYTES: Final = 4 << 20
_DIRECT: Final = getattr(os, "O_DIRECT", 0)
_HUGE_PAGES: Final[int | None] = getattr(mmap, "MADV_HUGEPAGE", None)
"""Advice to use huge pages.

The kernel pins the pages of the buffer for each write: with few large ones that takes a quarter less processor time.
"""


def new_buffer() -> mmap.mmap:
    """Return an aligned buffer, which any number of files may use in turn."""
    made = mmap.mmap(-1, BUFFER_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if _HUGE_PAGES is not None:
        with suppress(OSError):  # of a kernel without them
            made.madvise(_HUGE_PAGES)
    return made


class FileWriter:
    """File that one thread writes. Other threads run during the I/O."""

    def __init__(
        self, path: Path | str, buffer: mmap.mmap, *, mode: int = FILE_MODE, folder: int | None = None
    ) -> None:
        """Create the file, which must not exist, with exclusive use of ``buffer``.

        ``path`` is relative to the open directory ``folder``, where that is given. Raises ``OSError``.
        """
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
        try:
            self.handle = os.open(path, flags | _DIRECT, mode, dir_fd=folder)
        except OSError as error:
            if error.errno != EINVAL:
                raise
            flags &= ~os.O_EXCL  # it was created before the flag was rejected
            self.handle = os.open(path, flags, mode, dir_fd=folder)
        self._buffer = buffer
        self._filled = 0

    def __enter__(self) -> FileWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self.handle)

    def add(self, piece: bytes | memoryview) -> None:
        """Append a piece. Raises ``OSError``."""
        at = 0
        while at < len(piece):
            part = memoryview(piece)[at : at + len(self._buffer) - self._filled]
            self._buffer[self._filled : self._filled + len(part)] = part
            self._filled += len(part)
            at += len(part)
            if self._filled == len(self._buffer):
                self._flush(0, self._filled)
                self._filled = 0

    def finish(self) -> None:
        """Sync the file. Raises ``OSError``."""
        blocks = self._filled - self._filled % BLOCK_BYTES
        self._flush(0, blocks)
        if blocks < self._filled:
            self._end_direct()
            self._flush(blocks, self._filled)
        os.fdatasync(self.handle)

    def _flush(self, first: int, end: int) -> None:
        """Write a part of the buffer."""
        with memoryview(self._buffer) as whole:
            while first < end:
                with whole[first:end] as rest:
                    first += self._write(rest)

    def _write(self, rest: memoryview) -> int:
        try:
            return os.write(self.handle, rest)
        except OSError as error:
            if error.errno != EINVAL or not self._end_direct():
                raise
            return os.write(self.handle, rest)  # some file systems reject direct I/O only at the first write

    def _end_direct(self) -> bool:
        """Write normally from here on; returns False if that is so already."""
        flags = fcntl.fcntl(self.handle, fcntl.F_GETFL)
        if not flags & _DIRECT:
            return False
        fcntl.fcntl(self.handle, fcntl.F_SETFL, flags & ~_DIRECT)
        return True
