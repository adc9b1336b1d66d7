"""What a consumer answers, what became of it, and which answers are too old to count.

An answer names the revision under which its records were sent. What was taken back since then under a higher revision
is no longer its business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from forebay.broker.core.partition.ranges import Range

HISTORY_MAX: Final = 1024
"""Revocations remembered; of older ones two become one that says more is stale, never less."""
NEVER: Final = 1 << 64
"""Above every offset."""


class Outcome(IntEnum):
    """What became of an answered range; the numbers are those of the wire."""

    OK = 1
    ALREADY_SETTLED = 2
    STALE = 3
    UNKNOWN = 4


@dataclass(frozen=True, slots=True)
class Answer:
    """Who answers, and under what."""

    owner_epoch: int
    revision: int


@dataclass(frozen=True, slots=True)
class Revocation:
    """Something failed or was taken back: what was sent from ``first`` on is void."""

    first: int
    revision: int
    to_be_told: bool = True
    """False in RELAXED order: only what failed is void, all behind it counts, and nobody has to be told."""


Results = list[tuple[Range, Outcome]]


def joined(results: Sequence[tuple[Range, Outcome]]) -> Results:
    """Neighbours with one outcome as one."""
    found: Results = []
    for part, outcome in results:
        last, what = found[-1] if found else (None, None)
        if last is not None and last.end == part.first and what is outcome:
            found[-1] = (Range(last.first, part.end), outcome)
        else:
            found.append((part, outcome))
    return found


class History:
    """From where on everything was void under which revision, for one owner."""

    __slots__ = ("_revoked",)

    def __init__(self) -> None:
        self._revoked: list[tuple[int, int]] = []

    def forget(self) -> None:
        """A new owner begins."""
        self._revoked = []

    def remember(self, revision: int, first: int) -> None:
        """Everything from ``first`` on was void when ``revision`` began."""
        while self._revoked and self._revoked[-1][1] >= first:
            self._revoked.pop()
        self._revoked.append((revision, first))
        if len(self._revoked) > HISTORY_MAX:
            # The two oldest become one that voids what either voided.
            (_, lowest), (newer, _) = self._revoked[0], self._revoked[1]
            self._revoked[:2] = [(newer, lowest)]

    def stale_from(self, revision: int) -> int:
        """Lowest offset that an answer under ``revision`` is too old for."""
        return next((first for newer, first in self._revoked if newer > revision), NEVER)
