"""Copy of a damaged file: unreadable parts are zeros in it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from forebay.broker.storage.failures import is_lost_sector
from forebay.broker.storage.file_errors import naming
from forebay.broker.storage.permissions import FILE_MODE

_CHUNK_BYTES: Final = 1 << 20
_BLOCK_BYTES: Final = 4_096
_HOLE_BYTES: Final = 64 << 10
"""Parts of zeros of this size are not written, so that the copy takes no space for them."""
_ZEROS: Final = bytes(_HOLE_BYTES)


def copy_readable(source: Path, copy: Path) -> int:
    """Copy a file durably, except for its name; returns the number of unreadable bytes.

    Raises ``OSError`` for anything but unreadable sectors.
    """
    reading = os.open(source, os.O_RDONLY)
    try:
        writing = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE)
        try:
            size = os.fstat(reading).st_size
            with naming(copy):
                os.ftruncate(writing, size)
            lost = _copy(reading, writing, size, source, copy)
            with naming(copy):
                os.fsync(writing)
        finally:
            os.close(writing)
    finally:
        os.close(reading)
    return lost


def _copy(reading: int, writing: int, size: int, source: Path, copy: Path) -> int:
    """Copy chunk by chunk, and block by block where a chunk cannot be read.

    The system returns what is before a bad sector, and an error for a read that begins in one.
    """
    at = lost = 0
    by_block_to = 0
    while at < size:
        wanted = min(_BLOCK_BYTES - at % _BLOCK_BYTES if at < by_block_to else _CHUNK_BYTES, size - at)
        try:
            with naming(source):
                found = os.pread(reading, wanted, at)
        except OSError as error:
            if not is_lost_sector(error):
                raise
            if wanted > _BLOCK_BYTES:
                by_block_to = at + wanted
                continue
            lost += wanted
            at += wanted
            continue
        if not found:
            break  # it was truncated meanwhile
        with naming(copy):
            _write(writing, found, at)
        at += len(found)
    return lost


def _write(writing: int, found: bytes, at: int) -> None:
    """Write all bytes except for long parts of zeros, which the copy has already."""
    for first in range(0, len(found), _HOLE_BYTES):
        part = memoryview(found)[first : first + _HOLE_BYTES]
        if part == _ZEROS[: len(part)]:
            continue
        done = 0
        while done < len(part):
            done += os.pwrite(writing, part[done:], at + first + done)
