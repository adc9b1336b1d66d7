"""Slices of the event loop: work over many things gives everybody else a turn after a few milliseconds."""

from __future__ import annotations

import asyncio
from typing import Final

SLICE_S: Final = 0.004
"""Time after which a turn is due: what others wait for such work, beside what they wait for each other."""


class Slices:
    """Turns of one piece of work. Made where it begins, on the loop."""

    def __init__(self) -> None:
        self._time = asyncio.get_running_loop().time
        self._until = self._time() + SLICE_S

    async def turn(self) -> None:
        """Let everything else on the loop run once, if the slice is used up."""
        if self._time() >= self._until:
            await asyncio.sleep(0)
            self._until = self._time() + SLICE_S
