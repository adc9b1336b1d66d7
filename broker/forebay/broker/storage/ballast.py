"""Ballast of a store: a file without content that reserves space and can be released.

A store that met a full device needs space to be opened again: the log that it reads becomes tables. So while there is
room, a file with allocated blocks is kept, and a start that meets a full device releases it first.
"""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path
from typing import Final

from forebay.broker.storage.file_errors import naming
from forebay.broker.storage.permissions import FILE_MODE

_log: Final = logging.getLogger(__name__)
NAME: Final = "ballast"


class Ballast:
    """Ballast file in the directory of a store. Only the owner of the directory uses it."""

    def __init__(self, directory: Path) -> None:
        """Set the directory. Does no I/O."""
        self.path: Final = directory / NAME

    @property
    def size(self) -> int:
        """Allocated bytes; 0 without a ballast."""
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    def make(self, size: int) -> None:
        """Allocate ``size`` bytes, or none where the system cannot allocate. Raises ``OSError``."""
        if not hasattr(os, "posix_fallocate"):
            return
        file = os.open(self.path, os.O_RDWR | os.O_CREAT, FILE_MODE)
        try:
            with naming(self.path):
                if os.fstat(file).st_size > size:
                    os.ftruncate(file, size)
                os.posix_fallocate(file, 0, size)
        except OSError:
            self.path.unlink()
            raise
        finally:
            os.close(file)

    def release(self) -> None:
        """Release the space."""
        self.path.unlink(missing_ok=True)

    def release_where_full(self) -> None:
        """Release the space if less than the ballast is free."""
        size = self.size
        free = shutil.disk_usage(self.path.parent).free
        if free < size:
            self.release()
            _log.warning("disk is full, the ballast was released directory=%s free=%d", self.path.parent, free)
