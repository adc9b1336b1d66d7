"""How far the log was synced, noted outside of it, so that a start notices when its end is missing.

A database takes a damaged log for one that ended where the damage begins: that is how a log looks after a power loss,
and then nothing behind that point was promised to anybody. The number noted here tells the two apart. It is written
after each sync and needs none of its own: after a kill it is exact, and after a power loss it is too low at worst.

    sequence of the last synced write u64, CRC-32 of it u32
"""

from __future__ import annotations

import os
import struct
import zlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_SEQUENCE: Final = struct.Struct(">Q")
_CRC: Final = struct.Struct(">I")


class SyncMark:
    """The file, open until ``close``."""

    def __init__(self, path: Path) -> None:
        """Open the file; one that is new, or not whole, says that nothing was synced. Raises ``OSError``."""
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        content = os.pread(self._handle, _SEQUENCE.size + _CRC.size, 0)
        whole = len(content) == _SEQUENCE.size + _CRC.size
        fixed = content[: _SEQUENCE.size]
        known = whole and _CRC.unpack_from(content, _SEQUENCE.size)[0] == zlib.crc32(fixed)
        self.found: Final[int] = _SEQUENCE.unpack(fixed)[0] if known else 0
        """The sequence that was noted last, before this one was opened."""
        if not known:
            self.note(0)  # takes its room on the disk now, so that a later note needs none

    def note(self, sequence: int) -> None:
        """Remember that everything up to ``sequence`` was synced."""
        fixed = _SEQUENCE.pack(sequence)
        os.pwrite(self._handle, fixed + _CRC.pack(zlib.crc32(fixed)), 0)

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)
