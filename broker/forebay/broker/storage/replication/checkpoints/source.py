"""Checkpoints that one process makes, as a follower or as the owner."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from forebay.broker.storage.backup.snapshot_copy import failing
from forebay.broker.storage.backup.transfer import Pace
from forebay.broker.storage.replication.checkpoints.growth import Growth, limits_of_owner
from forebay.broker.storage.replication.checkpoints.job import CheckpointJob, Origin
from forebay.broker.storage.replication.engine import Engine, EngineError
from forebay.broker.storage.replication.store import ReplicatedStore


class CheckpointSource:
    """See ``runtime.backups.engine.Checkpointing``. ``failed`` is the class of its errors. For one thread."""

    def __init__(
        self,
        engine: Engine,
        origin: Origin,
        growth: Growth,
        *,
        tables_of: str,
        clock_us: Callable[[], int],
        monotonic: Callable[[], float],
        failed: type[Exception],
        resends: Callable[[], int] = lambda: 0,
    ) -> None:
        """``tables_of`` is the last checkpoint that this process has loaded, empty for none.

        ``resends`` returns the repeated requests of an owner.
        """
        self._resends: Final = resends
        self._engine: Final = engine
        self._origin: Final = origin
        self._growth: Final = growth
        self._tables_of = tables_of
        self._clock_us: Final = clock_us
        self._monotonic: Final = monotonic
        self._failed: Final = failed
        self._last: CheckpointJob | None = None

    @property
    def journal(self) -> str:
        """Address of the journal, without credentials."""
        return self._engine.address

    @property
    def durability(self) -> str:
        """Meaning of a confirmation of the journal, in words."""
        return self._engine.durability

    @property
    def position(self) -> int:
        """Next position of the journal. Any thread."""
        return self._origin.place().position

    @property
    def epoch(self) -> int:
        """Epoch of the owner whose batch was applied last. Any thread."""
        return self._origin.place().epoch

    @property
    def resends(self) -> int:
        """Requests of the owner that failed and were or will be repeated. Any thread."""
        return self._resends()

    @property
    def tables_of(self) -> str:
        """Last checkpoint that this process has made or loaded."""
        if self._last is not None and self._last.mark is not None:
            self._tables_of = self._last.mark.id
        return self._tables_of

    @property
    def size_bytes(self) -> int | None:
        """Bytes of the journal at the last check, None before the first."""
        return self._growth.size_bytes

    @property
    def remote_bytes(self) -> int:
        """Bytes of pages that the last checkpoint has, and this broker not yet. Any thread."""
        return self._origin.store.remote_bytes()

    def index(self) -> None:
        """Write an index of the engine, if one is due; see ``Engine.index``."""
        with failing(self._failed, EngineError):
            self._engine.index()

    def is_due(self) -> bool:
        """Return whether a checkpoint is due, which none is while pages are missing here."""
        if self.remote_bytes:
            return False
        with failing(self._failed, EngineError):
            return self._growth.is_due()

    def job(self, busy: Callable[[], bool] = lambda: False) -> CheckpointJob:
        """Return a new checkpoint.

        After one of a damaged store it renews no file of the checkpoint before: the journal would not be trimmed any
        more where both copies of a file are damaged.
        """
        self._last = CheckpointJob(
            self._engine,
            self._origin,
            tables_of=self.tables_of,
            pace=Pace(self._monotonic, busy),
            clock_us=self._clock_us,
            failed=self._failed,
            renews=self._last is None or not self._last.is_damaged,
        )
        return self._last


def checkpoints_of_owner(
    store: ReplicatedStore,
    directory: Path,
    garbage_bytes: int,
    *,
    clock_us: Callable[[], int],
    monotonic: Callable[[], float],
    failed: type[Exception],
) -> CheckpointSource:
    """Return the source of the checkpoints of an owner, whose store is in ``directory``."""
    owner = store.owner
    return CheckpointSource(
        store.engine,
        Origin(store, directory, store.place, store.journal),
        Growth(store.engine, limits_of_owner(garbage_bytes), directory, store.place, lambda: owner.appended_bytes),
        tables_of=store.tables_of,
        clock_us=clock_us,
        monotonic=monotonic,
        failed=failed,
        resends=lambda: owner.resends,
    )
