"""Slices of the event loop: long work yields to other tasks after a few milliseconds."""

from __future__ import annotations

import asyncio
from typing import Final

SLICE_S: Final = 0.004
"""Length of a slice: the delay that such work adds for other tasks."""


class Slices:
    """Slices of one piece of work. Created at its start, on the loop."""

    def __init__(self) -> None:
        self._time = asyncio.get_running_loop().time
        self._until = self._time() + SLICE_S

    async def turn(self) -> None:
        """Yield once to all other tasks of the loop, if the slice is used up."""
        if self._time() >= self._until:
            await asyncio.sleep(0)
            self._until = self._time() + SLICE_S
