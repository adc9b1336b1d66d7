"""Turns of the sinks in a periodic sweep: of thousands of empty ones each sweep visits a part."""

from __future__ import annotations

from collections.abc import Set
from typing import Final

EMPTY_SWEEPS: Final = 8
"""Sweeps after which a sink that was and is empty has its turn again.

Nothing of it can expire but idle writers and producers.
"""


class Turns:
    """Turns of sinks, by their number."""

    def __init__(self) -> None:
        self._sweeps = 0
        self._empty: set[int] = set()
        """Sinks that were empty at their last turn."""

    def begin(self, sinks: Set[int]) -> None:
        """Begin a sweep over these sinks."""
        self._sweeps += 1
        self._empty &= sinks

    def is_due(self, sink: int, *, is_empty: bool) -> bool:
        """Return whether a sink is swept now: each time while it has pages, and once after it became empty."""
        if not is_empty:
            self._empty.discard(sink)
            return True
        if sink not in self._empty:
            self._empty.add(sink)
            return True
        return (self._sweeps + sink) % EMPTY_SWEEPS == 0
