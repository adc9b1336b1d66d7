"""Keeping a ballast on the device.

It is made while there is room for it above the reserve, never at the cost of an append.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Protocol

_log: Final = logging.getLogger(__name__)


class Ballast(Protocol):
    """Allocated room that can be given up."""

    @property
    def size(self) -> int:
        """Bytes that it holds now."""
        ...

    def make(self, size: int) -> None:
        """Hold so many. Blocks; raises ``OSError``, and holds none then."""
        ...

    def release(self) -> None:
        """Hold none."""
        ...


class BallastKeeper:
    """Looks after the ballast, when it is told to."""

    def __init__(self, ballast: Ballast, *, size: int, reserve_bytes: int) -> None:
        """``size`` is what it is to hold, 0 for none; ``reserve_bytes`` stay free beside it."""
        self._ballast = ballast
        self._size = size
        self._reserve_bytes = reserve_bytes
        self._failed = False

    async def look(self, free_bytes: int) -> None:
        """Make the ballast when it is missing, and there is room, given what the device has left."""
        held = self._ballast.size
        if held == self._size:
            return
        if self._size == 0:
            self._ballast.release()
        elif free_bytes + held >= self._reserve_bytes + self._size:
            await self._make()

    async def _make(self) -> None:
        try:
            await asyncio.to_thread(self._ballast.make, self._size)
        except OSError as error:
            if not self._failed:  # once: it is tried again every second
                _log.warning("ballast could not be made bytes=%d cause=%s", self._size, error)
            self._failed = True
        else:
            self._failed = False
