"""Leased sets as a holder requests them: their bounds, their duration and their holder."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from forebay.broker.core.errors import InvalidValue, quoted
from forebay.broker.core.partition.pages import Entry
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.settings import SECOND_US
from forebay.errors.reasons import Reason

HOLDERS_MAX: Final = 1_024
"""Holders per subscription."""
RANGES_MAX: Final = 10_000
"""Ranges per set: they are sent in one message, in both directions."""
RECORDS: Final = 10_000
"""Records per set, unless the holder requests another number."""
RECORDS_MAX: Final = 1_000_000
DURATION_US: Final = (SECOND_US, 24 * 3_600 * SECOND_US)
"""Shortest and longest lease."""
_HOLDER: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")


def checked_holder(name: str) -> str:
    """Return the name of a holder. Raises ``INVALID_LEASE``."""
    if _HOLDER.fullmatch(name) is None:
        raise InvalidValue(Reason.INVALID_LEASE, "holder", quoted(name), "1 to 128 of [A-Za-z0-9._:-]")
    return name


def lease_us(asked_us: int | None, ack_deadline_us: int) -> int:
    """Return the duration of a lease: as requested, by default about that of an ack deadline.

    Raises ``INVALID_LEASE``.
    """
    low, high = DURATION_US
    if asked_us is None:
        return min(max(low, ack_deadline_us), high)
    if not low <= asked_us <= high:
        raise InvalidValue(Reason.INVALID_LEASE, "duration", f"{asked_us} us", "1 s to 24 h")
    return asked_us


@dataclass(frozen=True, slots=True)
class LeasedPart:
    """Part of a set in one partition, or a part that a holder names."""

    partition: int
    account: int
    """Number of accounts that seeks had closed there when it was leased."""

    ranges: tuple[Range, ...]
    attempts: tuple[tuple[int, int], ...] = ()
    """(offset, failed tries) of the records that failed."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Size that a holder requests for a set."""

    records: int
    """0 is the default number, until it is checked."""

    size: int | None = None
    """Approximate bytes of stored pages; None is unlimited."""

    before_due: bool = False
    """Include ranges that wait for the delay of their nack."""

    def checked(self) -> Wanted:
        """Return the request with the default number of records in place of 0. Raises ``INVALID_LEASE``."""
        if self.records > RECORDS_MAX:
            raise InvalidValue(Reason.INVALID_LEASE, "max_records", self.records, f"up to {RECORDS_MAX}")
        return self if self.records else replace(self, records=RECORDS)


class Room:
    """Remaining room of a set under construction."""

    def __init__(self, wanted: Wanted) -> None:
        self.records = wanted.records
        self.ranges = RANGES_MAX
        self._size = wanted.size

    def fits(self, entry: Entry) -> bool:
        """Return whether a page fits; the first one always does."""
        return not self.full and (self._size is None or self.ranges == RANGES_MAX or entry.size <= self._size)

    def add(self, entry: Entry, taken: Sequence[Range]) -> None:
        """Count ranges of a page as taken."""
        self.ranges -= len(taken)
        self.records -= sum(part.size for part in taken)
        if taken and self._size is not None:
            self._size -= entry.size

    @property
    def full(self) -> bool:
        """True if no more fits."""
        return self.records <= 0 or self.ranges <= 0 or (self._size is not None and self._size <= 0)
