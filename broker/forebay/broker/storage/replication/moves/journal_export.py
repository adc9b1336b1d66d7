"""Export of a journal into a new data directory, which a broker without a journal serves.

    1   the newest checkpoint and the records after it are read into a working folder beside the directory
    2   once the owner has ended, or is silent for long enough, a fence takes the journal over, as a broker does
    3   the store loses its position in the journal, and gets the epoch of the fence as its start count
    4   an `EXPORT` record ends the journal: no broker takes over after it
    5   the working folder becomes the directory

So nothing is confirmed after the export, and the next start on the directory is above every owner epoch. An export
that was interrupted is run again: after step 4 it reads up to that record, and needs no fence.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from forebay.broker.storage.backup.working_folder import working_folder
from forebay.broker.storage.directory import sync_path
from forebay.broker.storage.permissions import close_to_others
from forebay.broker.storage.records.journal_position import LEAVE_JOURNAL
from forebay.broker.storage.records.sinks.sink import SINK
from forebay.broker.storage.records.store import START
from forebay.broker.storage.replication.checkpoints.loading import load_newest
from forebay.broker.storage.replication.checkpoints.mark import Marks
from forebay.broker.storage.replication.engine import Engine
from forebay.broker.storage.replication.moves.errors import DirectoryUnsuitable
from forebay.broker.storage.replication.moves.journal_end import JournalEnd
from forebay.broker.storage.replication.reader import Trimmed
from forebay.broker.storage.scans import scan_all
from forebay.broker.storage.store.contract import Family
from forebay.broker.storage.store.rocks.store import RocksStore

ENDPOINT: Final = "forebay journal export"
"""Endpoint in the fence of an export, which serves nothing."""


@dataclass(frozen=True, slots=True)
class Exported:
    """Result of an export."""

    directory: str
    journal: str
    epoch: int
    """Start count of the directory: that of its next start is above it."""

    sinks: int
    was_ended: bool
    """True if an earlier export has ended the journal."""


def export_store(
    engine: Engine,
    into: Path,
    *,
    silence_s: float,
    host: str,
    clock: Callable[[], float],
    wait: Callable[[float], object],
) -> Exported:
    """Take a journal over, and make its store a data directory. Blocks.

    The directory does not exist yet, or is empty. ``silence_s`` is the silence after which an owner counts as ended.
    ``host`` is named for people. ``clock`` is monotonic, in seconds. Raises ``JournalEmpty``, ``JournalInUse``,
    ``DirectoryUnsuitable``, ``EngineAway``, or another ``StoreError``.
    """
    _check_free(into)
    with working_folder(into, purpose="export", suffix="exporting") as work:
        made = work / "data"
        export = _Export(engine, f"{host}:{into.absolute()}", silence_s, clock, wait)
        marks = Marks(engine)
        done: Exported | None = None
        while done is None:
            load_newest(engine, marks, made, threading.Event())
            try:
                with closing(RocksStore(made)) as store:
                    done = export.run(store, into)
            except Trimmed:
                continue  # a newer checkpoint has what is missing
        close_to_others(made, is_new=True)
        made.rename(into)
        sync_path(into.absolute().parent)
    return done


def _check_free(into: Path) -> None:
    if into.exists() and (not into.is_dir() or any(into.iterdir())):
        raise DirectoryUnsuitable(into, "exists and is not empty: name a new one")
    if os.path.ismount(into):
        raise DirectoryUnsuitable(into, "is a mount point, and would have to be renamed: name a directory in it")


class _Export:
    """Export of one journal, with a store that has its newest checkpoint."""

    def __init__(
        self, engine: Engine, to: str, silence_s: float, clock: Callable[[], float], wait: Callable[[float], object]
    ) -> None:
        self._engine: Final = engine
        self._to: Final = to
        self._silence_s: Final = silence_s
        self._clock: Final = clock
        self._wait: Final = wait

    def run(self, store: RocksStore, into: Path) -> Exported:
        """Apply the journal up to its end, and end it. Raises ``Trimmed`` where the store is too far behind."""
        end = JournalEnd(self._engine, store, silence_s=self._silence_s, clock=self._clock, wait=self._wait)
        end.read()
        end.await_silence()
        was_ended = end.place.exported
        owner = None if was_ended else end.take_over(ENDPOINT)
        try:
            _detach(store, end.place.epoch)
            sinks = sum(1 for _ in scan_all(store, Family.META, *SINK.under()))
            _check_free(into)
            if owner is not None:
                end.append(owner, self._to)
        finally:
            if owner is not None:
                owner.close()
        return Exported(str(into), self._engine.address, end.place.epoch, sinks, was_ended)


def _detach(store: RocksStore, epoch: int) -> None:
    """Make a replica a store of its own, whose next start is above an epoch.

    The space of its deleted pages is released.
    """
    [stored] = store.get_many(Family.META, [START.key()])
    started = (START.decoded(stored) if stored is not None else None) or 0
    store.commit([], [LEAVE_JOURNAL, START.put(START.key(), max(started, epoch))])
    for first, end in store.deleted_bulk():
        store.compact(Family.BULK, first, end)
