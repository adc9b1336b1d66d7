"""Bodies of pages that could not be cut: which dead letters hold one, and which others rely on it.

The first dead letter of such a page holds its body, the others are empty. A purge of some of them keeps the one with
the body while others of the page stay: it goes with the last of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from forebay.broker.core.dead_letters.letters import DeadLetter, Origin
from forebay.page.format import PAGE_RECORDS_MAX

_NEAR: Final = (-1, 0, 1)
Place = tuple[str, str, int, int]
"""Subscription, incarnation and partition of an origin, and a stretch of offsets as long as the longest page."""


class PageBodies:
    """What a purge has met in one partition of a dead-letter sink."""

    __slots__ = ("_held", "_relied")

    def __init__(self) -> None:
        self._held: list[tuple[int, Place]] = []
        self._relied: set[Place] = set()

    def __len__(self) -> int:
        """Dead letters that are held back."""
        return len(self._held)

    def hold_back(self, letter: DeadLetter) -> bool:
        """Keep a dead letter that is to go, where others may rely on it; whether it is kept for now."""
        if letter.origin is None or not letter.uncut or not letter.record.value:
            return False
        self._held.append((letter.offset, _place(letter.origin)))
        return True

    def stays(self, letter: DeadLetter) -> None:
        """A dead letter stays. One without a body relies on all of its neighbourhood that have one."""
        if letter.origin is not None and letter.uncut and not letter.record.value:
            subscription, incarnation, partition, stretch = _place(letter.origin)
            self._relied |= {(subscription, incarnation, partition, stretch + near) for near in _NEAR}

    def free(self) -> Iterator[int]:
        """Yield the offsets of those that were held back and that nothing relies on, now that all were met."""
        for offset, place in self._held:
            if place not in self._relied:
                yield offset


def _place(origin: Origin) -> Place:
    return origin.subscription, origin.incarnation, origin.partition, origin.offset // PAGE_RECORDS_MAX
