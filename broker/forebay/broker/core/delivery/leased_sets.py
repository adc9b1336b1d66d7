"""Sets of what has stepped aside, as a holder asks for them: how much one may have, how long, and under which name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from forebay.broker.core.errors import InvalidLease
from forebay.broker.core.partition.pages import Entry
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.settings import SECOND_US

HOLDERS_MAX: Final = 1_024
"""Holders of one subscription."""
RANGES_MAX: Final = 10_000
"""Ranges of one set: they go over the wire in one message, both ways."""
RECORDS: Final = 10_000
"""Records of a set, unless its holder says otherwise."""
RECORDS_MAX: Final = 1_000_000
DURATION_US: Final = (SECOND_US, 24 * 3_600 * SECOND_US)
"""The shortest lease and the longest."""
_HOLDER: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")


def checked_holder(name: str) -> str:
    """Return the name of a holder. Raises ``InvalidLease``."""
    if _HOLDER.fullmatch(name) is None:
        raise InvalidLease("holder must be 1 to 128 of [A-Za-z0-9._:-]", field="holder")
    return name


def lease_us(asked_us: int | None, ack_deadline_us: int) -> int:
    """Return how long a lease is: as asked, or else about as long as a delivery has. Raises ``InvalidLease``."""
    low, high = DURATION_US
    if asked_us is None:
        return min(max(low, ack_deadline_us), high)
    if not low <= asked_us <= high:
        raise InvalidLease(f"duration must be 1 s to 24 h, not {asked_us} us", field="duration")
    return asked_us


@dataclass(frozen=True, slots=True)
class Part:
    """What of one partition a set has, or a holder names."""

    partition: int
    account: int
    """How many seeks had closed an account there when it was leased."""

    ranges: tuple[Range, ...]
    attempts: tuple[tuple[int, int], ...] = ()
    """(offset, failed tries) of the records that failed."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """How much a set may have."""

    records: int
    """0, before it is checked, is the usual number."""

    size: int | None = None
    """About so many bytes of stored pages; None is no bound."""

    before_due: bool = False
    """Also what waits for a delay that its nack named."""

    def checked(self) -> Wanted:
        """Itself, with the usual number of records for none. Raises ``InvalidLease``."""
        if self.records > RECORDS_MAX:
            raise InvalidLease(f"max_records is up to {RECORDS_MAX}, not {self.records}", field="max_records")
        return self if self.records else replace(self, records=RECORDS)


class Room:
    """What a set that is being taken may still have."""

    def __init__(self, wanted: Wanted) -> None:
        self.records = wanted.records
        self.ranges = RANGES_MAX
        self._size = wanted.size

    def fits(self, entry: Entry) -> bool:
        """Whether a page may be in it; the first one always is."""
        return not self.full and (self._size is None or self.ranges == RANGES_MAX or entry.size <= self._size)

    def take(self, entry: Entry, taken: Sequence[Range]) -> None:
        """Ranges of a page are in it."""
        self.ranges -= len(taken)
        self.records -= sum(part.size for part in taken)
        if taken and self._size is not None:
            self._size -= entry.size

    @property
    def full(self) -> bool:
        """Nothing more goes into it."""
        return self.records <= 0 or self.ranges <= 0 or (self._size is not None and self._size <= 0)
