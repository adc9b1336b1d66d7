"""Copy of a snapshot into a target: the steps that backups and checkpoints have in common."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from forebay.broker.core.backups.values import Progress
from forebay.broker.core.errors import StoreFenced
from forebay.broker.storage.backup import transfer
from forebay.broker.storage.backup.errors import BackupStopped
from forebay.broker.storage.backup.snapshot import Snapshot, SnapshotSource, take_snapshot
from forebay.broker.storage.backup.target import Target
from forebay.broker.storage.errors import StoreError


class SnapshotCopy:
    """One copy. ``failed`` is the class of its errors.

    Its steps are called in order, each by one thread; ``stop`` by any thread.
    """

    def __init__(
        self,
        progress: Progress,
        pace: transfer.Pace,
        *,
        failed: type[Exception],
        also: tuple[type[Exception], ...] = (),
    ) -> None:
        """``also`` are further errors that are raised as ``failed``."""
        self._progress: Final = progress
        self._pace: Final = pace
        self._failed: Final = failed
        self._also: Final = also
        self._cause = ""
        self._snapshot: Snapshot | None = None
        self._transfer: transfer.Transfer | None = None
        self.stopped: Final = threading.Event()

    def take(self, store: SnapshotSource, directory: Path, at_us: int) -> Snapshot:
        """Take the snapshot, where groups are committed."""
        self._snapshot = take_snapshot(store, directory, at_us)
        return self._snapshot

    def begin(self, plan: transfer.Plan, target: Target, on_progress: Callable[[], None]) -> transfer.Transfer:
        """Return the transfer of the snapshot."""
        self._transfer = transfer.Transfer(
            plan,
            self.snapshot,
            target,
            progress=self._progress,
            stop=self.stopped,
            pace=self._pace,
            on_progress=on_progress,
        )
        return self._transfer

    @property
    def snapshot(self) -> Snapshot:
        """Snapshot that was taken."""
        assert self._snapshot is not None
        return self._snapshot

    @property
    def transfer(self) -> transfer.Transfer:
        """Transfer that was begun."""
        assert self._transfer is not None
        return self._transfer

    def stop(self, cause: str) -> None:
        """Stop the transfer; the first cause counts."""
        self._cause = self._cause or cause
        self.stopped.set()

    def remove(self) -> None:
        """Remove the snapshot."""
        if self._snapshot is not None:
            self._snapshot.remove()

    @contextmanager
    def failing(self) -> Iterator[None]:
        """Raise errors of the storage as the runtime's; that of a stop has the cause."""
        with failing(self._failed, *self._also):
            try:
                yield
            except BackupStopped as stopped:
                raise BackupStopped(f"{stopped}: {self._cause}") from stopped


@contextmanager
def failing(failed: type[Exception], *also: type[Exception]) -> Iterator[None]:
    """Raise errors of the storage, and those of ``also``, as the runtime's."""
    errors: tuple[type[Exception], ...] = (StoreError, StoreFenced, OSError, *also)
    try:
        yield
    except errors as error:
        raise failed(str(error)) from error
