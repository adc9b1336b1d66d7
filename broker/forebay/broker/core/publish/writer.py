"""Idempotent publishing: what one writer has sent to one partition, and what a page with a sequence means.

The broker remembers the last ``WINDOW`` sequences with receipt and CRC. A sequence it knows is answered, not
appended again; one it cannot judge is refused as a gap, never taken for a duplicate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from forebay.broker.core.errors import SequenceConflict, SequenceGap

WINDOW: Final = 256


@dataclass(frozen=True, slots=True)
class Slot:
    """One accepted page of a writer."""

    sequence: int
    crc32: int
    first: int
    """Offset of its first record."""

    count: int
    """Number of records."""


@dataclass(frozen=True, slots=True)
class Forgotten:
    """A duplicate so old that its offsets are no longer known: it counts as success."""


class WriterWindow:
    """The window of one writer, epoch and partition."""

    __slots__ = ("_slots", "expected", "highest", "unconfirmed")

    def __init__(self, slots: tuple[Slot, ...] = ()) -> None:
        self._slots = {slot.sequence: slot for slot in slots}
        self.highest: int | None = max(self._slots, default=None)
        """Highest sequence accepted, or None before the first."""
        self.expected: int | None = None if self.highest is None else self.highest + 1
        """The next sequence; before the first acceptance, the first that arrived."""
        self.unconfirmed: set[int] = set()
        """Sequences accepted whose batch has not been confirmed."""

    def arrived(self, sequence: int) -> None:
        """A page has come: the first of all is the expected one until it is accepted."""
        if self.expected is None:
            self.expected = sequence

    def judge(self, partition: int, sequence: int, crc32: int) -> Slot | Forgotten | None:
        """Say what a page is: None for new, its slot or ``Forgotten`` for a duplicate.

        Raises:
            SequenceGap: an earlier page is missing.
            SequenceConflict: the sequence was used for other data.
        """
        expected = sequence if self.expected is None else self.expected
        self.expected = expected
        if sequence == expected:
            return None
        if sequence > expected or self.highest is None:
            raise SequenceGap(partition, sequence, expected)
        known = self._slots.get(sequence)
        if known is not None:
            if known.crc32 != crc32:
                raise SequenceConflict(partition, sequence)
            return known
        if sequence + WINDOW <= self.highest:
            return Forgotten()
        raise SequenceGap(partition, sequence, expected)

    def knows(self, slot: Slot) -> bool:
        """Whether a sequence is still in the window, for this page."""
        return self._slots.get(slot.sequence) == slot

    def accept(self, slot: Slot) -> None:
        """Take a new page in; its batch is on its way."""
        self._slots[slot.sequence] = slot
        self._slots.pop(slot.sequence - WINDOW, None)
        self.highest = slot.sequence
        self.expected = slot.sequence + 1
        self.unconfirmed.add(slot.sequence)

    def confirm(self, sequence: int) -> None:
        """The batch that stores the page is durable."""
        self.unconfirmed.discard(sequence)
