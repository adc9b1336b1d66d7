"""Observations about one partition and subscription: the record at each offset and its outcome.

Observations only accumulate. One that contradicts them is a violation, reported at once with its kind. A subscription
that is sought may be given anything again or never: of it only what was delivered since its last seek has to be whole.

A sink that forgets may lose what only memory held, and with it what it knew of writers. Then a record without a receipt
may be sent again and stand twice, and what was on the disk already stands before what was sent again. What has a
receipt for what it is (not for what it once was, a duplicate) stands once, and nothing sent before it stands after it.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from forebay.client import DropReason
from tests.support.oracles.records import number_of, source_of

_GROWTH: Final = 1 << 14
FORGETS: Final = frozenset({"LOST_IN_CRASH", "WIPED_AT_START"})
"""Reasons of a sink that may have forgotten its writers too."""

Tell = Callable[[str, str], None]
"""Takes a violation: its kind, and what happened."""


class Seen:
    """Observations about an offset, as bits. Plain integers: an enumeration is thirty times slower."""

    RECEIPT: Final = 1
    """A publisher holds a receipt for it."""
    DELIVERED: Final = 2
    """A consumer was given it."""
    ACKING: Final = 4
    """A consumer has sent an ack for it."""
    ACKED: Final = 8
    """The broker has answered OK to an ack for it."""
    GAP: Final = 16
    """A consumer received a gap notice for it."""
    FRESH: Final = 32
    """Its receipt was the first answer to its page."""
    WRITTEN: Final = 64
    """A receipt or a delivery said that a kill of the broker cannot take it."""


class Ledger:
    """Not safe for threads: the oracle owns it."""

    def __init__(
        self, name: str, tell: Tell, *, reasons: Collection[str], in_order: bool = True, is_sought: bool = False
    ) -> None:
        self._name = name
        self._tell = tell
        self._reasons = frozenset(reasons)
        """Why records may be dropped at any time."""
        self._forgets = bool(self._reasons & FORGETS)
        self._in_order = in_order
        """Skipped records may not be delivered later."""
        self.is_sought = is_sought
        self._sought_to = 0
        """Position of the last seek: from here on every record is delivered or reported as a gap."""
        self.purged_end = 0
        """One more than the highest offset that any caller has asked to purge."""
        self._records = array("Q")
        self._seen = bytearray()
        self._epochs = array("Q")
        """Owner epoch under which an offset was acked OK."""
        self.end = 0
        """Highest offset that is known, and one."""
        self.receipts_end = 0
        """One more than the highest offset with a receipt."""
        self.frontier = 0
        """Every offset below was delivered or reported as a gap."""
        self.late: set[int] = set()
        """Offsets below the frontier that were passed over when it moved."""
        self.acked = 0
        """Offsets with an ack that was answered OK."""
        self.doubled = 0
        """Records without a receipt that were sent again and stand twice, because the sink had forgotten them."""
        self.redelivered = 0
        self.settled = 0
        """Offset up to which the broker's watermark was checked."""

    def receipt(self, first: int, records: Sequence[int], *, written: bool = True, duplicate: bool = False) -> None:
        """A publisher received a receipt for ``records`` from ``first`` on; ``written`` ones survive a kill."""
        self._grow(first + len(records))
        for offset, record in enumerate(records, first):
            self._place(offset, record, "lost", "by its receipt")
            self._seen[offset] |= Seen.RECEIPT | (Seen.WRITTEN * written) | (Seen.FRESH * (not duplicate))
        self.receipts_end = max(self.receipts_end, first + len(records))

    def delivered(self, owner_epoch: int, records: Sequence[tuple[int, int]], *, written: bool = True) -> None:
        """A consumer was given (offset, record)s, by rising offset."""
        self._grow(records[-1][0] + 1)
        bits = Seen.DELIVERED | (Seen.WRITTEN * written)
        for offset, record in records:
            self._place(offset, record, "lost", "as it was delivered")
            seen = self._seen[offset]
            if seen & (Seen.DELIVERED | Seen.GAP) == Seen.GAP and not self.is_sought:
                self._tell("disorder", f"{self._name} offset {offset} was delivered after it was told to be gone")
            if seen & Seen.DELIVERED:
                self.redelivered += 1
                if seen & Seen.ACKED and self._is_after_ack(offset, owner_epoch):
                    self._tell("acks_forgotten", f"{self._name} offset {offset} was delivered again after its ack")
            self._seen[offset] = seen | bits
            self._advance(offset, offset + 1)

    def _is_after_ack(self, offset: int, owner_epoch: int) -> bool:
        """True if a delivery followed the ack: ``ack_until`` also settles records in redelivery."""
        if self.is_sought:
            return False
        return owner_epoch > self._epochs[offset] - self._in_order

    def replayed(self, first: int, records: Iterable[int]) -> None:
        """A replay has read ``records`` from ``first`` on."""
        for offset, record in enumerate(records, first):
            self._grow(offset + 1)
            self._place(offset, record, "lost", "as it was replayed")

    def gap(self, first: int, last: int, counts: Mapping[DropReason, int]) -> None:
        """A consumer received a gap notice for ``first`` to ``last``; the counts per reason may cover more."""
        self._grow(last + 1)
        written = 0
        for offset in range(first, last + 1):
            seen = self._seen[offset]
            written += seen & (Seen.WRITTEN | Seen.ACKING) == Seen.WRITTEN
            self._seen[offset] = seen | Seen.GAP
        if not self.may_miss(last, counts):
            self._tell("lost", f"{self._name} has a gap {first} to {last} for {sorted(counts)}")
        elif not self.is_sought and written > sum(
            n for why, n in counts.items() if why is not DropReason.LOST_IN_CRASH
        ):
            self._tell(
                "lost", f"{self._name} has a gap {first} to {last} for {dict(counts)}, and {written} were written"
            )
        self._advance(first, last + 1)

    def may_miss(self, last: int, reasons: Collection[str]) -> bool:
        """Return True if records up to ``last`` may be dropped for these reasons: purged only on request."""
        return all(why in self._reasons or (why == "PURGED" and last < self.purged_end) for why in reasons)

    def seeking(self, offset: int) -> bytes:
        """The subscription is about to be sought to ``offset``; returns what was seen, for ``not_sought``."""
        self._grow(offset)
        before = bytes(self._seen[offset : self.end])
        for at in range(offset, self.end):
            self._seen[at] &= ~(Seen.DELIVERED | Seen.GAP) & 0xFF
        return before

    def sought(self, offset: int, before: bytes | None) -> None:
        """It was sought to ``offset``; with ``before``, of ``seeking``, whether it was is not known."""
        if before is None:
            self._sought_to = offset
            return
        self._sought_to = max(self._sought_to, offset)
        for at, seen in enumerate(before, offset):
            self._seen[at] |= seen

    def untold(self, end: int) -> int:
        """Offsets below ``end`` that had to be delivered, or reported as a gap, and were not."""
        if self.is_sought:
            known = self._seen[self._sought_to : min(end, self.end)]
            return end - min(end, self.end) + sum(not seen & (Seen.DELIVERED | Seen.GAP) for seen in known)
        return end - self.frontier + (0 if self._in_order else len(self.late))

    def acking(self, first: int, last: int) -> None:
        """A consumer is about to ack ``first`` to ``last``: of this, what was delivered counts."""
        if self.is_sought:
            return
        for offset in range(max(first, self.settled), min(last + 1, self.end)):
            if self._seen[offset] & Seen.DELIVERED:
                self._seen[offset] |= Seen.ACKING

    def acked_ok(self, owner_epoch: int, first: int, last: int) -> None:
        """The broker has answered OK to an ack of ``first`` to ``last``."""
        self._grow(last + 1)
        for offset in range(first, last + 1):
            if not self._seen[offset] & Seen.ACKED:
                self._seen[offset] |= Seen.ACKED
                self.acked += 1
            self._epochs[offset] = max(self._epochs[offset], owner_epoch)

    def settled_below(self, offset: int, what: str) -> None:
        """The broker says that everything below ``offset`` is settled: check that a consumer had it."""
        if self.is_sought:
            return
        if offset > self.end:
            self._tell("skipped", f"{self._name}: {what} is {offset}, beyond all that is known ({self.end})")
        upto = min(offset, self.end)
        for found in range(max(self.settled, self.purged_end), upto):
            if not self._seen[found] & (Seen.ACKING | Seen.GAP):
                self._tell("skipped", f"{self._name}: {what} is {offset}, but {found} was neither acked nor a gap")
        self.settled = max(self.settled, upto)

    def never_acked(self) -> int:
        """Offsets that no consumer tried to ack."""
        return sum(not seen & Seen.ACKING for seen in self._seen[: self.end])

    def told_as_gaps(self) -> int:
        """Offsets that were reported to a consumer as gaps."""
        return sum(bool(seen & Seen.GAP) for seen in self._seen[: self.end])

    def close(self) -> tuple[int, int, int]:
        """Do the final checks; returns numbers of offsets with a receipt, delivered, and reported as gaps."""
        counts = [0, 0, 0]
        for offset in range(self.end):
            seen = self._seen[offset]
            counts[0] += bool(seen & Seen.RECEIPT)
            counts[1] += bool(seen & Seen.DELIVERED)
            counts[2] += bool(seen & Seen.GAP)
            if not seen & (Seen.DELIVERED | Seen.GAP) and offset >= self._sought_to:
                kind = "lost" if seen & Seen.RECEIPT else "skipped"
                self._tell(kind, f"{self._name} offset {offset} was never delivered")
        self._check_order()
        return counts[0], counts[1], counts[2]

    def _check_order(self) -> None:
        """Each source's records are stored in the order in which they were sent, each once."""
        last: dict[int, int] = {}
        places: dict[int, int] = {}
        for offset in range(self.end):
            record = self._records[offset]
            if not record:
                continue
            source, number = source_of(record), number_of(record)
            before = places.get(record)
            if before is not None and self._forgets and not self._seen[before] & Seen.RECEIPT:
                self.doubled += 1
            elif before is not None:
                where = f"{before} and {offset}"
                self._tell("duplicates", f"{self._name}: record {number} of source {source} stands at {where}")
            elif number <= last.get(source, 0):
                after = f"{number} of source {source} stands at {offset}, after {last[source]}"
                self._tell("disorder", f"{self._name}: record {after}")
            places[record] = offset
            if not self._forgets or self._seen[offset] & Seen.FRESH:
                last[source] = max(last.get(source, 0), number)

    def _advance(self, first: int, end: int) -> None:
        if self.is_sought:
            return
        if first > self.frontier:
            self.late.update(range(self.frontier, first))
        elif self.late:
            found = self.late.intersection(range(first, min(end, self.frontier)))
            if self._in_order:
                for offset in found:
                    self._tell("disorder", f"{self._name} offset {offset} was first delivered after later ones")
            self.late -= found
        self.frontier = max(self.frontier, end)

    def _place(self, offset: int, record: int, kind: str, how: str) -> None:
        known = self._records[offset]
        if known == 0:
            self._records[offset] = record
        elif known != record:
            was = f"record {number_of(known)} of source {source_of(known)}"
            now = f"record {number_of(record)} of source {source_of(record)}"
            self._tell(kind, f"{self._name} offset {offset} held {was}, and {how} {now}")

    def _grow(self, end: int) -> None:
        missing = end - len(self._seen)
        if missing > 0:
            more = missing + _GROWTH
            self._seen.extend(bytes(more))
            self._records.extend([0] * more)
            self._epochs.extend([0] * more)
        self.end = max(self.end, end)
