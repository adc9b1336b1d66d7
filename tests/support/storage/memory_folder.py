"""Folder for stores of tests that prove nothing about a disk: their time would be that of its syncs.

A process that is killed loses nothing that is in the page cache, so only a power loss would tell the difference. What
the store does to a disk is proven by its own tests, in `tmp_path`.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

SHARED: Final = Path("/dev/shm")
FREE_BYTES: Final = 1 << 30
"""Free memory of the file system below which the usual folder is taken."""


def memory_folder() -> Path | None:
    """Return the folder of a file system in memory; None where there is none with room, for the usual folder."""
    if not os.access(SHARED, os.W_OK) or shutil.disk_usage(SHARED).free < FREE_BYTES:
        return None
    return SHARED
