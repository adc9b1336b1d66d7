"""Sequence of the last synced write, outside of the log: a start thereby detects a lost end of it.

RocksDB reads a damaged log up to the damage, because a log looks like that after a power loss, when no record after
that point was confirmed. The sequence in this file distinguishes the two cases. It is written after each sync, without
a sync of its own: after a kill it is exact, and after a power loss it is at worst too low. The marks of the broker are
stored beside it.

    sequence of the last synced write u64, two marks u64, CRC-32 of them u32
"""

from __future__ import annotations

import os
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from forebay.broker.storage.file_errors import naming
from forebay.broker.storage.permissions import FILE_MODE
from forebay.broker.storage.store.contract import Marks

_NOTE: Final = struct.Struct(">QQQ")
_CRC: Final = struct.Struct(">I")


@dataclass(frozen=True, slots=True)
class Note:
    """Content of the file."""

    sequence: int = 0
    marks: Marks = (0, 0)

    def encode(self) -> bytes:
        """Return the content of the file."""
        fixed = _NOTE.pack(self.sequence, *self.marks)
        return fixed + _CRC.pack(zlib.crc32(fixed))


class SyncMark:
    """File of the last synced sequence, open until ``close``."""

    def __init__(self, path: Path) -> None:
        """Open the file; a new or incomplete one means that nothing was synced. Raises ``OSError``."""
        self._path: Final = path
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT, FILE_MODE)
        with naming(path):
            found = decode_note(os.pread(self._handle, _NOTE.size + _CRC.size, 0))
        self.found: Final = found or Note()
        """Content at the start."""
        if found is None:
            self.note(0, (0, 0))  # allocates the block now, so that a later write needs no space

    def note(self, sequence: int, marks: Marks) -> None:
        """Store that all writes up to ``sequence`` are synced."""
        with naming(self._path):
            os.pwrite(self._handle, Note(sequence, marks).encode(), 0)

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)


def decode_note(content: bytes) -> Note | None:
    """Return the content of a file; None if it is damaged."""
    if len(content) != _NOTE.size + _CRC.size:
        return None
    fixed = content[: _NOTE.size]
    if _CRC.unpack_from(content, _NOTE.size)[0] != zlib.crc32(fixed):
        return None
    sequence, first, second = _NOTE.unpack(fixed)
    return Note(sequence, (first, second))
