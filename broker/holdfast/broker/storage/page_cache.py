"""What the system's page cache holds of a file that RocksDB is about to take in.

A file writer drops what it has written from the cache. An ingest reads the first and the last key, each with the whole
block that it stands in, and lets no other thread of the process run meanwhile. So both ends are read back before it,
while other threads run: that takes an ingest of 16 MiB from 6 ms to 2.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_END_BYTES: Final = (1 << 20) + (1 << 16)
"""A page of the usual size, its key, and what stands behind the last block."""


def read_ends(path: Path) -> None:
    """Read both ends of a file. Raises ``OSError``."""
    handle = os.open(path, os.O_RDONLY)
    try:
        last = max(0, os.fstat(handle).st_size - _END_BYTES)
        for start in {0, last}:
            os.pread(handle, _END_BYTES, start)
    finally:
        os.close(handle)
