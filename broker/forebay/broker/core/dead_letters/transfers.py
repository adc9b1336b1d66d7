"""Transfer of records of one partition to another sink: their state until the batch is durable.

    waiting ──their page is queued──▶ queued ──its group is cut──▶ sealed ──the batch is durable──▶ settled

Until the last step no caller gets an answer, and the account does not change. From the first step on no consumer
receives these records, and answers to them have no effect. Every cursor that is written from then on includes the
sealed records, because the batch with the records is written first. A crash in between finds both or neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from forebay.broker.core.partition import ranges as sets
from forebay.broker.core.partition.cursor import Cursor, Settlement
from forebay.broker.core.partition.ranges import Range, RangeSet


class Transfers:
    """Transfers of one subscription on one partition."""

    __slots__ = ("_ahead", "_queued", "_sealed", "_seen", "_waiting", "bases")

    def __init__(self) -> None:
        self._waiting: RangeSet = ()
        self._queued: RangeSet = ()
        self._sealed: dict[Settlement, RangeSet] = {}
        self._ahead: RangeSet = ()
        """Records that do not exist yet: they are settled in the batch that appends them."""
        self.bases: set[int] = set()
        """Base offsets of the pages of these records, as far as known: such pages are not dropped until then."""
        self._seen: tuple[Cursor, Cursor] | None = None

    def __bool__(self) -> bool:
        return bool(self._waiting or self._queued or self._sealed or self._ahead)

    @property
    def records(self) -> int:
        """Number of records in transfer."""
        sealed = sum(sets.count(found) for found in self._sealed.values())
        return sets.count(self._waiting) + sets.count(self._queued) + sealed

    @property
    def fixed(self) -> RangeSet:
        """Records whose transfer can no longer be stopped: another sink has queued them."""
        return sets.union(self._queued, *self._sealed.values())

    def cancellable(self, within: Range) -> list[Range]:
        """Return the parts of a range that are not ``fixed``."""
        parts = [within]
        for found in (self._queued, *self._sealed.values()):
            parts = [part for one in parts for part in sets.missing(found, one)] if found else parts
        return parts

    def within(self, requested: Range) -> bool:
        """Return whether a part of ``requested`` is in transfer."""
        return any(sets.touches(found, requested) for found in (self._waiting, self._queued, *self._sealed.values()))

    def view_of(self, cursor: Cursor) -> Cursor:
        """Return the cursor for deliveries: records in transfer count as settled; failures stay."""
        if not self:
            return cursor
        if self._seen is not None:
            known, seen = self._seen
            if known is cursor:
                return seen
            if known.watermark == cursor.watermark and known.beyond is cursor.beyond:
                seen = replace(cursor, watermark=seen.watermark, beyond=seen.beyond)
                self._seen = (cursor, seen)
                return seen
        seen, _ = self.cursor_to_store(cursor).settle_all(
            sets.union(self._waiting, self._queued), Settlement.DEAD_LETTERED
        )
        self._seen = (cursor, seen)
        return seen

    def cursor_to_store(self, cursor: Cursor) -> Cursor:
        """Return the cursor as it is written: sealed records count as settled."""
        for how, found in self._sealed.items():
            cursor, _ = cursor.settle_all(found, how)
        return cursor.settle_all(self._ahead, Settlement.SKIPPED)[0]

    def settled(self, before: Cursor, after: Cursor, parts: Sequence[Range]) -> None:
        """Update the cached view after the cursor has settled parts."""
        if self._seen is not None and self._seen[0] is before:
            self._seen = (after, self._seen[1].settle_all(parts, Settlement.ACKED)[0])

    # -- steps of a transfer

    def begin(self, parts: Sequence[Range]) -> None:
        """Begin the transfer of unsettled records."""
        self._waiting = sets.add_all(self._waiting, parts)[0]
        if self._seen is not None:  # updated, not rebuilt: thousands of records may be held one by one
            cursor, seen = self._seen
            self._seen = (cursor, seen.settle_all(parts, Settlement.DEAD_LETTERED)[0])

    def waiting_in(self, part: Range) -> list[Range]:
        """Return the parts of ``part`` that are waiting."""
        return list(sets.common(self._waiting, part))

    def queue(self, parts: Sequence[Range]) -> None:
        """Mark waiting records as queued with their page. The parts are disjoint and sorted."""
        self._waiting = _minus(self._waiting, parts)
        self._queued = sets.union(self._queued, parts)

    def seal(self, parts: Sequence[Range], how: Settlement) -> None:
        """Mark queued records as sealed: their group is cut. Records that a seek has removed stay removed."""
        found = [each for part in parts for each in sets.common(self._queued, part)]
        if found:
            self._queued = _minus(self._queued, found)
            self._sealed[how] = sets.union(self._sealed.get(how, ()), found)

    def confirm(self, parts: Sequence[Range], how: Settlement) -> list[Range]:
        """Return the parts to settle now that the batch is durable."""
        sealed = self._sealed.get(how, ())
        found = [each for part in parts for each in sets.common(sealed, part)]
        left = _minus(sealed, found)
        if left:
            self._sealed[how] = left
        else:
            self._sealed.pop(how, None)
        self._changed()
        return found

    def cancel(self, part: Range) -> list[Range]:
        """Cancel the transfer of waiting records; returns those of ``part``."""
        found = list(sets.common(self._waiting, part))
        for each in found:
            self._waiting = sets.without(self._waiting, each)
        self._changed()
        return found

    # -- records that are settled before they exist

    def seal_ahead(self, part: Range) -> None:
        """Mark new records as settled for this subscription: the group that appends them is cut."""
        self._ahead = sets.add(self._ahead, part)
        self._changed()

    def confirm_ahead(self, part: Range) -> list[Range]:
        """Return the new records to settle as skipped now that they are durable."""
        found = list(sets.common(self._ahead, part))
        for each in found:
            self._ahead = sets.without(self._ahead, each)
        self._changed()
        return found

    def close(self) -> None:
        """Remove the transfers of a closed account. The other sink completes them.

        Records that do not exist yet stay settled.
        """
        self._waiting = self._queued = ()
        self._sealed.clear()
        self._changed()

    def _changed(self) -> None:
        """Invalidate the cached view after the settled set shrank or changed."""
        self._seen = None
        if not self:
            self.bases.clear()


def _minus(ranges: RangeSet, gone: Sequence[Range]) -> RangeSet:
    """Return the set without the ranges of ``gone``, which are sorted and disjoint."""
    gone = tuple(gone)
    return tuple(part for each in ranges for part in sets.missing(gone, each)) if gone else ranges
