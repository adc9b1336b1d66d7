"""Sequence of the last synced write, noted outside of the log, to detect a missing end at a start.

A database takes a damaged log for one that ended where the damage begins: a log looks like that after a power loss, and
then no record behind that point was confirmed. The number noted here tells the two apart. It is written after each sync
and needs none of its own: after a kill it is exact, and after a power loss it is too low at worst. The broker's own
marks are stored beside it: its counts by then.

    sequence of the last synced write u64, two marks u64, CRC-32 of them u32
"""

from __future__ import annotations

import os
import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from forebay.broker.storage.file_errors import naming
from forebay.broker.storage.permissions import FILE_MODE

if TYPE_CHECKING:
    from pathlib import Path

    from forebay.broker.storage.store.contract import Marks

_NOTE: Final = struct.Struct(">QQQ")
_CRC: Final = struct.Struct(">I")


@dataclass(frozen=True, slots=True)
class Note:
    """Last note."""

    sequence: int = 0
    marks: Marks = (0, 0)

    def encode(self) -> bytes:
        """Return the content of the file."""
        fixed = _NOTE.pack(self.sequence, *self.marks)
        return fixed + _CRC.pack(zlib.crc32(fixed))


class SyncMark:
    """The file, open until ``close``."""

    def __init__(self, path: Path) -> None:
        """Open the file; one that is new, or not whole, says that nothing was synced. Raises ``OSError``."""
        self._path: Final = path
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT, FILE_MODE)
        with naming(path):
            found = decode_note(os.pread(self._handle, _NOTE.size + _CRC.size, 0))
        self.found: Final = found or Note()
        """Note found when this one was opened."""
        if found is None:
            self.note(0, (0, 0))  # takes its room on the disk now, so that a later note needs none

    def note(self, sequence: int, marks: Marks) -> None:
        """Remember that everything up to ``sequence`` was synced."""
        with naming(self._path):
            os.pwrite(self._handle, Note(sequence, marks).encode(), 0)

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)


def decode_note(content: bytes) -> Note | None:
    """Return the note of a file; None if it is damaged."""
    if len(content) != _NOTE.size + _CRC.size:
        return None
    fixed = content[: _NOTE.size]
    if _CRC.unpack_from(content, _NOTE.size)[0] != zlib.crc32(fixed):
        return None
    sequence, first, second = _NOTE.unpack(fixed)
    return Note(sequence, (first, second))
