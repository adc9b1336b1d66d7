"""Search for the end of a journal ahead of a follower that is behind, so that its lag is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from forebay.broker.storage.replication.engine import Engine

LOOK_S: Final = 0.5
"""Interval of the searches.

Each is a few requests for the header of a record, two where the lag changes little, and one for the newest checkpoint.
"""
DISTANCE: Final = 8
"""Records ahead at which the first search begins."""
STEP: Final = 8
"""A search ends at most this part of its distance, or one record, beyond the end."""


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
        low, high, ahead = 0, 0, self._distance  # the highest distance with a record, and the lowest without one
        step = _step(ahead)
        while not high or high - low > _step(high):
            asked_s = self._clock()
            if self._engine.peek(position + ahead) is not None:
                low = ahead
                ahead, step = (low + high) // 2 if high else ahead + step, 2 * step
            else:
                is_first, high, at_s = not high and not low, ahead, asked_s
                ahead = high - _step(high) if is_first else (low + high) // 2
        self._distance = high
        return position + high, at_s


def _step(distance: int) -> int:
    return max(1, distance // STEP)
