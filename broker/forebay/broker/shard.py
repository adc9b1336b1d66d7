"""Shard: a broker whose batches are appended to a journal that other brokers follow.

Of the brokers with one journal one owns it and serves. The others follow it in their own directories and do not listen.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from errno import EACCES, EEXIST, ELOOP, ENAMETOOLONG, ENOTDIR, EPERM, EROFS
from pathlib import Path
from typing import Final

from forebay.broker.settings import BrokerSettings, SettingsError
from forebay.broker.storage.backup.errors import BackupStopped
from forebay.broker.storage.replication.checkpoints.files import CheckpointFiles
from forebay.broker.storage.replication.checkpoints.growth import Growth, limits_of_follower
from forebay.broker.storage.replication.checkpoints.job import Origin
from forebay.broker.storage.replication.checkpoints.loading import Pages, is_loaded, load_newest
from forebay.broker.storage.replication.checkpoints.mark import Marks
from forebay.broker.storage.replication.checkpoints.source import CheckpointSource
from forebay.broker.storage.replication.engine import Engine, EngineAway, EngineUnsuitable
from forebay.broker.storage.replication.engines.addresses import below, open_engine
from forebay.broker.storage.replication.followers.follower import POLL_S, Follower, Takeover
from forebay.broker.storage.replication.followers.progress import FollowerProgress
from forebay.broker.storage.replication.followers.upkeep import CheckpointFailed
from forebay.broker.storage.replication.probe import probe
from forebay.broker.storage.replication.reader import Reader, Trimmed
from forebay.broker.storage.replication.replica import Replica, check_identity
from forebay.broker.storage.replication.shard_directory import DIRECTORY, SHARDS
from forebay.broker.storage.replication.store import ReplicatedStore
from forebay.broker.storage.store.rocks.store import RocksStore
from forebay.broker.storage.store.settings import RocksSettings
from forebay.broker.telemetry.follower import follower_metrics

_log: Final = logging.getLogger(__name__)
_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_WRONG: Final = frozenset({EACCES, EPERM, ENOTDIR, EEXIST, EROFS, ENAMETOOLONG, ELOOP})
"""Errors of a journal's directory that do not pass by themselves."""
SHARDS_SHOWN: Final = 10
SERVES_FOR: Final = 0.6
"""Share of the takeover time for which an owner is ready without a confirmation of its journal."""


def boot_time_s() -> float:
    """Return the seconds since the machine started, including those in which it was suspended."""
    return time.clock_gettime(_CLOCK)


def takeover_endpoint(settings: BrokerSettings) -> str:
    """Return the endpoint by which the brokers of a shard know this one."""
    return settings.advertise or settings.listen


def own_shard(settings: BrokerSettings, stop: threading.Event, *, handed_over: bool = False) -> ReplicatedStore | None:
    """Follow the journal of the settings until this broker owns it, or ``stop`` is set. Blocks.

    In the main thread SIGTERM and SIGINT set ``stop``. A request without an answer of the journal delays the stop by
    its time limit; ``serve`` does not wait for it. A broker that has handed the journal over takes it back only after
    the silence.

    Returns None where a stop ends it before. Raises ``SettingsError`` for an unsuitable journal, ``StoreError``, and
    as ``follower_metrics`` does.
    """
    progress = FollowerProgress(boot_time_s)
    with _stopped_by_signals(stop), follower_metrics(settings, progress):
        engine: Engine | None = None
        has_replica: bool | None = None
        address = below(settings.journal, SHARDS, settings.shard) if settings.shard else settings.journal

        def open_() -> None:
            nonlocal engine, has_replica
            try:
                found: Engine | None = None
                try:
                    found = open_engine(address, creates=False)
                except FileNotFoundError:
                    if has_replica is None:
                        has_replica = _has_replica(settings.data_dir)
                    if has_replica:
                        raise  # its journal exists: a new one would fork the history
                common = open_engine(settings.journal) if settings.shard or found is None else found
                _check_names(common, settings)
                engine = found or (open_engine(address) if settings.shard else common)
            except EngineUnsuitable as error:
                raise SettingsError(f"journal = {settings.journal!r}: {error}") from error
            except OSError as error:
                if error.errno in _WRONG:
                    why = f"cannot be used as a directory: {error.strerror}"
                    raise SettingsError(f"journal = {settings.journal!r}: {why}") from error
                raise EngineAway(str(error)) from error

        _patiently(open_, settings.journal, stop)
        if engine is None:
            return None
        try:
            owned = _Candidate(settings, engine, stop, progress, handed_over).own()
        except EngineUnsuitable as error:
            raise SettingsError(str(error)) from error
    if owned is not None and stop.is_set():  # the signal came during the takeover
        owned.close()
        return None
    return owned


def _check_names(common: Engine, settings: BrokerSettings) -> None:
    """Refuse shards with and without a name at one address: clients would find only those of one kind.

    Raises ``SettingsError`` and ``EngineAway``.
    """
    if settings.shard:
        if common.peek(0) is not None:  # the first fence is never deleted
            raise SettingsError(
                f"shard = {settings.shard!r}: journal = {settings.journal!r} is the journal of a shard without a name; "
                "give the shards with names another address"
            )
    elif names := common.names(DIRECTORY):
        found = ", ".join(name.rpartition("/")[2] for name in names[:SHARDS_SHOWN])
        raise SettingsError(f"journal = {settings.journal!r} has shards with names ({found}); set shard")


