"""How far a consumer is known to have heard of the gaps: what it answered behind them proves it.

A gap that was sent may still wait on its way. Only an answer to something that was sent after it shows that it came.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.broker.core.flights import Flight

_NOT_YET = 1 << 62


class Told:
    """What one owner has shown to have heard."""

    __slots__ = ("_answered_end", "_unheard")

    def __init__(self) -> None:
        self._answered_end = 0
        """Highest end of what this owner has answered."""
        self._unheard: tuple[int, int] | None = None
        """Parked records from this offset on were dropped; a delivery numbered above this proves that it was heard."""

    def lose(self, offset: int) -> None:
        """Records were dropped at ``offset`` behind which others are in flight already."""
        first = offset if self._unheard is None else min(offset, self._unheard[0])
        self._unheard = (first, _NOT_YET)
        self.back_to(first)

    def tell(self, sent: int) -> None:
        """The gap goes out, behind the deliveries up to number ``sent``."""
        if self._unheard is not None:
            self._unheard = (self._unheard[0], sent)

    def back_to(self, offset: int) -> None:
        """Everything from ``offset`` on comes again."""
        self._answered_end = min(self._answered_end, offset)

    @property
    def heard(self) -> int:
        """Up to where all gaps were heard."""
        return self._answered_end

    def settled_by_number(self, end: int) -> None:
        """Whoever settles all up to ``end`` by number has heard of what is missing there."""
        if self._unheard is not None and self._unheard[0] < end:
            self._unheard = None

    def answered(self, end: int, flights: Sequence[Flight]) -> int:
        """Something up to ``end`` of these flights was answered; returns up to where all gaps were heard."""
        if self._unheard is not None and any(flight.number > self._unheard[1] for flight in flights):
            self._unheard = None
        heard = end if self._unheard is None else min(end, self._unheard[0])
        self._answered_end = max(self._answered_end, heard)
        return self._answered_end
