"""Log of dropped records: one line for a burst, not one for each drop.

The first drop after a quiet second is logged at once; later ones are summed up, once a second, per partition and
reason.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from forebay.broker.core.partition.pages import DropReason
from forebay.broker.runtime.clock import Clock

_log: Final = logging.getLogger(__name__)
EVERY_S: Final = 1.0


@dataclass(slots=True)
class _Burst:
    records: int
    drops: int
    first: int
    end: int


class DropLog:
    """Drops of one sink. Used on the loop only."""

    def __init__(self, sink: str, clock: Clock) -> None:
        self._sink = sink
        self._clock = clock
        self._logged_at: float | None = None
        self._bursts: dict[tuple[int, DropReason], _Burst] = {}
        """Drops that are not logged yet: at most one burst per partition and reason."""

    def dropped(self, partition: int, reason: DropReason, records: int, first: int, end: int) -> None:
        """Note a drop of records within ``[first, end)``."""
        burst = self._bursts.setdefault((partition, reason), _Burst(0, 0, first, end))
        burst.records += records
        burst.drops += 1
        burst.first, burst.end = min(burst.first, first), max(burst.end, end)
        self.sweep()

    def sweep(self) -> None:
        """Log the pending bursts, unless the last line is too recent."""
        if self._logged_at is None or self._clock.monotonic() - self._logged_at >= EVERY_S:
            self.flush()

    def flush(self) -> None:
        """Log all pending bursts now."""
        bursts, self._bursts = self._bursts, {}
        for (partition, reason), burst in bursts.items():
            self._logged_at = self._clock.monotonic()
            _log.warning(
                "records were dropped sink=%s partition=%d reason=%s records=%d drops=%d first=%d end=%d",
                *(self._sink, partition, reason.name, burst.records, burst.drops, burst.first, burst.end),
            )
