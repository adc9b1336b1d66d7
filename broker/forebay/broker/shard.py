"""Shard: a broker whose batches are appended to a journal that other brokers follow.

Of the brokers with one journal one owns it and serves. The others follow it in their own directories and do not listen.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from forebay.broker.settings import BrokerSettings, SettingsError
from forebay.broker.storage.replication.engine import Engine, EngineAway, EngineUnsuitable
from forebay.broker.storage.replication.engines.addresses import open_engine
from forebay.broker.storage.replication.follower import POLL_S, Follower, Takeover, check_identity
from forebay.broker.storage.replication.probe import probe
from forebay.broker.storage.replication.replica import Replica
from forebay.broker.storage.replication.store import ReplicatedStore
from forebay.broker.storage.store.rocks.store import RocksStore

_log: Final = logging.getLogger(__name__)
_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
SERVES_FOR: Final = 0.6
"""Share of the takeover time for which an owner is ready without a confirmation of its journal."""


def boot_time_s() -> float:
    """Return the seconds since the machine started, including those in which it was suspended."""
    return time.clock_gettime(_CLOCK)


def own_shard(settings: BrokerSettings) -> ReplicatedStore | None:
    """Follow the journal of the settings until this broker owns it. Blocks.

    Returns None where a signal ends it before. Raises ``SettingsError`` for an unsuitable journal, and ``StoreError``.
    """
    with _stopped_by_signals() as stop:
        try:
            engine = open_engine(settings.journal)
        except (EngineUnsuitable, OSError) as error:
            raise SettingsError(f"journal = {settings.journal!r}: {error}") from error
        store = RocksStore(settings.data_dir)
        try:
            replica = Replica(store)
            if not _patiently(lambda: _check(engine, replica), engine, stop):
                store.close()
                return None
            takeover = Takeover(settings.takeover_after_s, settings.advertise or settings.listen)
            owner = Follower(engine, replica, settings.data_dir, takeover, boot_time_s).follow(stop)
        except BaseException:
            store.close()
            raise
        if owner is None:
            store.close()
            return None
        return ReplicatedStore(replica, owner)


def _check(engine: Engine, replica: Replica) -> None:
    check_identity(engine, replica)
    try:
        probe(engine)
    except EngineUnsuitable as error:
        raise SettingsError(str(error)) from error


def _patiently(action: Callable[[], None], engine: Engine, stop: threading.Event) -> bool:
    """Repeat an action until the engine answers; returns False if ``stop`` was set before."""
    said = False
    while not stop.is_set():
        try:
            action()
        except EngineAway as away:
            if not said:
                said = True
                _log.error("journal does not answer journal=%s cause=%s", engine.address, away)
            stop.wait(POLL_S)
        else:
            return True
    return False


@contextmanager
def _stopped_by_signals() -> Iterator[threading.Event]:
    """Set an event at SIGTERM and SIGINT; outside of the main thread nothing sets it."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
