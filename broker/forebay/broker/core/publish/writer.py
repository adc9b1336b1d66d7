"""Idempotent publishing: accepted pages of one writer in one partition, and judgement of a sequence.

The broker keeps the last ``WINDOW`` sequences with receipt and CRC. A known sequence is answered, not appended again. A
sequence that cannot be judged is rejected as a gap, never taken for a duplicate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from forebay.broker.core.errors import BrokerError
from forebay.errors.reasons import Reason

WINDOW: Final = 256


@dataclass(frozen=True, slots=True)
class Slot:
    """Accepted page of a writer."""

    sequence: int
    crc32: int
    first: int
    """Offset of its first record."""

    count: int
    """Number of records."""


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Duplicate so old that its offsets are no longer known: it counts as success."""


class WriterWindow:
    """Window of one writer, epoch and partition."""

    __slots__ = ("_slots", "expected", "highest", "unconfirmed")

    def __init__(self, slots: tuple[Slot, ...] = ()) -> None:
        self._slots = {slot.sequence: slot for slot in slots}
        self.highest: int | None = max(self._slots, default=None)
        """Highest sequence accepted, or None before the first."""
        self.expected: int | None = None if self.highest is None else self.highest + 1
        """Next sequence; before the first page is accepted, the first one that arrived."""
        self.unconfirmed: set[int] = set()
        """Sequences accepted whose batch has not been confirmed."""

    def arrived(self, sequence: int) -> None:
        """Note an arrived page: the first of all is the expected one until it is accepted."""
        if self.expected is None:
            self.expected = sequence

    def judge(self, partition: int, sequence: int, crc32: int) -> Slot | Forgotten | None:
        """Return None for a new page, its slot or ``Forgotten`` for a duplicate.

        Raises:
            SEQUENCE_GAP: an earlier page is missing.
            SEQUENCE_CONFLICT: the sequence was used for other data.
        """
        expected = sequence if self.expected is None else self.expected
        self.expected = expected
        if sequence == expected:
            return None
        if sequence > expected or self.highest is None:
            raise BrokerError(Reason.SEQUENCE_GAP, partition=partition, sequence=sequence, expected=expected)
        known = self._slots.get(sequence)
        if known is not None:
            if known.crc32 != crc32:
                raise BrokerError(Reason.SEQUENCE_CONFLICT, partition=partition, sequence=sequence)
            return known
        if sequence + WINDOW <= self.highest:
            return Forgotten()
        raise BrokerError(Reason.SEQUENCE_GAP, partition=partition, sequence=sequence, expected=expected)

    def knows(self, slot: Slot) -> bool:
        """Return whether the window still has this page under its sequence."""
        return self._slots.get(slot.sequence) == slot

    def accept(self, slot: Slot) -> None:
        """Add a new page, whose batch is pending."""
        self._slots[slot.sequence] = slot
        self._slots.pop(slot.sequence - WINDOW, None)
        self.highest = slot.sequence
        self.expected = slot.sequence + 1
        self.unconfirmed.add(slot.sequence)

    def confirm(self, sequence: int) -> None:
        """Mark a page as durable."""
        self.unconfirmed.discard(sequence)
