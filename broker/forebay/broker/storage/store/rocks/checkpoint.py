"""Checkpoint of an open database: its files as of one instant, without a flush or a sync.

RocksDB's own checkpoint flushes the memory, syncs several files one after the other, and its binding holds up all
threads of the process for that time: more than 150 ms on a busy disk. This one needs no sync, as a checkpoint that is
lost with the power is useless anyway, and takes the log instead of a flush.

Tables are linked, and so are logs that are complete; the current log and the manifest are copied. RocksDB deletes a
table or a log only after its manifest has grown by the entry that says so, and names a new one there only when it is
whole. So if the manifest has not grown since its length was read, everything that its copy names was linked. The caller
keeps writes away during all of it. Background work continues, and the tables that it is writing may be linked too: no
manifest names them, and the store that opens the checkpoint deletes them.
"""

from __future__ import annotations

import os
import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

from forebay.broker.storage.permissions import DIRECTORY_MODE

ATTEMPTS: Final = 20
"""Copies that are begun while the manifest grows each time."""

_LOG: Final = re.compile(r"(\d+)\.log")


def link_checkpoint(database: Path, into: Path) -> bool:
    """Make a checkpoint in a new folder; False if the manifest changed during each attempt.

    The current log must hold all writes. Raises ``OSError``, also where the folder exists.
    """
    for _ in range(ATTEMPTS):
        into.mkdir(DIRECTORY_MODE)
        if _linked(database, into):
            return True
        shutil.rmtree(into)
    return False


def _linked(database: Path, into: Path) -> bool:
    """Link and copy the files once; returns False if the manifest has changed meanwhile."""
    current = (database / "CURRENT").read_bytes()
    manifest = database / current.decode("ascii").strip()
    size = manifest.stat().st_size
    names = os.listdir(database)
    newest = max((number for name in names if (number := _log_number(name)) is not None), default=None)
    for name in names:
        if name.endswith(".sst") or _log_number(name) not in (None, newest):
            with suppress(FileNotFoundError):  # deleted since the manifest was read: it does not name it
                os.link(database / name, into / name)
        elif name.endswith(".log"):
            shutil.copyfile(database / name, into / name)
    with manifest.open("rb") as source:
        (into / manifest.name).write_bytes(source.read(size))
    (into / "CURRENT").write_bytes(current)
    return manifest.stat().st_size == size and (database / "CURRENT").read_bytes() == current


def _log_number(name: str) -> int | None:
    """Return the number of a log; None for another file."""
    found = _LOG.fullmatch(name)
    return int(found[1]) if found else None