async def watch_journal(
    store: ReplicatedStore,
    takeover_after_s: float,
    *,
    keep_alive: Callable[[], Awaitable[None]],
    report: Callable[[bool], Awaitable[None]],
) -> None:
    """Call ``report`` when an owner becomes ready or not ready.

    It is not ready while its journal confirms nothing: a follower may have taken over. ``keep_alive`` appends
    something, so that an owner without traffic is confirmed too.
    """
    lease_s = SERVES_FOR * takeover_after_s
    ready = True
    while True:
        await asyncio.sleep(lease_s / 8)
        silent_s = boot_time_s() - store.owner.confirmed_at
        if silent_s > lease_s / 3:
            await keep_alive()
        if (silent_s < lease_s) is not ready:
            ready = not ready
            _log.warning("journal %s ready=%s seconds=%.1f", "confirms" if ready else "is silent", ready, silent_s)
            await report(ready)


def _has_replica(directory: Path) -> bool:
    """Return whether a directory has a store that has applied records of a journal. Raises ``StoreError``."""
    if not is_loaded(directory):
        return False
    with closing(RocksStore(directory, settings=RocksSettings(opens_incomplete=True))) as store:
        return bool(Replica(store).journal)


class _Candidate:
    """A broker that does not own its shard yet."""

    def __init__(
        self,
        settings: BrokerSettings,
        engine: Engine,
        stop: threading.Event,
        progress: FollowerProgress,
        handed_over: bool,
    ) -> None:
        self._settings: Final = settings
        self._handed_over: Final = handed_over
        self._engine: Final = engine
        self._stop: Final = stop
        self._progress: Final = progress
        self._marks: Final = Marks(engine)
        self._tables_of = ""
        """Last checkpoint that this process has made or loaded."""
        self._is_behind = False
        """True if the journal has no more what the replica in the directory needs next."""

    def own(self) -> ReplicatedStore | None:
        """Follow until this broker owns the shard.

        A directory that is behind the newest checkpoint is replaced by it.
        """
        if not self._patiently(self._probe):
            return None
        while self._patiently(self._fill):
            files = CheckpointFiles(self._engine)
            store = RocksStore(self._settings.data_dir, remote=files)
            try:
                owned = self._follow(store, files)
            except Trimmed as behind:
                _log.warning("directory is behind the journal, a checkpoint replaces it cause=%s", behind)
                store.close()
                self._is_behind = True
            except BaseException:
                store.close()
                raise
            else:
                if owned is None:
                    store.close()
                return owned
        return None

    def _probe(self) -> None:
        probe(self._engine)

    def _fill(self) -> None:
        """Load the newest checkpoint where the directory has no store, or a replica that is behind it.

        Its pages are fetched meanwhile and afterwards.
        """
        directory = self._settings.data_dir
        if self._is_behind or not is_loaded(directory):
            mark = load_newest(self._engine, self._marks, directory, self._stop, pages=Pages.LATER)
            if mark is not None:
                self._tables_of, self._is_behind = mark.id, False

    def _follow(self, store: RocksStore, files: CheckpointFiles) -> ReplicatedStore | None:
        """Follow with the store of the directory. Raises ``Trimmed``, and ``StoreError``."""
        settings, engine = self._settings, self._engine
        replica = Replica(store)
        files.applied = lambda: replica.place.position
        self._progress.remote_bytes = store.remote_bytes
        reader = Reader(engine, replica.place)

        def check() -> None:
            check_identity(engine, replica)
            reader.check()

        if not self._patiently(check):
            return None
        checkpoints = CheckpointSource(
            engine,
            Origin(store, settings.data_dir, lambda: replica.place, lambda: replica.journal),
            Growth(
                engine,
                limits_of_follower(settings.journal_garbage_bytes),
                settings.data_dir,
                lambda: replica.place,
                lambda: reader.read_bytes,
            ),
            tables_of=self._tables_of,
            clock_us=lambda: time.time_ns() // 1_000,
            monotonic=time.monotonic,
            failed=CheckpointFailed,
        )
        takeover = Takeover(settings.takeover_after_s, takeover_endpoint(settings), self._handed_over)
        follower = Follower(reader, replica, settings.data_dir, takeover, boot_time_s, checkpoints, self._progress)
        try:
            owner = follower.follow(self._stop)
        finally:
            self._tables_of = checkpoints.tables_of
        if owner is None:
            return None
        return ReplicatedStore(replica, owner, engine, tables_of=self._tables_of, observed=follower.observed_age)

    def _patiently(self, action: Callable[[], None]) -> bool:
        return _patiently(action, self._engine.address, self._stop)


def _patiently(action: Callable[[], None], journal: str, stop: threading.Event) -> bool:
    """Repeat an action until the engine answers; returns False if the process was asked to stop before."""
    said = ""
    while not stop.is_set():
        try:
            action()
        except BackupStopped:
            break
        except EngineAway as away:
            if said != away.event:
                said = away.event
                _log.error("journal %s journal=%s cause=%s", away.event, away.address or journal, away.cause)
            stop.wait(POLL_S)
        else:
            return True
    return False


@contextmanager
def _stopped_by_signals(stop: threading.Event) -> Iterator[None]:
    """Set an event at SIGTERM and SIGINT, in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
