"""A store whose disk a test can block, to examine what waits for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

from forebay.broker.storage.store.contract import Family
from forebay.broker.storage.store.memory import MemoryStore

STEP_S = 10.0


class Door:
    """A place where calls of other threads may be made to wait."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        """Protects the state below; calls and tests wait for it."""
        self._is_open = True
        self._permits = 0
        self._is_reached = False

    def close(self) -> None:
        """Let the next call wait."""
        with self._changed:
            self._is_open = self._is_reached = False

    def wait_reached(self) -> None:
        """Return when a call waits."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._is_reached, STEP_S)

    async def reached(self) -> None:
        """Return when a call waits, without holding up the loop."""
        await asyncio.get_running_loop().run_in_executor(None, self.wait_reached)

    def open(self) -> None:
        """Let calls through."""
        with self._changed:
            self._is_open = True
            self._changed.notify_all()

    def admit_one(self) -> None:
        """Let the call that waits through; the next one waits."""
        with self._changed:
            self._permits, self._is_reached = self._permits + 1, False
            self._changed.notify_all()

    def go_through(self) -> None:
        """Wait while it is closed."""
        with self._changed:
            self._is_reached = True
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: self._is_open or self._permits, STEP_S)
            self._permits = max(self._permits - 1, 0)


class HeldStore(MemoryStore):
    """A memory store that syncs, and reads pages, only while it is not held."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = Door()
        self._syncs = Door()

    def hold(self) -> None:
        """Let the next sync wait."""
        self._syncs.close()

    async def reached(self) -> None:
        """Return when a sync waits."""
        await self._syncs.reached()

    def wait_reached(self) -> None:
        """The same, from a thread without a loop."""
        self._syncs.wait_reached()

    def let_one_go(self) -> None:
        """Let the sync that waits through; the next one waits."""
        self._syncs.admit_one()

    def let_go(self) -> None:
        """Let syncs through."""
        self._syncs.open()

    def scan_meta(self) -> list[tuple[bytes, bytes]]:
        """All small state."""
        return self.scan(Family.META, b"", b"\xff", 1_000)

    def sync(self) -> None:
        """Wait while held, then sync."""
        self._syncs.go_through()
        super().sync()

    def get_many(self, family: Family, keys: Sequence[bytes]) -> list[bytes | None]:
        """Wait while reads are held, then read."""
        if family in {Family.SMALL, Family.BULK}:
            self.reads.go_through()
        return super().get_many(family, keys)
