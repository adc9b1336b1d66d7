"""Answers of a consumer, their outcomes, and the detection of stale answers.

An answer names the revision under which its records were sent. It has no effect on records that were revoked since then
under a higher revision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from forebay.broker.core.partition.ranges import Range

HISTORY_MAX: Final = 1024
"""Revocations kept per owner.

Above the bound the two oldest become one that voids at least as much as both.
"""
NEVER: Final = 1 << 64
"""Above every offset."""


class SettleOutcome(IntEnum):
    """Outcome of an answered range; the numbers are those of the wire."""

    OK = 1
    ALREADY_SETTLED = 2
    STALE = 3
    UNKNOWN = 4


@dataclass(frozen=True, slots=True)
class Answer:
    """Owner epoch and revision that an answer names."""

    owner_epoch: int
    revision: int


@dataclass(frozen=True, slots=True)
class Revocation:
    """Revocation after a failure or a take-back: all deliveries from ``first`` on are void."""

    first: int
    revision: int
    notify: bool = True
    """False in RELAXED order: only the failed records are void, and the consumer need not be notified."""


Results = list[tuple[Range, SettleOutcome]]


def joined(results: Sequence[tuple[Range, SettleOutcome]]) -> Results:
    """Return the results with neighbours of one outcome joined."""
    found: Results = []
    for part, outcome in results:
        last, what = found[-1] if found else (None, None)
        if last is not None and last.end == part.first and what is outcome:
            found[-1] = (Range(last.first, part.end), outcome)
        else:
            found.append((part, outcome))
    return found


class History:
    """Revocations of one owner: from which offset on each revision voided all deliveries."""

    __slots__ = ("_revoked",)

    def __init__(self) -> None:
        self._revoked: list[tuple[int, int]] = []

    def clear(self) -> None:
        """Clear the history for a new owner."""
        self._revoked = []

    def add(self, revision: int, first: int) -> None:
        """Record that ``revision`` voided every delivery from ``first`` on."""
        while self._revoked and self._revoked[-1][1] >= first:
            self._revoked.pop()
        self._revoked.append((revision, first))
        if len(self._revoked) > HISTORY_MAX:
            # The two oldest become one that voids what either voided.
            (_, lowest), (newer, _) = self._revoked[0], self._revoked[1]
            self._revoked[:2] = [(newer, lowest)]

    def stale_from(self, revision: int) -> int:
        """Return the lowest offset for which an answer under ``revision`` is stale."""
        return next((first for newer, first in self._revoked if newer > revision), NEVER)
