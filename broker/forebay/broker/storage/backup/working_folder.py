"""Working folder beside a new directory, which gets its name when it is complete."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from forebay.broker.storage.backup.errors import BackupError
from forebay.broker.storage.directory import make_directory
from forebay.broker.storage.permissions import DIRECTORY_MODE


@contextmanager
def working_folder(into: Path, *, purpose: str, suffix: str) -> Iterator[Path]:
    """Yield a new folder beside a directory, of this process alone; what a killed one left is deleted.

    ``purpose`` is a noun for messages, ``suffix`` a part of the name. Raises ``BackupError`` where another process
    has it.
    """
    make_directory(into.absolute().parent)
    work = into.absolute().parent / f".{into.name}.{suffix}"
    work.mkdir(DIRECTORY_MODE, exist_ok=True)
    handle = os.open(work, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_ours = work.exists() and os.path.samestat(os.fstat(handle), work.stat())
        except BlockingIOError:
            is_ours = False
        if not is_ours:
            raise BackupError(f"another {purpose} into {into} is running: wait for it, or name another directory")
        try:
            for left in work.iterdir():
                shutil.rmtree(left)
            yield work
        finally:
            shutil.rmtree(work, ignore_errors=True)
    finally:
        os.close(handle)
