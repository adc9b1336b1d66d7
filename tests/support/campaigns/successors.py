"""Brokers of a campaign one after another: the same one again, or the next owner of a shard."""

from __future__ import annotations

import random
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self

from tests.support.processes.broker import BrokerEnded, BrokerProcess, Launcher
from tests.support.storage.destruction import destroy_store

TAKEOVER_S: Final = 4.0
POLL_S: Final = 0.02
GARBAGE_BYTES: Final = 1 << 20
EMPTY: Final = 0.3
"""Share of the starts on an empty directory."""
BOTH_LOST: Final = 0.1
"""Share of the kills after which the other broker is killed too, and both directories are lost."""


class Serving(Protocol):
    """Broker that serves, or will; see ``BrokerProcess``."""

    def wait_ready(self, timeout_s: float = 30.0) -> str | None: ...
    def ready(self, timeout_s: float = 30.0) -> str: ...
    def has_ended(self) -> bool: ...
    def kill(self) -> int: ...
    def ask_to_stop(self) -> None: ...
    def terminate(self, timeout_s: float = 30.0) -> int: ...
    def wait(self, timeout_s: float = 30.0) -> int: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Successors(Protocol):
    """Source of the next broker."""

    logs: list[Path]
    """Logs of all brokers."""

    def start(self) -> Serving:
        """Return the broker that serves after the last one has ended."""
        ...

    def end(self) -> None:
        """End every broker that waits to serve."""
        ...

    def figures(self) -> dict[str, int]:
        """Return what was done beside the kills, and what came of it."""
        ...


class Restarts:
    """Starts a broker again on its directory."""

    def __init__(self, launcher: Launcher, directory: Path, endpoint: str) -> None:
        self._launcher, self._store, self._endpoint = launcher, directory / "store", endpoint
        self.logs: list[Path] = [directory / "store.log"]

    def start(self) -> Serving:
        """Start it."""
        return self._launcher.start(self._store, self._endpoint)

    def end(self) -> None:
        """Do nothing."""

    def figures(self) -> dict[str, int]:
        """Return nothing: each broker has its directory again."""
        return {}


class Shard:
    """Two brokers with a journal, each in a directory of its own: when one is killed the other one serves.

    Both have one endpoint, since only the owner listens. The journal is trimmed as early as its settings allow. Some
    brokers start again on an empty directory, and sometimes both are killed and lose theirs.
    """

    def __init__(self, launcher: Launcher, directory: Path, endpoint: str, journal: str, chance: random.Random) -> None:
        self._launcher, self._endpoint, self._journal, self._chance = launcher, endpoint, journal, chance
        self._empty_starts = self._both_lost = 0
        self._stores = [directory / "store-a", directory / "store-b"]
        self.running: dict[Path, BrokerProcess] = {}
        self.logs: list[Path] = [store.with_name(f"{store.name}.log") for store in self._stores]

    def start(self) -> Serving:
        """Start the brokers that do not run, and return the next owner."""
        if len(self.running) < len(self._stores) and self._chance.random() < BOTH_LOST:
            self._both_lost += 1
            self.end()
            for store in self._stores:
                if store.exists():
                    destroy_store(store)
        for store in self._stores:
            if store in self.running:
                continue
            if store.exists() and self._chance.random() < EMPTY:
                self._empty_starts += 1
                destroy_store(store)
            self.running[store] = self._launcher.start(
                store,
                self._endpoint,
                journal=self._journal,
                takeover_after_s=TAKEOVER_S,
                journal_garbage_bytes=GARBAGE_BYTES,
                journal_batch_bytes=1,
            )
        return ShardOwner(self.running)

    def figures(self) -> dict[str, int]:
        """Return the starts on empty directories, and how often checkpoints were loaded and not completed."""
        logged = [log.read_text(errors="replace") for log in self.logs if log.exists()]
        found = {
            "empty_starts": self._empty_starts,
            "both_lost": self._both_lost,
            "checkpoints_loaded": sum(text.count(" loaded a checkpoint ") for text in logged),
            "checkpoints_not_completed": sum(text.count(" checkpoint was not completed ") for text in logged),
        }
        journal = Path(self._journal)
        if journal.is_dir():
            found["checkpoints"] = sum(1 for _ in (journal / "marks").glob("*"))
            found["journal_bytes"] = sum(path.stat().st_size for path in journal.rglob("*") if path.is_file())
        return found

    def end(self) -> None:
        """Kill the brokers that run."""
        while self.running:
            self.running.popitem()[1].kill()


class ShardOwner:
    """Owner of a shard, whichever of its brokers that is; see ``BrokerProcess``."""

    def __init__(self, running: dict[Path, BrokerProcess]) -> None:
        self._running = running
        self._owner: Path | None = None

    def wait_ready(self, timeout_s: float = 30.0) -> str | None:
        """Return the endpoint once one of them serves."""
        until = time.monotonic() + timeout_s
        while True:
            for store, broker in self._running.items():
                if self._owner in {None, store} and (endpoint := broker.wait_ready(POLL_S)) is not None:
                    self._owner = store
                    return endpoint
            if time.monotonic() > until:
                return None

    def ready(self, timeout_s: float = 30.0) -> str:
        """Return its endpoint once it serves."""
        endpoint = self.wait_ready(timeout_s)
        if endpoint is None:
            raise BrokerEnded(f"no broker of the shard was ready within {timeout_s:g} s")
        return endpoint

    def has_ended(self) -> bool:
        """Return True if one of them has ended."""
        return any(broker.has_ended() for broker in self._running.values())

    def kill(self) -> int:
        """Kill the owner, or one that follows if there is none yet."""
        broker = self._take()
        return broker.kill() if broker is not None else 0

    def ask_to_stop(self) -> None:
        """Ask the owner to stop."""
        if self._owner in self._running:
            self._running[self._owner].ask_to_stop()

    def terminate(self, timeout_s: float = 30.0) -> int:
        """Stop the owner; returns its exit code."""
        broker = self._take()
        return broker.terminate(timeout_s) if broker is not None else 0

    def wait(self, timeout_s: float = 30.0) -> int:
        """Return the exit code of the owner."""
        broker = self._take()
        return broker.wait(timeout_s) if broker is not None else 0

    def _take(self) -> BrokerProcess | None:
        store = self._owner if self._owner is not None else next(iter(self._running), None)
        return self._running.pop(store, None) if store is not None else None

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Kill the owner if it still runs."""
        self.kill()
