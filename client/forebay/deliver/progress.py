"""Progress of the sends of a deliverer: whether what waits behind them should keep waiting."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from forebay.deliver.health import Totals

STUCK_S: Final = 600.0
"""Time without a send that ends after which the sends count as stuck."""


class Progress:
    """Progress of one deliverer. For one thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ended = 0
        """Records whose send has ended."""
        self._moved_at = clock()

    def is_stuck(self, totals: Totals, *, is_idle: bool) -> bool:
        """Note the counts of a deliverer; return True if no send has ended for ``STUCK_S`` of work."""
        now = self._clock()
        ended = totals.delivered + totals.failures + totals.rejected
        if is_idle or ended != self._ended:
            self._ended, self._moved_at = ended, now
        return now - self._moved_at >= STUCK_S
