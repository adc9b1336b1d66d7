"""Growth of a journal, and when a checkpoint is due.

A checkpoint is due when the records after the last one, or bulk files that are mostly deleted, take more space
than the limits allow. A record counts as at least ``RECORD_BYTES``: a broker that starts on an empty disk needs a
request for each, and an idle owner appends small ones for days. A follower has lower limits than the owner, whose
processor has other work: the owner makes one only where no follower does. With both limits the journal has at most
twice the live bytes and the setting ``journal_garbage_bytes``, apart from what is appended while a checkpoint is made.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from forebay.broker.storage.replication.checkpoints.mark import Marks
from forebay.broker.storage.replication.engine import Engine
from forebay.broker.storage.replication.history import ReaderPosition

END: Final = 1 << 63
RECORD_BYTES: Final = 16 << 10
"""Least bytes that a record after the last checkpoint counts: what is read in the time of a request."""
_BLOCK_BYTES: Final = 512
"""Unit of ``st_blocks``."""
RECORDS_LEAST: Final = 1_024
"""Records after a checkpoint below which only their bytes count: they are read within seconds."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Space from which a checkpoint is due."""

    tail_bytes: int
    """Records after the last checkpoint, as they count, beside ``tail_share`` of the live bytes."""

    tail_share: float
    files_bytes: int
    """Files of the last checkpoint, beside one and a half times the live bytes."""


FILES_SHARE: Final = 1.5


def limits_of_follower(garbage_bytes: int) -> Limits:
    """Return the limits of a follower."""
    return Limits(garbage_bytes // 8, 0.25, garbage_bytes // 4)


def limits_of_owner(garbage_bytes: int) -> Limits:
    """Return the limits of an owner, which apply where no follower keeps to its own."""
    return Limits(3 * garbage_bytes // 8, 0.5, garbage_bytes // 2)


class Growth:
    """Space of a journal, as one broker knows it. For one thread."""

    def __init__(
        self,
        engine: Engine,
        limits: Limits,
        directory: Path,
        place: Callable[[], ReaderPosition],
        added_bytes: Callable[[], int],
    ) -> None:
        """``added_bytes`` are all records that this process has appended or read, in bytes."""
        self._engine: Final = engine
        self._limits: Final = limits
        self._directory: Final = directory
        self._place: Final = place
        self._added_bytes: Final = added_bytes
        self._marks: Final = Marks(engine)
        self._counted = -2
        """Number of the checkpoint whose tail was counted."""
        self._base = 0
        self.size_bytes: int | None = None
        """Bytes of the journal at the last check: of the newest checkpoint, and of the records after it."""
        self._tried_live_bytes: int | None = None
        """Live bytes at the last checkpoint for its files: another one helps only once there are fewer."""

    def is_due(self) -> bool:
        """Return whether a checkpoint is due. Raises ``EngineError``, ``BackupError`` and ``OSError``."""
        newest = self._marks.refresh()
        number, first, size = (newest.number, newest.position, newest.size) if newest is not None else (-1, 0, 0)
        if self._place().position <= first:
            return False
        if number != self._counted:
            added = self._added_bytes()
            self._base = sum(size for _, size in self._engine.sizes(first, END)) - added
            self._counted = number
        live = live_bytes(self._directory)
        tail = self._base + self._added_bytes()
        self.size_bytes = size + tail
        records = self._place().position - first
        counted = max(tail, records * RECORD_BYTES) if records >= RECORDS_LEAST else tail
        if counted >= self._limits.tail_bytes + self._limits.tail_share * live:
            self._tried_live_bytes = None
            return True
        if size < self._limits.files_bytes + FILES_SHARE * live:
            return False
        if self._tried_live_bytes is not None and live >= self._tried_live_bytes:
            return False
        self._tried_live_bytes = live
        return True


def live_bytes(directory: Path) -> int:
    """Return the bytes of tables and bulk files in a directory, without what was released in them."""
    found = 0
    for folder, suffix in ((directory / "db", ".sst"), (directory / "bulk", ".pages")):
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(suffix):
                    try:
                        found += entry.stat().st_blocks * _BLOCK_BYTES
                    except FileNotFoundError:
                        continue  # removed meanwhile
    return found
