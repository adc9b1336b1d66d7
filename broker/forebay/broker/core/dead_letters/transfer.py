"""Records of one partition that are on their way to another sink, and what of it a batch already carries.

    waiting ──their page is queued──▶ queued ──its group is cut──▶ sealed ──the batch is durable──▶ settled

Until the last step nobody is told, and the account has not moved; but from the first on nobody is given these records
and no answer counts for them. What is sealed goes into every cursor that is written from then on, because the batch
with the records goes before it; a crash in between finds both, or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from forebay.broker.core.partition import ranges as sets
from forebay.broker.core.partition.cursor import Cursor, Settlement
from forebay.broker.core.partition.ranges import Range, RangeSet


class Moving:
    """The state of one subscription on one partition."""

    __slots__ = ("_ahead", "_queued", "_sealed", "_seen", "_waiting", "bases")

    def __init__(self) -> None:
        self._waiting: RangeSet = ()
        self._queued: RangeSet = ()
        self._sealed: dict[Settlement, RangeSet] = {}
        self._ahead: RangeSet = ()
        """Not yet records: settled in the batch that brings them."""
        self.bases: set[int] = set()
        """Where the pages of these records begin, as far as that is known: they are not dropped meanwhile."""
        self._seen: tuple[Cursor, Cursor] | None = None

    def __bool__(self) -> bool:
        return bool(self._waiting or self._queued or self._sealed or self._ahead)

    @property
    def records(self) -> int:
        """Records under way."""
        sealed = sum(sets.count(found) for found in self._sealed.values())
        return sets.count(self._waiting) + sets.count(self._queued) + sealed

    @property
    def fixed(self) -> RangeSet:
        """What nobody can hold back any more: another sink has it queued."""
        return sets.union(self._queued, *self._sealed.values())

    def loose(self, within: Range) -> list[Range]:
        """The parts of a range that are not ``fixed``."""
        parts = [within]
        for found in (self._queued, *self._sealed.values()):
            parts = [part for one in parts for part in sets.missing(found, one)] if found else parts
        return parts

    def within(self, asked: Range) -> bool:
        """Whether a part of ``asked`` is under way."""
        return any(sets.touches(found, asked) for found in (self._waiting, self._queued, *self._sealed.values()))

    def over(self, cursor: Cursor) -> Cursor:
        """The cursor as deliveries see it: what is under way counts as settled. What failed stays as it was."""
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
        seen, _ = self.stored(cursor).settle_all(sets.union(self._waiting, self._queued), Settlement.DEAD_LETTERED)
        self._seen = (cursor, seen)
        return seen

    def stored(self, cursor: Cursor) -> Cursor:
        """The cursor as it is written: what is sealed counts as settled."""
        for how, found in self._sealed.items():
            cursor, _ = cursor.settle_all(found, how)
        return cursor.settle_all(self._ahead, Settlement.SKIPPED)[0]

    def settled(self, before: Cursor, after: Cursor, parts: Sequence[Range]) -> None:
        """The cursor has settled parts; what it was before is what ``over`` has seen last, or made anew."""
        if self._seen is not None and self._seen[0] is before:
            self._seen = (after, self._seen[1].settle_all(parts, Settlement.ACKED)[0])

    # -- the way of a record

    def hold(self, parts: Sequence[Range]) -> None:
        """Unsettled records begin their way."""
        self._waiting = sets.add_all(self._waiting, parts)[0]
        if self._seen is not None:  # not made anew: records may be held one by one, thousands of them
            cursor, seen = self._seen
            self._seen = (cursor, seen.settle_all(parts, Settlement.DEAD_LETTERED)[0])

    def waiting_in(self, part: Range) -> list[Range]:
        """What of ``part`` is still waiting."""
        return list(sets.common(self._waiting, part))

    def queue(self, parts: Sequence[Range]) -> None:
        """Waiting records are in a page that is queued. The parts are apart, and in order."""
        self._waiting = _minus(self._waiting, parts)
        self._queued = sets.union(self._queued, parts)

    def seal(self, parts: Sequence[Range], how: Settlement) -> None:
        """The group that carries the page of queued records is cut. What a seek has taken out stays out."""
        found = [each for part in parts for each in sets.common(self._queued, part)]
        if found:
            self._queued = _minus(self._queued, found)
            self._sealed[how] = sets.union(self._sealed.get(how, ()), found)

    def confirm(self, parts: Sequence[Range], how: Settlement) -> list[Range]:
        """The batch is durable: returns what of the parts is to be settled now."""
        sealed = self._sealed.get(how, ())
        found = [each for part in parts for each in sets.common(sealed, part)]
        left = _minus(sealed, found)
        if left:
            self._sealed[how] = left
        else:
            self._sealed.pop(how, None)
        self._changed()
        return found

    def give_back(self, part: Range) -> list[Range]:
        """Waiting records will not go: returns what of ``part`` that is."""
        found = list(sets.common(self._waiting, part))
        for each in found:
            self._waiting = sets.without(self._waiting, each)
        self._changed()
        return found

    # -- records that are settled before they are there

    def seal_ahead(self, part: Range) -> None:
        """The group that brings the records of ``part`` is cut; this subscription has nothing to do with them."""
        self._ahead = sets.add(self._ahead, part)
        self._changed()

    def confirm_ahead(self, part: Range) -> list[Range]:
        """They are there: returns what is to be settled as skipped."""
        found = list(sets.common(self._ahead, part))
        for each in found:
            self._ahead = sets.without(self._ahead, each)
        self._changed()
        return found

    def forget(self) -> None:
        """The account was closed: what is under way goes on without it. What is not there yet stays settled."""
        self._waiting = self._queued = ()
        self._sealed.clear()
        self._changed()

    def _changed(self) -> None:
        """What counts as settled beside the cursor is less, or other, than it was."""
        self._seen = None
        if not self:
            self.bases.clear()


def _minus(ranges: RangeSet, gone: Sequence[Range]) -> RangeSet:
    """The set without any of ``gone``, which is in order and apart."""
    gone = tuple(gone)
    return tuple(part for each in ranges for part in sets.missing(gone, each)) if gone else ranges
