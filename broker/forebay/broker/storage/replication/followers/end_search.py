"""Search for the end of a journal ahead of a follower that is behind, so that its lag is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from forebay.broker.storage.replication.engine import Engine

LOOK_S: Final = 0.5
"""Interval of the searches.

Each is a request or two for the header of a record, and one for the newest checkpoint.
"""
DISTANCE: Final = 64
"""Records ahead at which the first search begins."""
STEP: Final = 8
"""A search begins this part of the last distance nearer, and its first step is as long.

So at a lag that does not change, the position that is found is at most about a quarter too far, and the lag too long.
"""


class EndSearch:
    """Finds positions that have no record yet. For one thread."""

    def __init__(self, engine: Engine, clock: Callable[[], float]) -> None:
        """``clock`` is monotonic, in seconds."""
        self._engine: Final = engine
        self._clock = clock
        self._distance = DISTANCE
        self._due_at = clock()

    def look(self, position: int) -> tuple[int, float] | None:
        """Return a position beyond ``position`` that has no record, and a time at which it had none.

        None while no search is due. Raises ``EngineAway``.
        """
        at_s = self._clock()
        if at_s < self._due_at:
            return None
        self._due_at = at_s + LOOK_S
        distance, step = self._distance, _step(self._distance)
        while self._engine.peek(position + distance) is not None:
            distance, step = distance + step, 2 * step
            at_s = self._clock()
        self._distance = max(1, distance - _step(distance))
        return position + distance, at_s


def _step(distance: int) -> int:
    return max(1, distance // STEP)
