"""Copy of a damaged file: unreadable parts are zeros in it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from forebay.broker.storage.permissions import FILE_MODE

_CHUNK_BYTES: Final = 1 << 20
_BLOCK_BYTES: Final = 4_096


def copy_readable(source: Path, copy: Path) -> int:
    """Copy ``source``; returns the number of unreadable bytes. Raises ``OSError`` if none is readable."""
    lost = 0
    reading = os.open(source, os.O_RDONLY)
    try:
        writing = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE)
        try:
            size = os.fstat(reading).st_size
            os.ftruncate(writing, size)
            for at in range(0, size, _CHUNK_BYTES):
                lost += _copy_part(reading, writing, at, min(_CHUNK_BYTES, size - at), _CHUNK_BYTES)
        finally:
            os.close(writing)
    finally:
        os.close(reading)
    return lost


def _copy_part(reading: int, writing: int, at: int, size: int, step: int) -> int:
    """Copy a part; after a failure, block by block."""
    try:
        found = os.pread(reading, size, at)
    except OSError:
        if step == _BLOCK_BYTES:
            return size
        blocks = range(at, at + size, _BLOCK_BYTES)
        return sum(
            _copy_part(reading, writing, block, min(_BLOCK_BYTES, at + size - block), _BLOCK_BYTES) for block in blocks
        )
    os.pwrite(writing, found, at)
    return 0
