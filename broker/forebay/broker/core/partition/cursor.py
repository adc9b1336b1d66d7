"""Cursor of one subscription on one partition: which records are settled, and how.

The cursor alone decides what may be trimmed. It does no I/O and reads no clock, so every state it can reach can be
reached in a test.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from forebay.broker.core.partition import ranges as sets
from forebay.broker.core.partition.ranges import Range, RangeSet

FEW: Final = 3
"""Number of parts up to which they are settled one by one."""


class Settlement(Enum):
    """Way in which a record was settled; the value names the field that counts it."""

    ACKED = "acked"
    DEAD_LETTERED = "dead_lettered"
    DROPPED = "dropped"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Cursor:
    """Low watermark, the ranges settled above it, and the account since ``start``."""

    start: int = 0
    """Offset at which the account was opened."""

    watermark: int = 0
    """Low watermark: the lowest offset that is not settled."""

    beyond: RangeSet = ()
    """Ranges settled out of order, all above the watermark."""

    acked: int = 0
    """Records settled by an ack since ``start``."""

    dead_lettered: int = 0
    """Records moved to a dead-letter sink since ``start``."""

    dropped: int = 0
    """Records that were dropped before this subscription had settled them."""

    skipped: int = 0
    """Records passed over by a seek."""

    attempts: tuple[tuple[int, int], ...] = ()
    """(offset, failed attempts) of unsettled records that failed, by offset."""

    notified: int = 0
    """Offset below which the consumer was notified of every gap."""

    sent: int = 0
    """Offset below which records may have been delivered before."""

    def settle(self, settled: Range, how: Settlement) -> tuple[Cursor, int]:
        """Return the cursor after ``settled`` is settled, and the number of newly settled records.

        Settling a range twice has no effect.
        """
        fresh = sum(r.size for r in self.unsettled(settled))
        if fresh == 0:
            return self, 0
        beyond = sets.add(self.beyond, Range(max(settled.first, self.watermark), settled.end))
        watermark = self.watermark
        if beyond[0].first <= watermark:
            watermark, beyond = beyond[0].end, beyond[1:]
        # Not `replace`: it is three times as slow, and this runs for every range that is acked.
        return Cursor(
            start=self.start,
            watermark=watermark,
            beyond=beyond,
            acked=self.acked + fresh if how is Settlement.ACKED else self.acked,
            dead_lettered=self.dead_lettered + fresh if how is Settlement.DEAD_LETTERED else self.dead_lettered,
            dropped=self.dropped + fresh if how is Settlement.DROPPED else self.dropped,
            skipped=self.skipped + fresh if how is Settlement.SKIPPED else self.skipped,
            attempts=self._attempts_outside(settled) if self.attempts else (),
            notified=self.notified,
            sent=self.sent,
        ), fresh

    def settle_all(self, parts: Sequence[Range], how: Settlement) -> tuple[Cursor, int]:
        """Settle many disjoint parts in one pass, as ``settle`` does."""
        if len(parts) <= FEW:
            cursor, records = self, 0
            for part in parts:
                cursor, fresh = cursor.settle(part, how)
                records += fresh
            return cursor, records
        above = [Range(max(part.first, self.watermark), part.end) for part in parts if part.end > self.watermark]
        beyond, fresh = sets.add_all(self.beyond, above)
        watermark = self.watermark
        if beyond and beyond[0].first <= watermark:
            watermark, beyond = beyond[0].end, beyond[1:]
        attempts = self.attempts
        if attempts:
            settled = sets.union(parts)
            attempts = tuple(each for each in attempts if not sets.contains(settled, each[0]))
        counted = {how.value: getattr(self, how.value) + fresh}
        return replace(self, watermark=watermark, beyond=beyond, attempts=attempts, **counted), fresh

    def _attempts_outside(self, settled: Range) -> tuple[tuple[int, int], ...]:
        low = bisect_left(self.attempts, (settled.first, 0))
        high = bisect_left(self.attempts, (settled.end, 0))
        return self.attempts if low == high else self.attempts[:low] + self.attempts[high:]

    def unsettled(self, within: Range) -> Iterator[Range]:
        """Yield the parts of ``within`` that are not settled."""
        first = max(within.first, self.watermark)
        if first < within.end:
            yield from sets.missing(self.beyond, Range(first, within.end))

    def is_settled(self, offset: int) -> bool:
        """Return whether ``offset`` is settled."""
        return offset < self.watermark or sets.contains(self.beyond, offset)

    def pending(self, next_offset: int) -> int:
        """Return the number of unsettled records, given the offset that the next record will get."""
        return next_offset - self.watermark - sets.count(self.beyond)

    def failed(self, *offsets: int) -> Cursor:
        """Return the cursor after the records at these offsets have failed once more."""
        if len(offsets) > 1:
            tries = dict(self.attempts)
            tries |= {offset: tries.get(offset, 0) + 1 for offset in offsets}
            return replace(self, attempts=tuple(sorted(tries.items())))
        [offset] = offsets
        at = bisect_left(self.attempts, (offset, 0))
        tried = self.attempts_of(offset)
        rest = self.attempts[at + 1 :] if tried else self.attempts[at:]
        return replace(self, attempts=(*self.attempts[:at], (offset, tried + 1), *rest))

    def attempts_of(self, offset: int) -> int:
        """Return the number of failed attempts of the record at ``offset``."""
        at = bisect_left(self.attempts, (offset, 0))
        return self.attempts[at][1] if at < len(self.attempts) and self.attempts[at][0] == offset else 0

    def attempts_within(self, ranges: Iterable[Range]) -> tuple[tuple[int, int], ...]:
        """Return (offset, failed attempts) of the records in ``ranges`` that failed."""
        if not self.attempts:
            return ()
        return tuple(
            pair
            for part in ranges
            for pair in self.attempts[
                bisect_left(self.attempts, (part.first, 0)) : bisect_left(self.attempts, (part.end, 0))
            ]
        )

    def balances(self, next_offset: int) -> bool:
        """Return whether the account balances: every record since ``start`` is settled once or pending."""
        settled = self.acked + self.dead_lettered + self.dropped + self.skipped
        return next_offset - self.start == settled + self.pending(next_offset)
