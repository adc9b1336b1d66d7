"""Embedded broker: a broker in a thread of this process, for tests and tools."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import Any

from forebay.broker.runtime.clock import Clock, SystemClock
from forebay.broker.security import read
from forebay.broker.serve import open_store
from forebay.broker.server import Serving
from forebay.broker.settings import BrokerSettings, load
from forebay.broker.storage.records.accepted import boot_id
from forebay.broker.storage.store.contract import Store
from forebay.broker.storage.store.memory import MemoryStore


class BrokerServer:
    """Broker in a thread of this process."""

    def __init__(
        self, settings: BrokerSettings, store: Store, *, clock: Clock | None = None, data_dir: str = ""
    ) -> None:
        self._settings = settings
        self._store = store
        self._clock = clock or SystemClock(boot_id() or b"")
        self._data_dir = data_dir
        self._ready: Future[str] = Future()
        self._thread = threading.Thread(target=self._run, name="forebay-broker", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self.serving: Serving | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """Event loop of the broker, after its start."""
        return self._loop

    @classmethod
    def in_memory(cls, store: MemoryStore | None = None, clock: Clock | None = None, **settings: Any) -> BrokerServer:
        """Return a broker with its data in memory, on a free port of the loopback interface."""
        chosen = load(**{"listen": "127.0.0.1:0", **settings})
        return cls(chosen, store if store is not None else MemoryStore(), clock=clock)

    @classmethod
    def on_disk(cls, settings: BrokerSettings, clock: Clock | None = None) -> BrokerServer:
        """Return a broker with its data in the directory of the settings."""
        return cls(settings, open_store(settings), clock=clock, data_dir=str(settings.data_dir))

    @property
    def endpoint(self) -> str:
        """Address as HOST:PORT."""
        return self._ready.result()

    def start(self) -> None:
        """Return when it serves; raises the error of a failed start."""
        self._thread.start()
        self._ready.result()

    def stop(self) -> None:
        """Stop in order, as after SIGTERM, and wait for the end."""
        if self._loop is not None and self._stopping is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    def __enter__(self) -> BrokerServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        try:
            self.serving = Serving(
                self._settings, read(self._settings), self._store, self._clock, data_dir=self._data_dir
            )
            await self.serving.start()
        except BaseException as error:  # noqa: BLE001 - any error is passed to the waiting thread
            self._store.close()
            self._ready.set_exception(error)
            return
        self._ready.set_result(self.serving.endpoint)
        await self._stopping.wait()
        await self.serving.stop()
