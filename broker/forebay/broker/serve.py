"""Process of a broker: it opens the store, or follows a journal until it owns it, and serves.

The exit code says whether a supervisor has to start it again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Final

from forebay.broker.runtime.clock import SystemClock
from forebay.broker.runtime.resources.stop_steps import StopFailed
from forebay.broker.security import read
from forebay.broker.server import Serving
from forebay.broker.settings import BrokerSettings, address
from forebay.broker.shard import own_shard
from forebay.broker.storage.errors import StoreError
from forebay.broker.storage.records.accepted import boot_id
from forebay.broker.storage.replication.replica import check_no_replica
from forebay.broker.storage.store.backends import BACKENDS
from forebay.broker.storage.store.contract import Store
from forebay.broker.storage.store.open_files import raise_open_files
from forebay.broker.storage.store.settings import RocksSettings
from forebay.process import freeze_objects, gc_paused, tune, unfreeze_objects

_log: Final = logging.getLogger(__name__)
CONNECTIONS_LEAST: Final = 64
"""Connections that are accepted however few files the process may open."""
STOP_S: Final = 3.0
"""Time for the orderly end of a follower that was asked to stop.

A journal that does not answer would delay it by the time limit of each request, in several threads. A follower has
confirmed nothing, and its directory outlasts a kill: so the process may end at any time.
"""


def check_listen(listen: str) -> None:
    """Raise ``OSError`` with the system's reason if an address cannot be bound: gRPC only logs its own."""
    host, port = address(listen)
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(place)
    except OSError as error:
        raise OSError(f"cannot listen on {listen}: {error.strerror}") from error


def open_store(settings: BrokerSettings) -> Store:
    """Open the store on disk. Raises ``StoreError`` (see ``storage.errors``) saying what to do."""
    store = BACKENDS[settings.store](settings.data_dir)
    try:
        check_no_replica(store, settings.data_dir)
    except StoreError:
        store.close()
        raise
    return store


def allow_open_files(settings: BrokerSettings) -> int:
    """Raise the process's limit of open files for store and connections; returns the connections that fit."""
    store = RocksSettings()
    files = store.open_tables_max + store.open_bulk_max + store.open_files_beside
    allowed = raise_open_files(files + settings.connections_max) - files
    if allowed < settings.connections_max:
        _log.warning(
            "limit of open files allows fewer connections than connections_max, raise the hard limit (ulimit -Hn) "
            "connections=%d connections_max=%d needed=%d",
            max(allowed, CONNECTIONS_LEAST),
            settings.connections_max,
            files + settings.connections_max,
        )
    return max(CONNECTIONS_LEAST, min(allowed, settings.connections_max))


def serve(
    settings: BrokerSettings,
    on_ready: Callable[[str], None] = lambda _: None,
    on_metrics: Callable[[str], None] = lambda _: None,
    on_console: Callable[[str], None] = lambda _: None,
) -> int:
    """Serve until SIGTERM or SIGINT; returns the exit code: 0, or 1 after a fenced store or a failed stop.

    After a hand-over the broker follows the journal again; it serves, and calls ``on_ready``, once it takes over.

    ``on_metrics`` is called with the URL for Prometheus, and ``on_console`` with that of the console, if there is one,
    before ``on_ready`` with HOST:PORT. SIGHUP reloads certificates and tokens, and ends no connection. A follower
    ignores it, and reads them when it takes over. A follower that has not ended ``STOP_S`` after a signal ends the
    process with code 0.

    Raises ``SettingsError`` if one of their files is invalid, ``StoreError`` if the store cannot be opened, ``OSError``
    if an address cannot be bound, and ``ExportingError`` if an ``OTEL_…`` variable is invalid.
    """
    tune()
    os.umask(0o077)  # RocksDB makes its files with the mode that this leaves: other accounts may not read records
    read(settings)  # invalid files are refused before anything is opened
    connections_max = allow_open_files(settings)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # its default would end a broker that starts, follows or stops
    asked_to_stop, handed_over = threading.Event(), False
    while True:
        store = open_store(settings) if not settings.journal else _owned(settings, handed_over)
        if store is None:
            _log.info("broker has stopped, it followed a journal")
            return 0
        code = _runner()(_serve(settings, store, connections_max, asked_to_stop, on_ready, on_metrics, on_console))
        if code is not None:
            return code
        if asked_to_stop.is_set():  # while the loop ended
            return 0
        handed_over = True
        unfreeze_objects()


def _owned(settings: BrokerSettings, handed_over: bool) -> Store | None:
    """Follow a journal until this broker owns it; returns None after a stop. See ``own_shard``."""
    stop, dismissed = threading.Event(), threading.Event()
    threading.Thread(target=_end_late, args=(stop, dismissed), name="forebay-stop", daemon=True).start()
    is_stopping = False
    try:
        store = own_shard(settings, stop, handed_over=handed_over)
        is_stopping = store is None
    finally:
        if not is_stopping:  # else the limit stays: at its exit, the interpreter waits for requests without an answer
            dismissed.set()
            stop.set()
    return store


def _end_late(stop: threading.Event, dismissed: threading.Event) -> None:
    """End the process ``STOP_S`` after a stop, unless dismissed."""
    stop.wait()
    if not dismissed.wait(STOP_S):
        _log.warning("follower has not stopped in time, the process ends seconds=%.1f", STOP_S)
        os._exit(0)


async def _serve(
    settings: BrokerSettings,
    store: Store,
    connections_max: int,
    asked_to_stop: threading.Event,
    on_ready: Callable[[str], None],
    on_metrics: Callable[[str], None],
    on_console: Callable[[str], None],
) -> int | None:
    """Serve a store until the broker stops; returns the exit code, None after a hand-over."""
    with ExitStack() as undo:
        undo.callback(store.close)
        check_listen(settings.listen)
        security = read(settings)  # again: a follower may have waited for weeks
        with gc_paused():
            serving = Serving(
                settings,
                security,
                store,
                SystemClock(boot_id() or b""),
                data_dir=str(settings.data_dir.resolve()),
                connections_max=connections_max,
                on_deleted=unfreeze_objects,
            )
            freeze_objects()
        stopping = asyncio.Event()

        def stop() -> None:
            asked_to_stop.set()
            stopping.set()

        def handle_signals() -> None:
            # Before clients can connect: by default a signal would end the process without a stop.
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, stop)
            loop.add_signal_handler(signal.SIGHUP, serving.renew)

        await serving.start(handle_signals)
        undo.pop_all()
    if serving.instruments.metrics_url:
        on_metrics(serving.instruments.metrics_url)
    if serving.console_url:
        on_console(serving.console_url)
    on_ready(serving.endpoint)
    events = (stopping, serving.fenced, serving.handing_over)
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()
    try:
        await serving.stop()
    except StopFailed as failure:
        _log.critical("stop was not whole, see above cause=%s", failure)
        return 1
    finally:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    if serving.fenced.is_set():
        return 1
    return None if serving.handing_over.is_set() and not stopping.is_set() else 0


def _runner() -> Callable[[Any], int | None]:
    try:
        import uvloop  # noqa: PLC0415 - faster where it is there
    except ImportError:
        return asyncio.run
    return uvloop.run
