"""Slices of the event loop: long work yields to other tasks after a few milliseconds.

All long work of a loop shares one slice per turn of the loop. Otherwise each of a hundred busy streams would take a
slice in each turn, and a short call, which takes a dozen turns, would wait for all of them each time.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Final
from weakref import WeakKeyDictionary

SLICE_S: Final = 0.004
"""Length of a slice: the delay that all such work together adds for other tasks, per turn of the loop."""


class Slices:
    """Slices of one piece of work. Created at its start, on the loop."""

    __slots__ = ("_slice",)

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        found = _SLICES.get(loop)
        if found is None:
            found = _SLICES[loop] = _Slice()
        self._slice = found

    async def turn(self) -> None:
        """Yield to all other tasks of the loop until it is this work's turn, if the slice is used up."""
        if not self._slice.has_time():
            await self._slice.wait()


class _Slice:
    """Slice of the current turn of a loop, and the work that waits for one, in order."""

    def __init__(self) -> None:
        self._until: float | None = None
        """End of the slice; None before its first use in this turn."""
        self._is_scheduled = False
        """True if ``_begin`` is called in the next turn."""
        self._waiting: deque[asyncio.Future[None]] = deque()

    def has_time(self) -> bool:
        """Return whether the slice is not used up; the first question of a turn begins it."""
        now = time.monotonic()
        if self._until is None:
            self._until = now + SLICE_S
            self._schedule()
        return now < self._until

    async def wait(self) -> None:
        """Wait for a turn with a new slice."""
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        self._schedule()
        await waiting

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        """Begin a turn: resume the first work that still waits."""
        self._is_scheduled = False
        self._until = None
        while self._waiting:
            first = self._waiting.popleft()
            if not first.done():
                first.set_result(None)
                break
        if self._waiting:
            self._schedule()


_SLICES: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, _Slice]] = WeakKeyDictionary()
"""Slices by loop. They do not refer to it, and end with it."""
