"""Bodies of pages that could not be cut, shared by the dead letters of such a page.

The first dead letter of such a page holds its body, the others are empty. A purge of some of them keeps the one with
the body while others of the page remain: it is purged with the last of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from forebay.broker.core.dead_letters.letters import DeadLetter, Origin
from forebay.page.format import PAGE_RECORDS_MAX

_NEAR: Final = (-1, 0, 1)
Place = tuple[str, str, int, int]
"""Subscription, incarnation and partition of an origin, and a block of offsets.

A block has as many offsets as the longest page.
"""


class PageBodies:
    """State of a purge in one partition of a dead-letter sink."""

    __slots__ = ("_held", "_relied")

    def __init__(self) -> None:
        self._held: list[tuple[int, Place]] = []
        self._relied: set[Place] = set()

    def __len__(self) -> int:
        """Return the number of dead letters that are held back."""
        return len(self._held)

    def hold_back(self, letter: DeadLetter) -> bool:
        """Hold back a purged dead letter if others may need its body; returns True if it was held back."""
        if letter.origin is None or not letter.uncut or not letter.record.value:
            return False
        self._held.append((letter.offset, _place(letter.origin)))
        return True

    def stays(self, letter: DeadLetter) -> None:
        """Record that a dead letter stays. Without a body it needs every body in its neighbourhood."""
        if letter.origin is not None and letter.uncut and not letter.record.value:
            subscription, incarnation, partition, stretch = _place(letter.origin)
            self._relied |= {(subscription, incarnation, partition, stretch + near) for near in _NEAR}

    def free(self) -> Iterator[int]:
        """Yield the offsets held back that no other dead letter needs, after all letters were examined."""
        for offset, place in self._held:
            if place not in self._relied:
                yield offset


def _place(origin: Origin) -> Place:
    return origin.subscription, origin.incarnation, origin.partition, origin.offset // PAGE_RECORDS_MAX
