"""Gap notices that a consumer has received: an answer to something that was sent after a notice proves it.

Offsets prove nothing: in RELAXED order a record above a gap may have been redelivered before the gap was told. So each
notice keeps the number of the last delivery that was sent before it, and an answer to a later one confirms it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from forebay.broker.core.delivery.in_flight import Flight

ALL: Final = 1 << 64
"""Above every offset."""


class Told:
    """Gap notices of one owner that are not confirmed."""

    __slots__ = ("_unconfirmed",)

    def __init__(self) -> None:
        self._unconfirmed: deque[tuple[int, int]] = deque()
        """(number of the last delivery before the notice, first offset), by number; one entry for each number."""

    def tell(self, first: int, sent: int) -> None:
        """The notice of a gap at ``first`` goes out, behind the deliveries up to number ``sent``."""
        if self._unconfirmed and self._unconfirmed[-1][0] == sent:
            first = min(first, self._unconfirmed.pop()[1])
        self._unconfirmed.append((sent, first))

    def back_to(self, offset: int) -> None:
        """Everything from ``offset`` on is sent again, its notices too."""
        self._unconfirmed = deque(each for each in self._unconfirmed if each[1] < offset)

    @property
    def heard(self) -> int:
        """Offset below which every notice that was sent is confirmed."""
        return min((first for _, first in self._unconfirmed), default=ALL)

    def settled_by_number(self, end: int) -> None:
        """Whoever settles all up to ``end`` by number has heard of what is missing there."""
        self._unconfirmed = deque((sent, max(first, end)) for sent, first in self._unconfirmed)

    def answered(self, flights: Sequence[Flight]) -> None:
        """Something of these flights was answered."""
        if flights and self._unconfirmed:
            number = max(flight.number for flight in flights)
            while self._unconfirmed and self._unconfirmed[0][0] < number:
                self._unconfirmed.popleft()
