"""Records of one partition that are on their way to another sink, and what of it a batch already carries.

    waiting ──their page is queued──▶ queued ──its group is cut──▶ sealed ──the batch is durable──▶ settled

Until the last step nobody is told, and the account has not moved; but from the first on nobody is given these records
and no answer counts for them. What is sealed goes into every cursor that is written from then on, because the batch
with the records goes before it; a crash in between finds both, or none.
"""

from __future__ import annotations

from holdfast.broker.core import ranges as sets
from holdfast.broker.core.cursor import Cursor, Settlement
from holdfast.broker.core.ranges import Range, RangeSet


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
        found = self._queued
        for each in self._sealed.values():
            found = sets.union(found, each)
        return found

    def within(self, asked: Range) -> bool:
        """Whether a part of ``asked`` is under way."""
        return any(r.first < asked.end and asked.first < r.end for r in sets.union(self._waiting, self.fixed))

    def over(self, cursor: Cursor) -> Cursor:
        """The cursor as deliveries see it: what is under way counts as settled."""
        if not self:
            return cursor
        if self._seen is None or self._seen[0] is not cursor:
            seen = self.stored(cursor)
            for found in (*self._waiting, *self._queued):
                seen, _ = seen.settle(found, Settlement.DEAD_LETTERED)
            self._seen = (cursor, seen)
        return self._seen[1]

    def stored(self, cursor: Cursor) -> Cursor:
        """The cursor as it is written: what is sealed counts as settled."""
        for how, found in self._sealed.items():
            for part in found:
                cursor, _ = cursor.settle(part, how)
        for part in self._ahead:
            cursor, _ = cursor.settle(part, Settlement.SKIPPED)
        return cursor

    # -- the way of a record

    def hold(self, part: Range) -> None:
        """Unsettled records begin their way."""
        self._waiting = sets.add(self._waiting, part)
        self._changed()

    def waiting_in(self, part: Range) -> list[Range]:
        """What of ``part`` is still waiting."""
        return list(sets.common(self._waiting, part))

    def queue(self, part: Range) -> None:
        """Waiting records are in a page that is queued."""
        self._waiting = sets.without(self._waiting, part)
        self._queued = sets.add(self._queued, part)
        self._changed()

    def seal(self, part: Range, how: Settlement) -> None:
        """The group that carries the page of queued records is cut. What a seek has taken out stays out."""
        for found in list(sets.common(self._queued, part)):
            self._queued = sets.without(self._queued, found)
            self._sealed[how] = sets.add(self._sealed.get(how, ()), found)
        self._changed()

    def confirm(self, part: Range, how: Settlement) -> list[Range]:
        """The batch is durable: returns what of ``part`` is to be settled now."""
        sealed = self._sealed.get(how, ())
        found = list(sets.common(sealed, part))
        left = sealed
        for each in found:
            left = sets.without(left, each)
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
        self._seen = None
        if not self:
            self.bases.clear()
