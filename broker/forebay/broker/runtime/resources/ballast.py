"""Ballast on the device: reserved space that is released when the device is full.

It is allocated while there is room for it above the reserve, never at the cost of an append.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Protocol

_log: Final = logging.getLogger(__name__)


class Ballast(Protocol):
    """Allocated space that can be released."""

    @property
    def size(self) -> int:
        """Bytes allocated now."""
        ...

    def make(self, size: int) -> None:
        """Allocate so many bytes. Blocks; raises ``OSError``, and then holds none."""
        ...

    def release(self) -> None:
        """Release all bytes."""
        ...


class BallastKeeper:
    """Keeper of the ballast, driven by its caller."""

    def __init__(self, ballast: Ballast, *, size: int, reserve_bytes: int) -> None:
        """``size`` is the target size, 0 for none; ``reserve_bytes`` stay free beside it."""
        self._ballast = ballast
        self._size = size
        self._reserve_bytes = reserve_bytes
        self._failed = False

    async def check(self, free_bytes: int) -> None:
        """Allocate a missing ballast if the free bytes of the device allow it."""
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
