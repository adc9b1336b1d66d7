"""Gap notices that a consumer has not confirmed yet.

An answer to a delivery that was sent after a notice confirms it. Offsets confirm nothing: in RELAXED order a record
above a gap may have been redelivered before the notice was sent. So each notice keeps the number of the last delivery
sent before it, and an answer to a later delivery confirms it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from forebay.broker.core.delivery.in_flight import Flight

ALL: Final = 1 << 64
"""Above every offset."""


class GapNotices:
    """Gap notices of one owner that are not confirmed."""

    __slots__ = ("_unconfirmed",)

    def __init__(self) -> None:
        self._unconfirmed: deque[tuple[int, int]] = deque()
        """(number of the last delivery before the notice, first offset), by number; one entry for each number."""

    def add(self, first: int, sent: int) -> None:
        """Record that the notice of a gap at ``first`` is sent after the deliveries up to number ``sent``."""
        if self._unconfirmed and self._unconfirmed[-1][0] == sent:
            first = min(first, self._unconfirmed.pop()[1])
        self._unconfirmed.append((sent, first))

    def rewind(self, offset: int) -> None:
        """Drop the notices from ``offset`` on: everything there is sent again, including its notices."""
        self._unconfirmed = deque(each for each in self._unconfirmed if each[1] < offset)

    @property
    def confirmed_end(self) -> int:
        """Offset below which every notice that was sent is confirmed."""
        return min((first for _, first in self._unconfirmed), default=ALL)

    def confirm_below(self, end: int) -> None:
        """Move the notices below ``end`` up to it: an ack of everything below ``end`` confirms the gaps there."""
        self._unconfirmed = deque((sent, max(first, end)) for sent, first in self._unconfirmed)

    def confirm(self, flights: Sequence[Flight]) -> None:
        """Confirm the notices that were sent before the newest of these answered flights."""
        if flights and self._unconfirmed:
            number = max(flight.number for flight in flights)
            while self._unconfirmed and self._unconfirmed[0][0] < number:
                self._unconfirmed.popleft()
